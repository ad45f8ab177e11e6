"""The thread that decodes: whose turn it is, how much of it, and who is told what went wrong."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import pytest

from ChatTTS.pipeline import decode_worker as vocoding_module
from ChatTTS.pipeline.decode_worker import MOST_FRAMES, Vocoding
from ChatTTS.pipeline.decoding import Samples
from ChatTTS.pipeline.schedules import AtTheEnd, Batches
from ChatTTS.utils.fair_lock import NoTurns

from ..support.vocoding_fakes import (
    HOP,
    OTHERS,
    SECONDS,
    STOP,
    FakeOwner,
    FakeSynthesizer,
    FakeTrack,
    Held,
    threads,
    wait_until,
)


@pytest.fixture
def synthesizer() -> FakeSynthesizer:
    return FakeSynthesizer()


@pytest.fixture
def vocoding() -> Vocoding:
    OTHERS.update(threads())
    return Vocoding(NoTurns())


@pytest.fixture
def quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocoding_module, "_POLL_SECONDS", 0.01)


def test_all_of_a_track_comes(vocoding: Vocoding, synthesizer: FakeSynthesizer) -> None:
    track = FakeTrack(synthesizer)
    for first in range(0, 30, 3):
        with vocoding.lock:
            track.push(3, STOP if first == 27 else None, first)
            vocoding.add(track)
    track.check()
    assert len(track.delays) == len(track.pieces)
    assert all(delay >= 0 for delay in track.delays)
    wait_until(lambda: not threads())


def test_tracks_that_are_due_share_a_turn(vocoding: Vocoding, synthesizer: FakeSynthesizer) -> None:
    tracks = [FakeTrack(synthesizer).push(n) for n in (5, 1, 20)]
    synthesizer.gate.hold()
    with vocoding.lock:
        for track in tracks:
            vocoding.add(track)
    synthesizer.gate.wait()
    late = FakeTrack(synthesizer).push(4)
    vocoding.add(late)
    synthesizer.gate.open()
    for track in [*tracks, late]:
        track.check()
    assert synthesizer.advances == [[5, 1, 20], [4]]


def test_a_turn_is_short_and_who_comes_too_late_is_first_next_time(
    vocoding: Vocoding, synthesizer: FakeSynthesizer
) -> None:
    assert MOST_FRAMES == 64
    tracks = [FakeTrack(synthesizer).push(n) for n in (40, 30, 100, 7)]
    with vocoding.lock:
        for track in tracks:
            vocoding.add(track)
    for track in tracks:
        track.check()
    # 40 of the first and 24 of the second; then the third, the fourth and the second are in line.
    assert synthesizer.advances == [[40, 24], [64], [7, 6, 36]]


def test_ends_without_frames_are_bounded_as_well(
    vocoding: Vocoding, synthesizer: FakeSynthesizer
) -> None:
    tracks = [FakeTrack(synthesizer).push(0) for _ in range(MOST_FRAMES + 3)]
    with vocoding.lock:
        for track in tracks:
            vocoding.add(track)
    for track in tracks:
        track.check()
    assert synthesizer.advances == [[0] * MOST_FRAMES, [0] * 3]


def test_a_turn_is_of_one_synthesizer_and_each_has_its_turn(vocoding: Vocoding) -> None:
    first, second = FakeSynthesizer(), FakeSynthesizer()
    first.everybodys = second.everybodys = order = []
    tracks = [FakeTrack(s).push(150) for s in (first, second, first)]
    with vocoding.lock:
        for track in tracks:
            vocoding.add(track)
    for track in tracks:
        track.check()
    assert order[:5] == [first, second, first, first, second]  # as the tracks are in line
    assert [sum(map(sum, s.advances)) for s in (first, second)] == [300, 150]


def test_whole_utterances_and_pieces_are_not_mixed(
    vocoding: Vocoding, synthesizer: FakeSynthesizer
) -> None:
    tracks = [
        FakeTrack(synthesizer, schedule).push(count)
        for schedule, count in (
            (AtTheEnd(), 100),
            (Batches(1, 2 * HOP), 3),
            (AtTheEnd(), 5),
            (AtTheEnd(), 0),
        )
    ]
    with vocoding.lock:
        for track in tracks:
            vocoding.add(track)
    for track in tracks:
        track.check()
    assert synthesizer.advances == [[100], [3], [5]]


def test_nothing_is_decoded_before_the_schedule_wants_it(
    vocoding: Vocoding, synthesizer: FakeSynthesizer
) -> None:
    track, other = FakeTrack(synthesizer, Batches(10, 2 * HOP)), FakeTrack(synthesizer)
    with vocoding.lock:
        vocoding.add(track.push(9, None))
        vocoding.add(other.push(2))
    other.check()
    assert synthesizer.advances == [[2]]
    with vocoding.lock:
        vocoding.add(track.push(3, STOP, 9))
    track.check()
    assert synthesizer.advances == [[2], [12]]


class Clockwork:
    """Wants a piece at a time of the clock.

    Attributes:
        at: of ``time.monotonic``; ``None`` to wait for more frames.
    """

    def __init__(self, at: float | None) -> None:
        self.at = at

    def wait(self, ready: int, fresh: int, frames: int) -> float | None:
        if not fresh or self.at is None:
            return None
        return max(0.0, self.at - time.monotonic())


def test_a_piece_is_decoded_when_its_time_has_come(
    vocoding: Vocoding, synthesizer: FakeSynthesizer
) -> None:
    at = time.monotonic() + 0.03
    track = FakeTrack(synthesizer, Clockwork(at))
    with vocoding.lock:
        vocoding.add(track.push(2, None))
    wait_until(lambda: bool(track.pieces))
    assert time.monotonic() >= at
    assert synthesizer.advances == [[2]]
    vocoding.drop([track])


def test_a_delay_begins_when_a_piece_is_due(vocoding: Vocoding) -> None:
    first, second = FakeSynthesizer(), FakeSynthesizer()
    busy, late = FakeTrack(first), FakeTrack(second, clockwork := Clockwork(None))
    with vocoding.lock:
        vocoding.add(late.push(2, None))
    wait_until(lambda: bool(threads()))
    first.gate.hold()
    with vocoding.lock:
        vocoding.add(busy.push(1))
        clockwork.at = time.monotonic() + 0.01
    first.gate.wait()  # the other track is known, and its time comes during this turn
    wait_until(lambda: time.monotonic() > clockwork.at + 0.02)
    opened = time.monotonic()
    first.gate.open()
    wait_until(lambda: bool(late.pieces))
    assert late.delays[0] >= opened - clockwork.at
    vocoding.drop([late])


def test_who_has_no_room_waits(vocoding: Vocoding, synthesizer: FakeSynthesizer) -> None:
    track, other = FakeTrack(synthesizer), FakeTrack(synthesizer)
    track.room = False
    with vocoding.lock:
        vocoding.add(track.push(5))
        vocoding.add(other.push(2))
    other.check()
    assert synthesizer.advances == [[2]]
    assert threads()
    with vocoding.lock:
        track.room = True
        vocoding.wake()
    track.check()
    # Time without room is nobody's delay.
    assert track.delays[0] < SECONDS


def test_who_is_not_wanted_is_forgotten(vocoding: Vocoding, synthesizer: FakeSynthesizer) -> None:
    track, other = FakeTrack(synthesizer), FakeTrack(synthesizer)
    track.wanted = False
    with vocoding.lock:
        vocoding.add(track.push(5))
        vocoding.add(other.push(2))
    other.check()
    wait_until(lambda: not threads())
    assert synthesizer.advances == [[2]]
    assert track.pieces == []


@pytest.mark.usefixtures("quick_polls")
@pytest.mark.parametrize("waits_for", ["frames", "room"])
def test_who_leaves_and_wakes_nobody_is_forgotten(
    vocoding: Vocoding, synthesizer: FakeSynthesizer, waits_for: str
) -> None:
    track = FakeTrack(synthesizer)
    track.room = waits_for != "room"
    with vocoding.lock:
        vocoding.add(track.push(0 if waits_for == "frames" else 5, None))
    wait_until(lambda: bool(vocoding._bell._waiters))
    track.wanted = False
    wait_until(lambda: not threads())
    known = weakref.ref(track)
    del track
    gc.collect()
    assert known() is None


def test_a_track_may_be_dropped_while_it_is_decoded(
    vocoding: Vocoding, synthesizer: FakeSynthesizer
) -> None:
    track, other = FakeTrack(synthesizer).push(5), FakeTrack(synthesizer).push(3)
    synthesizer.gate.hold()
    with vocoding.lock:
        vocoding.add(track)
        vocoding.add(other)
    synthesizer.gate.wait()
    vocoding.drop([track])
    synthesizer.gate.open()
    other.check()
    wait_until(lambda: not threads())
    assert track.pieces == []
    assert not track.done.is_set()


def test_an_error_ends_the_tracks_of_its_turn_alone(vocoding: Vocoding) -> None:
    first, second = FakeSynthesizer(), FakeSynthesizer()
    tracks = [FakeTrack(first).push(50) for _ in range(3)]
    others = [FakeTrack(second).push(9), FakeTrack(first).push(4, None)]
    first.gate.hold()
    first.broken = ValueError("a broken turn")
    with vocoding.lock:
        for track in [*tracks, *others]:
            vocoding.add(track)
    first.gate.wait()
    first.gate.open()
    others[0].check()
    with vocoding.lock:
        vocoding.add(others[1].push(2, STOP, 4))
    others[1].check()
    assert first.advances[0] == [50, 14]  # the third had no share of it
    assert [str(track.error) for track in tracks[:2]] == ["a broken turn"] * 2
    tracks[2].check()
    assert all(not track.pieces for track in tracks[:2])


class Broken(Batches):
    def wait(self, ready: int, fresh: int, frames: int) -> float | None:
        raise ValueError("a broken schedule")


def test_a_broken_schedule_leaves_nobody_waiting(
    vocoding: Vocoding, synthesizer: FakeSynthesizer
) -> None:
    track = FakeTrack(synthesizer, Broken(1, 1))
    with vocoding.lock:
        vocoding.add(track.push(1, None))
    assert track.done.wait(SECONDS)
    assert str(track.error) == "a broken schedule"
    wait_until(lambda: not threads())
    again = FakeTrack(synthesizer).push(3)
    vocoding.add(again)
    again.check()


def test_the_thread_ends_and_begins_again(vocoding: Vocoding, synthesizer: FakeSynthesizer) -> None:
    for _ in range(3):
        assert not threads()
        track = FakeTrack(synthesizer)
        with vocoding.lock:
            vocoding.add(track.push(2, None))
        wait_until(lambda: len(synthesizer.advances) > 0)
        [thread] = threads()
        assert thread.daemon
        with vocoding.lock:
            vocoding.add(track.push(1, STOP, 2))
        track.check()
        wait_until(lambda: not threads())
        synthesizer.advances.clear()


def test_a_thread_that_ctrl_c_left_behind_while_it_started_ends(
    vocoding: Vocoding, synthesizer: FakeSynthesizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[threading.Thread] = []
    start = threading.Thread.start

    def interrupted(self: threading.Thread) -> None:
        start(self)
        begun.append(self)
        if len(begun) == 1:
            raise KeyboardInterrupt

    is_alive = threading.Thread.is_alive
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    # In the moment of the interrupt it has not said yet that it has begun.
    monkeypatch.setattr(
        threading.Thread, "is_alive", lambda self: self is not begun[0] and is_alive(self)
    )
    tracks = [FakeTrack(synthesizer).push(150) for _ in range(4)]
    synthesizer.gate.hold()
    with vocoding.lock:
        with pytest.raises(KeyboardInterrupt):
            vocoding.add(tracks[0])
        for track in tracks:
            vocoding.add(track)
    synthesizer.gate.wait()
    begun[0].join(SECONDS)  # while the other one decodes
    assert not is_alive(begun[0])
    synthesizer.gate.open()
    for track in tracks:
        track.check()
    assert len(begun) == 2
    monkeypatch.undo()
    wait_until(lambda: not threads())


def test_turns_are_held_while_samples_are_computed_and_no_longer() -> None:
    turns = Held()
    synthesizer, vocoding = FakeSynthesizer(turns), Vocoding(turns)
    held: list[bool] = []

    class Watching(FakeTrack):
        @property
        def has_room(self) -> bool:
            held.append(turns.is_held)
            return True

        def deliver(self, samples: Samples, delay: float) -> None:
            held.append(turns.is_held)
            super().deliver(samples, delay)

    track = Watching(synthesizer)
    for first in range(0, 20, 5):
        with vocoding.lock:
            vocoding.add(track.push(5, STOP if first == 15 else None, first))
    track.check()
    assert held
    assert not any(held)
    synthesizer.broken = ValueError("broken")
    track = Watching(synthesizer)
    vocoding.add(track.push(1))
    assert track.done.wait(SECONDS)
    assert not turns.is_held


def test_the_lock_is_free_while_samples_are_computed(
    vocoding: Vocoding, synthesizer: FakeSynthesizer
) -> None:
    track = FakeTrack(synthesizer).push(3)
    synthesizer.gate.hold()
    vocoding.add(track)
    synthesizer.gate.wait()
    assert vocoding.lock.acquire(timeout=SECONDS)
    vocoding.lock.release()
    synthesizer.gate.open()
    track.check()


def test_what_was_decoded_is_not_kept(vocoding: Vocoding, synthesizer: FakeSynthesizer) -> None:
    track, waiting = FakeTrack(synthesizer), FakeTrack(synthesizer)
    with vocoding.lock:
        vocoding.add(waiting.push(0, None))
        vocoding.add(track.push(3))
    track.check()
    known = weakref.ref(track)
    del track

    def is_gone() -> bool:
        gc.collect()
        return known() is None

    wait_until(is_gone)  # though the thread goes on for the other one
    assert threads()
    vocoding.drop([waiting])


def test_at_the_end_it_stops_after_the_turn_that_is_running(
    vocoding: Vocoding, synthesizer: FakeSynthesizer
) -> None:
    tracks = [FakeTrack(synthesizer).push(MOST_FRAMES) for _ in range(3)]
    synthesizer.gate.hold()
    with vocoding.lock:
        for track in tracks:
            vocoding.add(track)
    synthesizer.gate.wait()
    ends = threading.Thread(target=vocoding.at_exit, daemon=True)
    ends.start()
    wait_until(lambda: vocoding._closed)
    assert ends.is_alive()
    synthesizer.gate.open()
    ends.join(SECONDS)
    assert not ends.is_alive()
    assert not threads()
    assert synthesizer.advances == [[MOST_FRAMES]]
    vocoding.add(tracks[2])  # too late
    assert not threads()


def test_a_forked_child_has_no_tracks(vocoding: Vocoding, synthesizer: FakeSynthesizer) -> None:
    owner, gone = FakeOwner(), FakeOwner()
    vocoding.own(owner)
    vocoding.own(gone)
    del gone
    track = FakeTrack(synthesizer)
    with vocoding.lock:
        vocoding.add(track.push(1, None))
    with vocoding.lock:
        vocoding.drop([track])
    wait_until(lambda: not threads())
    vocoding.after_fork()
    assert owner.told == 1
    again = FakeTrack(synthesizer).push(3)
    vocoding.add(again)
    again.check()


def test_many_threads_add_and_drop(vocoding: Vocoding, synthesizer: FakeSynthesizer) -> None:
    tracks: list[FakeTrack] = []

    def speak(number: int) -> None:
        for count in range(number, 60, 7):
            track, dropped = FakeTrack(synthesizer), FakeTrack(synthesizer)
            for first in range(count):
                with vocoding.lock:
                    vocoding.add(track.push(1, STOP if first == count - 1 else None, first))
                    if not first:
                        vocoding.add(dropped.push(3, None))
            vocoding.drop([dropped])
            tracks.append(track)

    speakers = [threading.Thread(target=speak, args=(n,), daemon=True) for n in range(1, 5)]
    for speaker in speakers:
        speaker.start()
    for speaker in speakers:
        speaker.join(SECONDS)
        assert not speaker.is_alive()
    for track in tracks:
        track.check()
    assert all(sum(counts) <= MOST_FRAMES for counts in synthesizer.advances)
    wait_until(lambda: not threads())
