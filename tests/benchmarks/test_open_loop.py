"""What a listener hears under open arrivals, by hand-made arrivals."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from benchmarks.serving.clients import Asked
from benchmarks.serving.listening import AUDIBLE, RATE, Gaps, Listening
from benchmarks.serving.measured_server import MeasuredServer, value_of
from benchmarks.serving.mixture import mixture
from benchmarks.serving.open_loop import Load, OpenLoopFigures, highest_rate
from ChatTTS.audio import read

SECOND = 2 * RATE


def heard(*arrivals: tuple[float, float], loud_from: float = 0.0) -> Listening:
    """Return an answer whose parts came at some seconds, each with its seconds of sound."""
    listening = Listening()
    samples = np.zeros(round(sum(seconds for _, seconds in arrivals) * RATE), dtype="<i2")
    samples[round(loud_from * RATE) :] = AUDIBLE
    listening._sound += samples.tobytes()
    listening.arrivals += [(moment, round(seconds * SECOND)) for moment, seconds in arrivals]
    return listening


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("arrivals", "buffer", "expected"),
    [
        ([(1.0, 0.5), (1.4, 0.5)], 0.0, Gaps()),
        ([(1.0, 0.5), (1.75, 0.5)], 0.0, Gaps(1, 0.25)),
        ([(1.0, 0.5), (1.75, 0.25), (2.5, 0.5)], 0.0, Gaps(2, 0.75)),
        # The player begins at 1.25, so it has sound until 2.25.
        ([(1.0, 0.5), (1.25, 0.5), (2.25, 0.5)], 0.75, Gaps()),
        ([(1.0, 0.5), (1.25, 0.5), (2.5, 0.5)], 0.75, Gaps(1, 0.25)),
        # It never has so much sound, and begins with all of it.
        ([(1.0, 0.5), (3.0, 0.5)], 5.0, Gaps()),
    ],
)
def test_gaps_of_a_player(
    arrivals: Sequence[tuple[float, float]], buffer: float, expected: Gaps
) -> None:
    assert heard(*arrivals).gaps(buffer) == expected


@pytest.mark.smoke
def test_silence_at_the_begin_is_waited_for() -> None:
    assert heard((1.0, 0.5)).audible == 1.0
    assert heard((1.0, 0.5), (1.25, 0.5), loud_from=0.25).audible == 1.25
    assert heard((1.0, 0.25), (3.0, 0.5), loud_from=0.5).audible == 3.0  # it comes too late
    assert heard((1.0, 0.5), loud_from=0.5).audible is None


@pytest.mark.smoke
def test_the_mixture_has_short_and_long_texts_and_repeats() -> None:
    texts = mixture(40)
    counts = sorted(len(text.split()) for text in texts)
    assert counts[0] <= 4
    assert 40 <= counts[-1] <= 60
    assert 8 <= sum(count <= 6 for count in counts) <= 20
    assert mixture(40) == texts != mixture(40, seed=2)


@pytest.mark.smoke
def test_the_search_ends_at_the_rate_that_fails_twice() -> None:
    """A server that answers at once, but wrongly from some request on."""
    asked = [Asked("a", 1), Asked("b", 2)]
    count = 0

    async def ask(_: Asked) -> Listening:
        nonlocal count
        count += 1
        answer = heard((0.001, 0.01))
        if count > 40:
            answer.error = "503"
        return answer

    load = Load(MeasuredServer({}), [ask], asked)

    async def search() -> list[float]:
        await load.learn()
        return [figures.rate for figures in await highest_rate(load, 400.0, 50.0, 0.05)]

    rates = asyncio.run(search())
    assert rates[0] == 400.0
    assert rates[-1] == rates[-2]
    assert sorted(set(rates)) == sorted({*rates[:-1]})


@pytest.mark.smoke
def test_figures_survive_answers_that_failed() -> None:
    async def ask(_: Asked) -> Listening:
        answer = heard()
        answer.error = "503"
        return answer

    load = Load(MeasuredServer({}), [ask], [Asked("a", 1)])
    figures = asdict(asyncio.run(load.run(400.0, 0.05)))
    assert list(figures["errors"]) == ["503"]
    assert OpenLoopFigures(**figures).errors["503"] == figures["sent"] > 0


@pytest.mark.smoke
def test_values_of_fields_are_json_or_text() -> None:
    assert [value_of(text) for text in ("true", "0.5", "af_heart", "")] == [
        True,
        0.5,
        "af_heart",
        "",
    ]


@pytest.mark.smoke
def test_lone_answers_are_kept_with_their_texts(tmp_path: Path) -> None:
    async def ask(_: Asked) -> Listening:
        return heard((0.001, 0.01))

    asyncio.run(Load(MeasuredServer({}), [ask], [Asked("a", 1)]).learn(tmp_path))
    assert (tmp_path / "000.txt").read_text(encoding="utf-8") == "a"
    assert read(tmp_path / "000.wav")[1] == RATE
