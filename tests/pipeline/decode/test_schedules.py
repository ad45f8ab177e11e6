"""Schedules of pieces, the beginning of low-latency streams, and fades between chunks."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from ChatTTS.audio.samples import SAMPLE_RATE
from ChatTTS.errors import ConfigError
from ChatTTS.params import LowLatency, as_low_latency
from ChatTTS.pipeline.decode.schedules import FixedSize, JustInTime, PlaybackClock, WholeUtterance
from ChatTTS.pipeline.decode.utterance_decoder import CrossFade

# ---------------------------------------------------------------- schedules

HOP, SPF, REACH = 256, 512, 104  # of the full size: samples, samples, mel frames
FRAME = SPF / SAMPLE_RATE  # seconds


class Clock:
    """A clock in seconds that moves when the test moves it."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Heard:
    """The result of a simulated playback.

    Attributes:
        first: seconds to the first sound.
        pieces: frames of each piece.
        leads: seconds of sound that were left when each piece came; negative after a pause.
    """

    first: float = 0.0
    pieces: list[float] = field(default_factory=list)
    leads: list[float] = field(default_factory=list)

    @property
    def pauses(self) -> list[float]:
        """The sizes, in frames, of the pieces that ended a pause."""
        return [n for n, lead in zip(self.pieces, self.leads, strict=True) if lead < -1e-9]


def steady(speed: float) -> Callable[[int], float]:
    """Return the seconds that each step takes at this speed, in multiples of real time."""
    return lambda _: FRAME / speed


def play(
    step: Callable[[int], float],
    cost: Callable[[int], float],
    *,
    is_held_up: bool = False,
    frames: int = 500,
) -> Heard:
    """Simulate an engine, and a vocoder that stops the engine while it decodes.

    Args:
        step: seconds in which the engine makes a frame.
        cost: seconds for decoding a number of frames.
        is_held_up: whether the next step has always begun when a frame arrives.
    """
    clock, heard = Clock(), Heard()
    playback = PlaybackClock(clock)
    schedule = JustInTime(playback, SPF)
    came = taken = given = 0
    due: float | None = None

    def look() -> float | None:
        ready = max(0, 2 * came - REACH) * HOP - given
        wait = schedule.wait(ready, came - taken, came)
        return None if wait is None else clock.now + wait

    while came < frames:
        if due is None and (at := look()) is not None and at <= clock.now + step(came):
            due = at
        was_due = due is not None
        clock.now += step(came)
        came += 1
        if due is None and look() == clock.now:
            due = clock.now
        if due is None or (is_held_up and not was_due):
            continue
        clock.now += cost(came - taken)
        taken = came
        if (samples := max(0, 2 * taken - REACH) * HOP - given) > 0:
            heard.first = heard.first or clock.now - Clock.now
            heard.leads.append(playback.lead if playback.has_begun else 0.0)
            heard.pieces.append(samples / SPF)
            playback.give(samples, clock.now - due)
            given += samples
        due = None
    return heard


def test_frames_before_the_first_sample_are_left_where_launches_are_what_costs() -> None:
    playback = PlaybackClock(Clock())
    feeds, waits = JustInTime(playback, SPF), JustInTime(playback, SPF, feeds=False)
    assert feeds.wait(0, 8, 8) == 0.0
    assert waits.wait(0, 50, 50) is None
    assert waits.wait(4 * SPF, 54, 54) == 0.0


def costs(fixed: float, per_frame: float = 0.0005) -> Callable[[int], float]:
    return lambda frames: fixed + per_frame * frames


@pytest.mark.parametrize("is_held_up", [False, True])
@pytest.mark.parametrize("fixed", [0.002, 0.005, 0.015])
@pytest.mark.parametrize("speed", [1.05, 1.2, 1.5, 2, 5])
def test_no_pause_where_real_time_is_possible(speed: float, fixed: float, is_held_up: bool) -> None:
    heard = play(lambda _: FRAME / speed, costs(fixed), is_held_up=is_held_up)
    # Real time is possible where pieces of the largest size keep up with the playback.
    if 1 / speed + costs(fixed)(24) / (24 * FRAME) < 1:
        assert heard.pauses == []
    if speed >= 2:  # a fast device begins at once, and its pieces grow
        assert heard.pieces[0] <= 5
        assert max(heard.pieces) >= 24
    if speed >= 5:
        assert len(heard.pieces) < 500 / 20
    assert max(heard.pieces) <= 25


def test_no_pause_at_other_costs_and_reaches() -> None:
    dice, plays = random.Random(1), 0
    while plays < 200:
        speed, fixed = dice.uniform(1.02, 3), dice.uniform(0.001, 0.02)
        cost = costs(fixed, dice.uniform(0.0002, 0.003))
        if 1 / speed + cost(16) / (16 * FRAME) < 1:
            heard = play(steady(speed), cost, is_held_up=dice.random() < 0.5)
            assert heard.pauses == []
            plays += 1


def test_the_less_time_there_is_the_more_is_gathered_first() -> None:
    firsts = [play(steady(speed), costs(0.005)).pieces[0] for speed in (1.05, 1.2, 1.5, 2, 5)]
    assert firsts == sorted(firsts, reverse=True)
    assert firsts[0] == 24
    assert 4 < firsts[2] <= 8
    assert firsts[-1] == 4


def test_after_a_pause_whole_first_pieces_come_and_no_other_pause() -> None:
    def step(frame: int) -> float:
        return FRAME * (3 if 150 <= frame < 180 else 0.6)

    heard = play(step, costs(0.005), frames=800)
    assert 1 <= len(heard.pauses) <= 3
    assert all(frames >= 4 for frames in heard.pauses)
    last = max(i for i, lead in enumerate(heard.leads) if lead < 0)
    assert sum(heard.pieces[: last + 1]) < 200
    assert heard.pieces[-2] >= 24


def test_a_device_below_real_time_pauses_seldom() -> None:
    heard = play(lambda _: FRAME * 1.25, costs(0.005), frames=600)
    assert all(frames >= 24 for frames in heard.pauses)
    assert 0 < len(heard.pauses) <= 600 / 24
    # Only a few small pieces come before each pause.
    assert len(heard.pieces) < 600 / 4


def test_what_there_is_to_wait_for() -> None:
    clock = Clock()
    playback = PlaybackClock(clock)
    paced = JustInTime(playback, SPF, first=4, max_frames=24)
    assert paced.wait(-900, 7, 7) is None
    assert paced.wait(0, 8, 8) == 0
    assert paced.wait(3 * SPF, 3, 11) is None
    clock.now += 0.1
    assert paced.wait(4 * SPF, 4, 12) == 0
    playback.give(4 * SPF, 0.01)
    lead = 4 * FRAME
    # Small pieces take no longer than the last one did, larger ones may.
    assert paced.wait(SPF, 1, 13) == pytest.approx(lead - 0.01 - 0.02)
    assert paced.wait(5 * SPF, 5, 17) == pytest.approx(lead - 2 * 0.01 - 0.02)
    assert paced.wait(24 * SPF, 24, 36) == 0
    clock.now += lead - 0.02
    assert paced.wait(SPF, 1, 13) == 0
    clock.now += 0.011  # too late, whatever the size of the piece
    assert paced.wait(SPF, 1, 13) is None
    assert paced.wait(24 * SPF, 24, 36) == 0


def test_frames_that_are_all_there_are_not_slow() -> None:
    clock = Clock()
    paced = JustInTime(PlaybackClock(clock), SPF)
    assert paced.wait(-5 * SPF, 0, 60) is None
    clock.now += 5
    assert paced.wait(4 * SPF, 4, 64) == 0


def test_a_listener_hears_from_the_first_sample_on() -> None:
    clock = Clock()
    playback = PlaybackClock(clock)
    assert not playback.has_begun
    assert playback.lead < 0
    playback.give(SAMPLE_RATE, 0.25)
    assert playback.has_begun
    assert playback.lead == pytest.approx(1)
    clock.now += 0.75
    assert playback.lead == pytest.approx(0.25)
    playback.give(SAMPLE_RATE // 2, 0)
    assert playback.lead == pytest.approx(0.75)
    clock.now += 10
    assert playback.lead == pytest.approx(-9.25)
    playback.give(SAMPLE_RATE, 0)  # the late samples are played later
    assert playback.lead == pytest.approx(1)
    # The longest delay, slowly forgotten.
    assert playback.delay == pytest.approx(0.25 * 0.9**2)
    playback.give(1, 7)
    assert playback.delay == 7


def test_batches_wait_for_frames_alone() -> None:
    batches = FixedSize(6, SPF)
    assert batches.wait(-9 * SPF, 5, 5) is None
    assert batches.wait(0, 6, 6) == 0  # fed ahead
    assert batches.wait(1, 60, 60) is None
    assert batches.wait(6 * SPF - 1, 6, 66) is None
    assert batches.wait(6 * SPF, 1, 67) == 0
    assert WholeUtterance().wait(10**9, 10**6, 10**6) is None


# ---------------------------------------------------------------- low latency

SETTINGS = [
    LowLatency(),
    LowLatency(first=1, lookahead=1, growth=1.5, largest=1),
    LowLatency(first=3, lookahead=2, growth=1.01, largest=4),
    LowLatency(first=4, lookahead=4, growth=2, largest=100, fade=0),
    LowLatency(first=9, lookahead=51, growth=7.5, largest=9),
]


@pytest.mark.parametrize("numbers", SETTINGS)
@pytest.mark.parametrize("reach", [52, 10.5, 1])
def test_chunks_grow_until_the_reach(numbers: LowLatency, reach: float) -> None:
    chunks = list(numbers.chunks(reach))
    assert (not chunks) == (numbers.lookahead >= reach)
    if not chunks:
        return
    assert chunks[0] == (numbers.first + numbers.lookahead, numbers.first)
    needed, given = (np.array(column) for column in zip(*chunks, strict=True))
    sizes, lookaheads = np.diff(given, prepend=0), needed - given
    assert (np.diff(needed) > 0).all()
    assert (sizes >= 1).all()
    assert (sizes <= numbers.largest).all()
    assert (np.diff(sizes) >= 0).all()
    assert (np.diff(lookaheads) >= 0).all()
    assert (lookaheads >= numbers.lookahead).all()
    # No chunk waits until its samples are final; one more chunk would.
    assert lookaheads[-1] < reach
    assert numbers.lookahead * numbers.growth ** len(chunks) >= reach * (1 - 1e-9)


def pauses(numbers: LowLatency, speed: float) -> int:
    """Count the waits of a playback; frames come ``speed`` times as fast as real time."""
    chunks, count, dry = list(numbers.chunks(REACH / 2)), -1, 0.0
    before = 0
    for needed, given in chunks:
        now = needed / speed
        count += now > dry + 1e-9
        dry = max(now, dry) + given - before
        before = given
    return count


@pytest.mark.parametrize(
    ("numbers", "rounding"),
    [
        (LowLatency(first=4, lookahead=4, growth=2, largest=10**6), 0),  # whole numbers
        (LowLatency(first=2, lookahead=6, growth=3, largest=10**6), 0),
        (LowLatency(), 0.05),
        (LowLatency(first=6, lookahead=4, growth=1.25), 0.05),
        (LowLatency(first=12, lookahead=8, growth=1.5, largest=48), 0.05),
    ],
)
def test_how_fast_frames_must_come(numbers: LowLatency, rounding: float) -> None:
    least = numbers.growth + (numbers.growth - 1) * numbers.lookahead / numbers.first
    assert pauses(numbers, least * (1 + rounding)) == 0
    assert pauses(numbers, least * (0.999 - rounding)) > 0


def test_what_low_latency_may_be() -> None:
    numbers = LowLatency(first=3)
    assert as_low_latency(numbers) == numbers
    assert as_low_latency(True) == LowLatency()
    assert as_low_latency(False) is None
    assert as_low_latency({"first": 3}) == numbers
    with pytest.raises(ConfigError, match="no speed; it has fade, first, growth"):
        as_low_latency({"speed": 3})
    nonsense: list[Any] = ["yes", 1, 0.5, [6]]
    for wrong in nonsense:
        with pytest.raises(ConfigError, match=f"LowLatency or a dict, not {type(wrong).__name__}"):
            as_low_latency(wrong)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"first": 0}, "first of LowLatency must be at least 1 and at most 2147483647, not 0"),
        ({"first": 2.5}, "first of LowLatency must be a whole number, not 2.5"),
        ({"lookahead": 0}, "lookahead of LowLatency must be at least 1"),
        ({"growth": 1}, "growth of LowLatency must be above 1 and at most 2147483647, not 1"),
        (
            {"growth": math.nan},
            "growth of LowLatency must be above 1 and at most 2147483647, not nan",
        ),
        ({"growth": "2"}, "growth of LowLatency must be a number, not '2'"),
        ({"first": 9, "largest": 8}, "largest of LowLatency must be at least first, not 8"),
        ({"fade": 257}, "fade of LowLatency must be between 0 and 256, not 257"),
        ({"fade": -1}, "fade of LowLatency must be between"),
    ],
)
def test_numbers_that_make_no_sense(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        as_low_latency(changes)


# ---------------------------------------------------------------- cross-fades


@pytest.mark.parametrize("length", [1, 7, 256])
def test_a_cross_fade_begins_as_the_old_and_ends_as_the_new(length: int) -> None:
    dice = np.random.default_rng(length)
    old, new = (dice.standard_normal(n).astype(np.float32) for n in (length, length + 50))
    whole = CrossFade(old)(new)
    assert whole.dtype == np.float32
    weights = (np.arange(length) + 0.5) / length
    np.testing.assert_allclose(
        whole[:length], (1 - weights) * old + weights * new[:length], 0, 1e-6
    )
    np.testing.assert_array_equal(whole[length:], new[length:])
    fade = CrossFade(old)  # portions of any size
    parts = [fade(part) for part in np.array_split(new, dice.integers(2, 30))]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_a_cross_fade_has_no_audible_step() -> None:
    seconds = np.arange(2000, dtype=np.float32) / SAMPLE_RATE
    old, new = np.sin(600 * seconds), -np.sin(900 * seconds + 1)
    joined = np.concatenate([old[:1000], CrossFade(old[1000:1256])(new[1000:])])
    usual = max(np.abs(np.diff(old)).max(), np.abs(np.diff(new)).max())
    largest = np.abs(np.diff(joined)).max()
    assert largest <= usual + np.abs(old - new).max() / 256
    assert largest < np.abs(old[999] - new[1000]) / 10


def test_a_cross_fade_leaves_what_it_is_given_alone() -> None:
    old, new = np.ones(4, np.float32), np.zeros(6, np.float32)
    fade = CrossFade(old)
    assert fade(new)[0] > 0
    assert not new.any()
    assert (old == 1).all()
    same = CrossFade(np.empty(0, np.float32))(new)
    assert same is new
