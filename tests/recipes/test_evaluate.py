"""The measurements of the voice's evaluation, on sounds with known results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from recipes.voice.evaluation import behaviour, evaluate, heldout, voice_similarity
from recipes.voice.evaluation.report import table, write_report
from recipes.voice.evaluation.speech_metrics import (
    VoiceSimilarity,
    edits,
    silences,
    voice_print,
    word_errors,
    words,
)
from recipes.voice.evaluation.subject import Subject
from recipes.voice.styles import CAST

RATE = 24_000


def tone(frequency: float, seconds: float, seed: int = 0) -> NDArray[np.float32]:
    """Make a tone with overtones and a little noise."""
    rng = np.random.default_rng(seed)
    times = np.arange(int(RATE * seconds)) / RATE
    overtones = [np.sin(2 * np.pi * frequency * n * times) / n for n in range(1, 6)]
    sound = np.sum(overtones, axis=0)
    noisy = 0.2 * sound + 0.01 * rng.standard_normal(len(times))
    samples: NDArray[np.float32] = noisy.astype(np.float32)
    return samples


def test_words_leave_tags_and_marks_out() -> None:
    assert words("Don't [uv_break] go, ok?[laugh]") == ["don't", "go", "ok"]


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("expected", "found", "wrong"),
    [("a b c", "a b c", 0), ("a b c", "a x c", 1), ("a b c", "a c", 1), ("", "a b", 2)],
)
def test_edits_are_the_distance_in_words(expected: str, found: str, wrong: int) -> None:
    assert edits(expected.split(), found.split()) == wrong


def test_the_rate_is_over_all_words() -> None:
    found = word_errors(["one two three.", "four."], [["one", "two", "tree"], []])
    assert (found.wrong, found.total, found.rate) == (2, 4, 50.0)


def test_silences_are_those_between_sounds() -> None:
    gap, edge = np.zeros(int(0.3 * RATE), np.float32), np.zeros(RATE, np.float32)
    sound = np.concatenate([edge, tone(150, 1), gap, tone(150, 1), edge])
    (found,) = (seconds for seconds in silences(sound) if seconds > 0.05)
    assert found == pytest.approx(0.3, abs=0.03)
    assert silences(np.zeros(RATE, np.float32)) == []


def test_voices_are_told_apart_whatever_their_loudness() -> None:
    low = [tone(90, 1, n) for n in range(3)]
    high = [tone(230, 1, n) for n in range(3)]
    measure = VoiceSimilarity.of(
        {"low": [voice_print(s) for s in low], "high": [voice_print(s) for s in high]}
    )
    near = measure.similarities(np.float32(0.5) * tone(90, 1, seed=9))
    assert near["low"] > 0.5 > 0 > near["high"]


class FakeSubject(Subject):
    """A fake subject that speaks a tone; its length follows the speed, and breaks are silent."""

    checksum = "5ee"
    pause = 0.4

    def say(self, lines: Any, *_: Any, **code: Any) -> Any:
        pace = int(code.get("prompt", "[speed_5]")[7])
        gap = np.zeros(int(self.pause * RATE), np.float32)
        said = tone(150, 1.08 ** (5 - pace))
        return [np.concatenate([said, gap, said]) if "[uv" in line else said for line in lines]


def earlier(folder: Path, checksum: str) -> None:
    """Results of a checkpoint, of which one part was measured."""
    results = {
        "checkpoint": {"checksum": checksum, "counts": {"laughs": 2}},
        "laughs": {"sentences": 2, "median_seconds": 0.5},
    }
    (folder / "results.json").write_text(json.dumps(results), encoding="utf-8")


def test_parts_are_written_and_earlier_results_kept(tmp_path: Path) -> None:
    earlier(tmp_path, "5ee")
    results = evaluate.evaluate(FakeSubject(), tmp_path, ["speed"], count=2)
    assert results["speed"]["monotonic"]
    assert results["speed"]["ratios"] == pytest.approx(results["speed"]["wanted"], abs=0.002)
    text = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert "longer by | 0.5 s" in text
    assert "| length at [speed_0] to [speed_9] | 1.47 " in text
    assert results == json.loads((tmp_path / "results.json").read_text("utf-8"))
    assert results.keys() == {"checkpoint", "laughs", "speed"}


def test_what_was_measured_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = {name: evaluate.PARTS[name] for name in ("laughs", "pauses")}
    monkeypatch.setattr(evaluate, "PARTS", parts)
    earlier(tmp_path, "5ee")
    first = evaluate.evaluate(FakeSubject(), tmp_path, count=2)
    assert first["laughs"]["median_seconds"] == 0.5
    assert first["checkpoint"]["counts"] == {"laughs": 2, "pauses": 2}
    # On more sentences, or of another checkpoint, it is.
    assert evaluate.evaluate(FakeSubject(), tmp_path, count=3)["laughs"]["median_seconds"] == 0
    earlier(tmp_path, "another")
    assert evaluate.evaluate(FakeSubject(), tmp_path, count=2)["laughs"]["median_seconds"] == 0
    aside = json.loads((tmp_path / "results-another.json").read_text("utf-8"))
    assert aside["laughs"]["median_seconds"] == 0.5


@pytest.mark.parametrize(("pause", "paused", "longer"), [(0.05, 0, 0), (0.4, 100, 0), (1.2, 0, 3)])
def test_pauses_are_neither_short_nor_long(pause: float, paused: int, longer: int) -> None:
    subject = FakeSubject()
    subject.pause = pause
    found = behaviour.pauses(subject, 3)
    assert (found["with"]["paused"], found["with"]["longer"]) == (paused, longer)
    assert found["without"]["paused"] == 0


def test_steadiness_is_of_each_piece_to_the_others() -> None:
    subject = Subject()
    prints = {"low": [voice_print(tone(90, 1))], "high": [voice_print(tone(230, 1))]}
    subject.voice_similarity = VoiceSimilarity.of(prints)
    one, two = tone(90, 5.1), tone(230, 5)
    steady = voice_similarity._steadiness(subject, np.concatenate([one, one, one]))
    drifting = voice_similarity._steadiness(subject, np.concatenate([one, one, two]))
    assert steady is not None
    assert drifting is not None
    assert steady > 0.9 > 0 > drifting
    assert voice_similarity._steadiness(subject, one) is None
    assert voice_similarity._steadiness(subject, one[:0]) is None


def test_what_refining_adds_is_counted() -> None:
    refined = ["um, i [uv_break] see. [laugh]", "so it [uv_break] is."]
    assert behaviour._added(refined, ["i see.", "so it is."]) == {
        "breaks": 2, "laughs": 1, "fillers": 1
    }  # fmt: skip


def test_sentences_are_strung_together_in_their_order() -> None:
    lines = ["is it one?", "two and three.", "four, or five.", "six."]
    assert heldout.strings(lines, 6) == ["is it one, two and three.", "four, or five, six."]
    assert heldout.strings(["a b c d.", "e."], 4) == ["a b c d."]  # e is too short alone
    assert heldout.strings([]) == []


def test_faults_of_requests_are_named() -> None:
    wave = tone(150, 1)
    assert behaviour._fault(wave, "stop", 1) is None
    assert behaviour._fault(wave[:0], "stop", 1) == "empty"
    assert behaviour._fault(wave, "length", 1) == "runaway"
    assert behaviour._fault(wave, "stop", 0.5) == "runaway"
    assert behaviour._fault(wave, "stop", 2) == "early"


def test_a_table_has_lines_for_measured_parts_only(tmp_path: Path) -> None:
    assert table({}).count("\n") == 2
    voice = {"to": dict.fromkeys(CAST, 0.1), "steady": 0.9}
    voice |= {"identified": 100.0, "identified_from_sample": 95.0}
    results = {"similarity": dict.fromkeys(CAST, voice)}
    write_report(results, tmp_path)
    assert table(results).count("recognised | 100.0 %") == len(CAST)
    pytest.importorskip("matplotlib")
    assert (tmp_path / "similarity.png").stat().st_size > 1000
