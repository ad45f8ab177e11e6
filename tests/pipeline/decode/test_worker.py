"""The decode worker: the order of jobs, the size of a turn, and the jobs that get an error."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import pytest

from ChatTTS.audio.samples import Samples
from ChatTTS.pipeline.decode import worker as decode_worker
from ChatTTS.pipeline.decode.schedules import FixedSize, Schedule, WholeUtterance
from ChatTTS.pipeline.decode.worker import MAX_FRAMES, DecodeWorker
from ChatTTS.utils.fair_lock import NoLock

from ...support.decode_fakes import (
    HOP,
    OTHERS,
    STOP,
    FakeClient,
    FakeJob,
    FakeSynthesizer,
    HeldLock,
    add,
    check,
    threads,
)
from ...support.waiting import SECONDS, wait_until


@pytest.fixture
def synthesizer() -> FakeSynthesizer:
    return FakeSynthesizer()


@pytest.fixture
def worker() -> DecodeWorker:
    OTHERS.update(threads())
    return DecodeWorker(NoLock())


@pytest.fixture
def quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_worker, "_POLL_SECONDS", 0.01)


def test_all_of_a_track_comes(worker: DecodeWorker, synthesizer: FakeSynthesizer) -> None:
    job = FakeJob(synthesizer)
    for first in range(0, 30, 3):
        with worker.lock:
            job.push(3, STOP if first == 27 else None, first)
            worker.add(job)
    job.check()
    assert len(job.delays) == len(job.pieces)
    assert all(delay >= 0 for delay in job.delays)
    wait_until(lambda: not threads())


def test_tracks_that_are_due_share_a_turn(
    worker: DecodeWorker, synthesizer: FakeSynthesizer
) -> None:
    jobs = [FakeJob(synthesizer).push(n) for n in (5, 1, 20)]
    synthesizer.gate.hold()
    add(worker, *jobs)
    synthesizer.gate.wait()
    late = FakeJob(synthesizer).push(4)
    worker.add(late)
    synthesizer.gate.open()
    check(*jobs, late)
    assert synthesizer.advances == [[5, 1, 20], [4]]


def test_a_turn_is_bounded_and_the_first_job_left_out_is_first_in_the_next(
    worker: DecodeWorker, synthesizer: FakeSynthesizer
) -> None:
    assert MAX_FRAMES == 64
    jobs = [FakeJob(synthesizer).push(n) for n in (40, 30, 100, 7)]
    add(worker, *jobs)
    check(*jobs)
    # Equal parts, so the fourth job is left out; then it comes, and the rests of the others.
    assert synthesizer.advances == [[24, 24, 16], [7, 16, 6, 24], [60]]


def test_the_job_whose_listener_has_the_least_left_comes_first(
    worker: DecodeWorker, synthesizer: FakeSynthesizer
) -> None:
    leads = {30: 2.0, 31: 0.0, 32: 0.5, 33: -0.1}  # by the number of frames
    jobs = [FakeJob(synthesizer, Clockwork(0.0, lead)).push(n) for n, lead in leads.items()]
    add(worker, *jobs)
    check(*jobs)
    assert synthesizer.advances == [
        [24, 24, 16],
        [9, 7, 16, 30],
    ]  # the last one can wait, and gives all


def test_ends_without_frames_are_bounded_as_well(
    worker: DecodeWorker, synthesizer: FakeSynthesizer
) -> None:
    jobs = [FakeJob(synthesizer).push(0) for _ in range(MAX_FRAMES + 3)]
    add(worker, *jobs)
    check(*jobs)
    assert synthesizer.advances == [[0] * MAX_FRAMES, [0] * 3]


def test_a_turn_is_of_one_synthesizer_and_each_has_its_turn(worker: DecodeWorker) -> None:
    first, second = FakeSynthesizer(), FakeSynthesizer()
    order: list[FakeSynthesizer] = []
    first.order = second.order = order
    jobs = [FakeJob(s).push(150) for s in (first, second, first)]
    add(worker, *jobs)
    check(*jobs)
    assert order[:5] == [first, second, first, second, first]  # as the jobs are in line
    assert [sum(map(sum, s.advances)) for s in (first, second)] == [300, 150]


def test_whole_utterances_and_pieces_are_not_mixed(
    worker: DecodeWorker, synthesizer: FakeSynthesizer
) -> None:
    jobs = [
        FakeJob(synthesizer, schedule).push(count)
        for schedule, count in (
            (WholeUtterance(), 100),
            (FixedSize(1, 2 * HOP), 3),
            (WholeUtterance(), 5),
            (WholeUtterance(), 0),
        )
    ]
    add(worker, *jobs)
    check(*jobs)
    assert synthesizer.advances == [[100], [3], [5]]


def test_nothing_is_decoded_before_the_schedule_wants_it(
    worker: DecodeWorker, synthesizer: FakeSynthesizer
) -> None:
    job, other = FakeJob(synthesizer, FixedSize(10, 2 * HOP)), FakeJob(synthesizer)
    add(worker, job.push(9, None), other.push(2))
    other.check()
    assert synthesizer.advances == [[2]]
    with worker.lock:
        worker.add(job.push(3, STOP, 9))
    job.check()
    assert synthesizer.advances == [[2], [12]]


class Clockwork(Schedule):
    """A schedule that wants a piece at a time of the clock.

    Attributes:
        at: the time of ``time.monotonic``; ``None`` to wait for more frames.
    """

    def __init__(self, at: float | None, lead: float = 0.0) -> None:
        self.at, self._lead = at, lead

    @property
    def lead(self) -> float:
        return self._lead

    def wait(self, ready: int, fresh: int, frames: int) -> float | None:
        if not fresh or self.at is None:
            return None
        return max(0.0, self.at - time.monotonic())


def test_a_piece_is_decoded_when_its_time_has_come(
    worker: DecodeWorker, synthesizer: FakeSynthesizer
) -> None:
    at = time.monotonic() + 0.03
    job = FakeJob(synthesizer, Clockwork(at))
    with worker.lock:
        worker.add(job.push(2, None))
    wait_until(lambda: bool(job.pieces))
    assert time.monotonic() >= at
    assert synthesizer.advances == [[2]]
    worker.drop([job])


def test_a_delay_begins_when_a_piece_is_due(worker: DecodeWorker) -> None:
    first, second = FakeSynthesizer(), FakeSynthesizer()
    busy, late = FakeJob(first), FakeJob(second, clockwork := Clockwork(None))
    with worker.lock:
        worker.add(late.push(2, None))
    wait_until(lambda: bool(threads()))
    first.gate.hold()
    with worker.lock:
        worker.add(busy.push(1))
        clockwork.at = at = time.monotonic() + 0.01
    first.gate.wait()  # the other job is known, and its time comes during this turn
    wait_until(lambda: time.monotonic() > at + 0.02)
    opened = time.monotonic()
    first.gate.open()
    wait_until(lambda: bool(late.pieces))
    assert late.delays[0] >= opened - clockwork.at
    worker.drop([late])


def test_a_job_without_room_for_output_waits(
    worker: DecodeWorker, synthesizer: FakeSynthesizer
) -> None:
    job, other = FakeJob(synthesizer), FakeJob(synthesizer)
    job.room = False
    add(worker, job.push(5), other.push(2))
    other.check()
    assert synthesizer.advances == [[2]]
    assert threads()
    with worker.lock:
        job.room = True
        worker.wake()
    job.check()
    # Time without room in the output queue does not count as delay.
    assert job.delays[0] < SECONDS


def test_an_unwanted_job_is_forgotten(worker: DecodeWorker, synthesizer: FakeSynthesizer) -> None:
    job, other = FakeJob(synthesizer), FakeJob(synthesizer)
    job.wanted = False
    add(worker, job.push(5), other.push(2))
    other.check()
    wait_until(lambda: not threads())
    assert synthesizer.advances == [[2]]
    assert job.pieces == []


@pytest.mark.usefixtures("quick_polls")
@pytest.mark.parametrize("waits_for", ["frames", "room"])
def test_a_job_that_is_left_without_a_wake_is_forgotten(
    worker: DecodeWorker, synthesizer: FakeSynthesizer, waits_for: str
) -> None:
    job = FakeJob(synthesizer)
    job.room = waits_for != "room"
    with worker.lock:
        worker.add(job.push(0 if waits_for == "frames" else 5, None))
    wait_until(lambda: worker._wakes.empty())
    job.wanted = False
    wait_until(lambda: not threads())
    known = weakref.ref(job)
    del job
    gc.collect()
    assert known() is None


def test_a_track_may_be_dropped_while_it_is_decoded(
    worker: DecodeWorker, synthesizer: FakeSynthesizer
) -> None:
    job, other = FakeJob(synthesizer).push(5), FakeJob(synthesizer).push(3)
    synthesizer.gate.hold()
    add(worker, job, other)
    synthesizer.gate.wait()
    worker.drop([job])
    synthesizer.gate.open()
    other.check()
    wait_until(lambda: not threads())
    assert job.pieces == []
    assert not job.done.is_set()


def test_an_error_ends_the_tracks_of_its_turn_alone(worker: DecodeWorker) -> None:
    first, second = FakeSynthesizer(), FakeSynthesizer()
    jobs = [FakeJob(first).push(50) for _ in range(4)]
    others = [FakeJob(second).push(9), FakeJob(first).push(4, None)]
    first.gate.hold()
    first.broken = ValueError("a broken turn")
    add(worker, *jobs, *others)
    first.gate.wait()
    first.gate.open()
    others[0].check()
    with worker.lock:
        worker.add(others[1].push(2, STOP, 4))
    others[1].check()
    assert first.advances[0] == [24, 24, 16]  # the fourth job had no share of this turn
    assert [str(job.error) for job in jobs[:3]] == ["a broken turn"] * 3
    jobs[3].check()
    assert all(not job.pieces for job in jobs[:3])


class Broken(FixedSize):
    def wait(self, ready: int, fresh: int, frames: int) -> float | None:
        raise ValueError("a broken schedule")


def test_a_broken_schedule_ends_its_job_with_an_error(
    worker: DecodeWorker, synthesizer: FakeSynthesizer
) -> None:
    job = FakeJob(synthesizer, Broken(1, 1))
    with worker.lock:
        worker.add(job.push(1, None))
    assert job.done.wait(SECONDS)
    assert str(job.error) == "a broken schedule"
    wait_until(lambda: not threads())
    again = FakeJob(synthesizer).push(3)
    worker.add(again)
    again.check()


def test_the_thread_ends_and_begins_again(
    worker: DecodeWorker, synthesizer: FakeSynthesizer
) -> None:
    for _ in range(3):
        assert not threads()
        job = FakeJob(synthesizer)
        with worker.lock:
            worker.add(job.push(2, None))
        wait_until(lambda: len(synthesizer.advances) > 0)
        [thread] = threads()
        assert thread.daemon
        with worker.lock:
            worker.add(job.push(1, STOP, 2))
        job.check()
        wait_until(lambda: not threads())
        synthesizer.advances.clear()


def test_turns_are_held_while_samples_are_computed_and_no_longer() -> None:
    compute_lock = HeldLock()
    synthesizer, worker = FakeSynthesizer(compute_lock), DecodeWorker(compute_lock)
    held: list[bool] = []

    class Watching(FakeJob):
        @property
        def has_room(self) -> bool:
            held.append(compute_lock.is_held)
            return True

        def deliver(self, samples: Samples, delay: float) -> None:
            held.append(compute_lock.is_held)
            super().deliver(samples, delay)

    job = Watching(synthesizer)
    for first in range(0, 20, 5):
        with worker.lock:
            worker.add(job.push(5, STOP if first == 15 else None, first))
    job.check()
    assert held
    assert not any(held)
    synthesizer.broken = ValueError("broken")
    job = Watching(synthesizer)
    worker.add(job.push(1))
    assert job.done.wait(SECONDS)
    assert not compute_lock.is_held


def test_the_lock_is_free_while_samples_are_computed(
    worker: DecodeWorker, synthesizer: FakeSynthesizer
) -> None:
    job = FakeJob(synthesizer).push(3)
    synthesizer.gate.hold()
    worker.add(job)
    synthesizer.gate.wait()
    assert worker.lock.acquire(timeout=SECONDS)
    worker.lock.release()
    synthesizer.gate.open()
    job.check()


def test_what_was_decoded_is_not_kept(worker: DecodeWorker, synthesizer: FakeSynthesizer) -> None:
    job, waiting = FakeJob(synthesizer), FakeJob(synthesizer)
    add(worker, waiting.push(0, None), job.push(3))
    job.check()
    known = weakref.ref(job)
    del job

    def is_gone() -> bool:
        gc.collect()
        return known() is None

    wait_until(is_gone)  # though the thread goes on for the other job
    assert threads()
    worker.drop([waiting])


def test_at_the_end_it_stops_after_the_turn_that_is_running(
    worker: DecodeWorker, synthesizer: FakeSynthesizer
) -> None:
    jobs = [FakeJob(synthesizer).push(MAX_FRAMES) for _ in range(3)]
    synthesizer.gate.hold()
    add(worker, *jobs)
    synthesizer.gate.wait()
    ends = threading.Thread(target=worker.at_exit, daemon=True)
    ends.start()
    wait_until(lambda: worker._closed)
    assert ends.is_alive()
    synthesizer.gate.open()
    ends.join(SECONDS)
    assert not ends.is_alive()
    assert not threads()
    assert synthesizer.advances == [[24, 24, 16]]
    worker.add(jobs[2])  # too late
    assert not threads()


def test_a_forked_child_has_no_tracks(worker: DecodeWorker, synthesizer: FakeSynthesizer) -> None:
    client, gone = FakeClient(), FakeClient()
    worker.register(client)
    worker.register(gone)
    del gone
    job = FakeJob(synthesizer)
    with worker.lock:
        worker.add(job.push(1, None))
    with worker.lock:
        worker.drop([job])
    wait_until(lambda: not threads())
    worker.after_fork()
    assert client.forks == 1
    again = FakeJob(synthesizer).push(3)
    worker.add(again)
    again.check()


def test_many_threads_add_and_drop(worker: DecodeWorker, synthesizer: FakeSynthesizer) -> None:
    jobs: list[FakeJob] = []

    def speak(number: int) -> None:
        for count in range(number, 60, 7):
            job, dropped = FakeJob(synthesizer), FakeJob(synthesizer)
            for first in range(count):
                with worker.lock:
                    worker.add(job.push(1, STOP if first == count - 1 else None, first))
                    if not first:
                        worker.add(dropped.push(3, None))
            worker.drop([dropped])
            jobs.append(job)

    speakers = [threading.Thread(target=speak, args=(n,), daemon=True) for n in range(1, 5)]
    for speaker in speakers:
        speaker.start()
    for speaker in speakers:
        speaker.join(SECONDS)
        assert not speaker.is_alive()
    check(*jobs)
    assert all(sum(counts) <= MAX_FRAMES for counts in synthesizer.advances)
    wait_until(lambda: not threads())
