"""With the loop of an engine, a batch is launched in one turn and handed over in the next one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest
from torch import Tensor

from ChatTTS.model.synthesis.streaming_decoder import DecoderInput
from ChatTTS.pipeline.decode import worker as worker_module
from ChatTTS.pipeline.decode.schedules import WholeUtterance
from ChatTTS.pipeline.decode.worker import DecodeRun, DecodeWorker, RunState
from ChatTTS.utils.device_loop import DeviceLoop, LoopPart
from ChatTTS.utils.fair_lock import NoLock

from ...support.decode_fakes import FakeJob, FakeSynthesizer

T = TypeVar("T")


class IdleLoop(DeviceLoop):
    """A loop without a thread: the test gives the turns."""

    def begin(self, part: LoopPart) -> None:
        pass


class DeviceSynthesizer(FakeSynthesizer):
    """A synthesizer whose device works by itself.

    Attributes:
        waits: how often the host waited for it.
        lost: raised by the next wait.
    """

    waits = 0
    lost: Exception | None = None

    def launch(self, pushes: Sequence[DecoderInput]) -> Callable[[], list[Tensor]]:
        return self._waited(super().launch(pushes))

    def launch_samples(self, frames: Tensor) -> Callable[[], Tensor]:
        return self._waited(super().launch_samples(frames))

    def _waited(self, samples: Callable[[], T]) -> Callable[[], T]:
        def wait() -> T:
            self.waits += 1
            if self.lost is not None:
                raise self.lost
            return samples()

        return wait


@pytest.fixture
def synthesizer() -> DeviceSynthesizer:
    return DeviceSynthesizer()


@pytest.fixture
def worker() -> DecodeWorker:
    return DecodeWorker(NoLock(), loop=IdleLoop("test loop"))


def test_the_device_decodes_between_two_turns(
    worker: DecodeWorker, synthesizer: DeviceSynthesizer
) -> None:
    first = FakeJob(synthesizer).push(5)
    worker.add(first)
    assert worker.turn() == 0
    assert synthesizer.advances == [[5]]
    assert synthesizer.waits == 0
    later = FakeJob(synthesizer).push(3)
    worker.add(later)
    assert worker.turn() == 0
    first.check()
    assert synthesizer.advances == [[5], [3]]
    assert synthesizer.waits == 1
    assert worker.turn() is None
    later.check()


def test_whole_utterances_are_all_launched_before_one_is_waited_for(
    worker: DecodeWorker, synthesizer: DeviceSynthesizer
) -> None:
    jobs = [FakeJob(synthesizer, WholeUtterance()).push(count) for count in (4, 2)]
    for job in jobs:
        worker.add(job)
    worker.turn()
    assert synthesizer.advances == [[4], [2]]
    assert synthesizer.waits == 0
    worker.turn()
    for job in jobs:
        job.check()


def test_a_job_that_is_dropped_while_the_device_decodes_gets_nothing(
    worker: DecodeWorker, synthesizer: DeviceSynthesizer
) -> None:
    dropped, other = (FakeJob(synthesizer).push(5) for _ in range(2))
    worker.add(dropped)
    worker.add(other)
    worker.turn()
    worker.drop([dropped])
    worker.turn()
    assert not dropped.pieces
    other.check()


def test_an_error_of_the_device_ends_the_jobs_of_its_batch_alone(
    worker: DecodeWorker, synthesizer: DeviceSynthesizer
) -> None:
    ended, other = (FakeJob(synthesizer).push(5) for _ in range(2))
    worker.add(ended)
    worker.turn()
    worker.add(other)
    synthesizer.lost = RuntimeError("the device is gone")
    worker.turn()
    assert ended.error is synthesizer.lost
    synthesizer.lost = None
    worker.turn()
    other.check()


def test_the_end_of_the_interpreter_leaves_no_batch_on_the_device(
    worker: DecodeWorker, synthesizer: DeviceSynthesizer
) -> None:
    worker.add(FakeJob(synthesizer).push(5))
    worker.turn()
    worker.at_exit()
    assert worker.turn() is None
    assert synthesizer.waits == 1


class FakeRun(DecodeRun):
    """A run that counts how often it is advanced."""

    def __init__(self, *, is_patient: bool, state: RunState = RunState.WAITS) -> None:
        self.advanced, self.state = 0, state
        self._is_patient = is_patient

    @property
    def is_patient(self) -> bool:
        return self._is_patient

    def advance(self) -> RunState:
        self.advanced += 1
        return self.state


def test_runs_whose_listeners_have_sound_are_advanced_every_few_turns(
    worker: DecodeWorker,
) -> None:
    urgent, patient = FakeRun(is_patient=False), FakeRun(is_patient=True)
    for run in (urgent, patient):
        worker.begin(run)
    for _ in range(8):
        worker.look_at(urgent)
        worker.look_at(patient)
        worker.turn()
    assert urgent.advanced == 8
    assert patient.advanced == 2


def test_a_turn_comes_at_once_while_a_patient_run_has_news(worker: DecodeWorker) -> None:
    patient = FakeRun(is_patient=True)
    worker.begin(patient)
    worker.look_at(patient)
    pauses = [worker.turn()]
    while not patient.advanced and pauses[-1] == 0:
        pauses.append(worker.turn())
    assert patient.advanced == 1
    assert set(pauses[:-1]) <= {0}
    assert pauses[-1] is not None
    assert pauses[-1] > 0


def test_a_run_that_is_advanced_leaves_no_patient_one_behind(worker: DecodeWorker) -> None:
    run = FakeRun(is_patient=True)
    worker.begin(run)
    worker.look_at(run)
    worker.turn()
    assert run.advanced == 0
    run._is_patient = False
    worker.look_at(run)
    worker.turn()
    assert run.advanced == 1
    assert worker.turn() != 0


def test_a_run_that_is_held_back_is_advanced_once_there_may_be_room(
    worker: DecodeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = FakeRun(is_patient=False, state=RunState.HELD)
    worker.begin(run)
    worker.look_at(run)
    worker.turn()
    monkeypatch.setattr(worker_module, "_POLL_SECONDS", math.inf)
    worker.turn()
    assert run.advanced == 1
    worker.wake()
    worker.turn()
    assert run.advanced == 2
