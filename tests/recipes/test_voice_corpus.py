"""The new voice's corpus: what is spoken, and the folder of takes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from recipes.voice import corpus
from recipes.voice.corpus import DEFAULT_SPEED, SHARD, Plan, Request, drawn_place
from recipes.voice.styles import CAST, RANDOM_SPREAD, VOICES, StyleSpace, mixture
from recipes.voice.takes import TEACHER_FRAME, Line, Take, Takes, is_whole, write_shard
from recipes.voice.teacher import levelled

LINES = {
    "en": [Line("Hello.", "en", "həlˈO."), Line("Yes.", "en", "jˈɛs.")],
    "zh": [Line("你好。", "zh", "ni↗xau↓.")],
}


class Voice:
    """A teacher that says every phoneme as a tone of its own, in five frames."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def speak(self, line: Line, weights: NDArray[np.floating], speed: float) -> Take:
        self.lines.append(line)
        frames = np.full(len(line.phonemes) + 2, 5, np.int32)
        times = np.arange(frames.sum() * TEACHER_FRAME)
        samples = (0.1 * np.sin(times * speed / 10)).astype(np.float32)
        return Take(line, weights.astype(np.float32), speed, samples, frames)


@pytest.fixture(scope="module")
def plan() -> Plan:
    tables = np.random.default_rng(0).standard_normal((len(VOICES), 110, 256)).astype(np.float32)
    return Plan(3, LINES, StyleSpace.of(tables))


def same(one: Request, other: Request) -> bool:
    return one.line == other.line and np.array_equal(one.weights, other.weights)


def test_a_request_is_a_function_of_its_index(plan: Plan) -> None:
    again = Plan(3, LINES, plan.space)
    assert all(same(plan[index], again[index]) for index in range(20))
    assert not all(same(plan[index], plan[index + 1]) for index in range(20))
    assert not all(same(plan[index], Plan(4, LINES, plan.space)[index]) for index in range(20))


def test_speakers_are_mixtures_and_come_in_their_shares(plan: Plan) -> None:
    requests = [plan[index] for index in range(3000)]
    assert np.allclose([request.weights.sum() for request in requests], 1)
    cast = {name: mixture(person.weights).tobytes() for name, person in CAST.items()}
    said = Counter((request.line.language, request.weights.tobytes()) for request in requests)
    times = {
        (name, language): said[language, key] for name, key in cast.items() for language in LINES
    }
    assert sum(times.values()) / len(requests) == pytest.approx(0.46, abs=0.03)
    assert times["clara", "en"] > 1.5 * times["miles", "en"] > 2 * times["miles", "zh"] > 0
    assert times["lan", "zh"] > 1.5 * times["ming", "zh"] > 2 * times["ming", "en"] > 0
    negative = np.mean([(request.weights < 0).any() for request in requests])
    assert negative == pytest.approx(0.35, abs=0.03)


def test_speeds_step_by_eight_percent(plan: Plan) -> None:
    requests = [plan[index] for index in range(500)]
    speeds = Counter(request.speed for request in requests)
    assert set(speeds) == set(range(10))
    assert speeds[DEFAULT_SPEED] / len(requests) == pytest.approx(0.64, abs=0.06)
    paces = {request.speed: request.pace for request in requests}
    assert paces[5] == 1
    assert paces[9] / paces[8] == pytest.approx(1.08)


def test_random_speakers_spread_as_the_statistics_say(plan: Plan) -> None:
    from recipes.voice.counter_rng import CounterRng

    places = np.stack([drawn_place(CounterRng(0, index)) for index in range(2000)])
    assert np.allclose(places.std(axis=0), RANDOM_SPREAD, atol=0.05)
    assert np.allclose(places.mean(axis=0), 0, atol=0.06)


def test_takes_are_read_as_they_were_written(plan: Plan, tmp_path: Path) -> None:
    takes = [Voice().speak(plan[i].line, plan[i].weights, plan[i].pace) for i in range(3)]
    write_shard(tmp_path, 0, takes[:2])
    write_shard(tmp_path, 7, takes[2:])
    found = Takes(tmp_path)
    assert len(found) == 3
    assert found.seconds == pytest.approx(sum(take.seconds for take in takes))
    for one, other in zip(takes, found, strict=True):
        assert one.line == other.line
        assert np.allclose(one.samples, other.samples, atol=2e-5)
        assert np.allclose(one.weights, other.weights, atol=1e-5)
        assert np.array_equal(one.frames, other.frames)
        assert one.speed == pytest.approx(other.speed, abs=1e-5)
    assert [take.line for take in found[1:]] == [take.line for take in takes[1:]]


def test_a_phoneme_starts_after_all_frames_before_it() -> None:
    take = Voice().speak(LINES["en"][1], mixture({"af_heart": 1}), 1)
    assert take.starts.tolist() == [3000 * place for place in range(1, 6)]
    assert take.starts[-1] + 2 * 3000 == len(take.samples)


def test_a_stopped_corpus_goes_on_where_it_was(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    teacher: Any = Voice()
    corpus.speak(teacher, plan, whole, 3)
    corpus.speak(teacher, plan, parted, 3, part=1, parts=2)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", stop)
        with pytest.raises(KeyboardInterrupt):
            corpus.speak(teacher, plan, parted, 3)
    assert [is_whole(parted, shard) for shard in range(3)] == [False, True, False]
    assert len(Takes(parted)) == SHARD
    spoken = len(teacher.lines)
    corpus.speak(teacher, plan, parted, 3)
    assert len(teacher.lines) == spoken + 2 * SHARD
    files = sorted(path.name for path in whole.iterdir())
    assert len(files) == 6
    for name in files:
        assert (whole / name).read_bytes() == (parted / name).read_bytes()


def test_all_takes_are_about_equally_loud() -> None:
    speech = np.sin(np.arange(24_000)).astype(np.float32)
    quiet, loud = levelled(0.05 * speech), levelled(0.9 * speech)
    assert np.allclose(quiet, loud, rtol=0.05, atol=0.01)
    assert np.sqrt(np.mean(loud**2)) == pytest.approx(0.1, abs=0.005)
    assert np.array_equal(levelled(np.zeros(100, np.float32)), np.zeros(100, np.float32))
    click = np.where(np.arange(24_000) == 5, 1.0, 0.02).astype(np.float32)
    assert np.abs(levelled(click)).max() == pytest.approx(0.95)
