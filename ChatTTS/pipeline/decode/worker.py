"""The worker that decodes the frames of all calls, many utterances in one batch.

It also advances the runs of streams: see :class:`DecodeRun`.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from queue import SimpleQueue
from weakref import WeakSet

import torch
from torch import Tensor

from ...audio.samples import Samples
from ...errors import GenerationError
from ...model.synthesis.streaming_decoder import DecoderInput
from ...model.synthesis.synthesizer import Synthesizer
from ...utils import openmp
from ...utils.device_loop import DeviceLoop
from ...utils.fair_lock import ComputeLock
from ...utils.locks import new_rlock
from ...utils.process_hooks import register_thread_owner
from .schedules import PIECE_FRAMES, FixedSize, Schedule, WholeUtterance
from .utterance_decoder import PADDING_FRAMES, DecodeChunk, UtteranceDecoder

# Frames of one batch. On a CPU more would be little faster, and would hold up the engine. A GPU
# decodes many frames in the time of a few.
MAX_FRAMES = 64
MAX_FRAMES_ON_GPU = 2048
SOON = 1.0
"""Seconds of sound below which a listener needs more soon. The pieces of others are as long as
they may be: each costs the event loop of a server a turn."""
# With the loop of an engine, every so many turns the runs are advanced whose listeners need
# nothing soon. What they gained meanwhile costs as much as the gain of one turn.
_PATIENCE = 4
# A caller that leaves takes no lock and sends no signal, so the worker has to look by itself.
_POLL_SECONDS = 1.0


def whole_schedule(synthesizer: Synthesizer) -> Schedule:
    """Return the schedule of utterances that are given out whole.

    In pieces where they are equal bit for bit, and no more work than the whole: streams wait less
    for other calls then.
    """
    if synthesizer.is_exact and not synthesizer.by_launches:
        return FixedSize(MAX_FRAMES, synthesizer.samples_per_frame)
    return WholeUtterance()


class DecodeJob(ABC):
    """An utterance that is being decoded, and the receiver of its samples.

    All methods are called with the lock of the :class:`DecodeWorker` held, and none may wait.
    """

    decoder: UtteranceDecoder

    @property
    @abstractmethod
    def is_wanted(self) -> bool:
        """Return whether the samples are still needed."""

    @property
    @abstractmethod
    def has_room(self) -> bool:
        """Return whether the receiver has room for more samples."""

    @abstractmethod
    def deliver(self, samples: Samples, delay: float) -> None:
        """Take decoded samples, perhaps the last ones; not called once the job is dropped.

        Args:
            samples: float32 [n]; n may be 0.
            delay: seconds since they were due.
        """

    @abstractmethod
    def fail(self, error: BaseException) -> None:
        """Take the error that ended the job. No more samples come."""


class RunState(Enum):
    """The next need of a run.

    It ``WAITS`` for news; it is ``HELD`` back with news, until its consumer takes samples; or it
    is ``OVER``, and is forgotten.
    """

    WAITS = "waits"
    HELD = "held"
    OVER = "over"


class DecodeRun(ABC):
    """A call that generates frames for decoding, and has no thread that waits for them."""

    @property
    @abstractmethod
    def is_patient(self) -> bool:
        """Return whether its listeners have sound enough, so that it may be advanced later."""

    @abstractmethod
    def advance(self) -> RunState:
        """Use the news that came. The worker calls this, without the lock.

        It raises nothing, and does not wait for a consumer.
        """


class DecodeClient(ABC):
    """A call that waits for samples of the worker."""

    @abstractmethod
    def after_fork(self) -> None:
        """Handle a fork, in the child: no more samples come."""


class DecodeWorker:
    """Decodes jobs when their schedules ask for it, in turns of a loop.

    A batch holds all jobs that are due, and a bounded number of frames. Between two batches an
    engine that needs the same cores can make a step, and the worker advances the runs with news.
    With the loop of an engine a batch is launched in one turn and handed over in the next one: the
    device decodes while the engine plans.

    Args:
        compute_lock: held while a batch is computed, as by all work that needs the same cores.
        max_frames: that a batch may have.
        loop: of the engine on this device; by default one of its own.

    Attributes:
        lock: guards the jobs, their decoders and the clients.
    """

    def __init__(
        self,
        compute_lock: ComputeLock,
        max_frames: int = MAX_FRAMES,
        loop: DeviceLoop | None = None,
    ) -> None:
        self._compute_lock = compute_lock
        self._max_frames = max_frames
        self._loop = loop or DeviceLoop("decoding")
        self._shares_loop = loop is not None
        self._clients: WeakSet[DecodeClient] = WeakSet()
        self.lock = new_rlock()
        self._reset()
        register_thread_owner(self)

    def _reset(self) -> None:
        # What a turn looks at: a run has news, or ``None``: jobs or the room for samples changed.
        self._wakes: SimpleQueue[DecodeRun | None] = SimpleQueue()
        # In the order of arrival; each with the time since when it is due.
        self._jobs: dict[DecodeJob, float] = {}
        self._runs: set[DecodeRun] = set()
        self._held: set[DecodeRun] = set()
        self._held_looked_at = 0.0
        # Runs with news that may wait; they are advanced once in so many turns, which are counted.
        self._patient: dict[DecodeRun, None] = {}
        self._turns = 0
        self._launched: _Batch | None = None
        self._closed = False

    def register(self, client: DecodeClient) -> None:
        """Tell ``client`` of forks from now on."""
        self._clients.add(client)

    def add(self, job: DecodeJob) -> None:
        """Decode ``job`` until it is complete, or look again at one that has new frames."""
        with self.lock:
            if self._closed:
                return
            if job not in self._jobs:
                self._loop.begin(self)
                self._jobs[job] = math.inf
            self._loop.wake()

    def begin(self, run: DecodeRun) -> None:
        """Advance ``run`` from now on, until it is over.

        Raises:
            OutOfThreadsError: the system gives no thread.
        """
        with self.lock:
            if not self._closed:
                self._loop.begin(self)
                self._runs.add(run)

    def look_at(self, run: DecodeRun) -> None:
        """Advance a run soon, since it has news. This takes no lock: the engine's thread calls it.

        A run that has not begun, or is over, is left alone.
        """
        self._wakes.put(run)
        self._loop.wake()

    def drop(self, jobs: Iterable[DecodeJob]) -> None:
        """Remove jobs for good, complete or not."""
        with self.lock:
            for job in jobs:
                self._jobs.pop(job, None)
            self.wake()

    def wake(self) -> None:
        """Make the worker look again, since jobs or the room for samples changed."""
        self._wakes.put(None)
        self._loop.wake()

    def at_exit(self) -> None:
        """Stop after the current batch, at the interpreter's end."""
        with self.lock:
            self._closed = True
        self._loop.wake()
        self._loop.wait_for_rest(self)

    def after_fork(self) -> None:
        """Begin anew in a forked child, without jobs."""
        self._reset()
        for client in list(self._clients):
            client.after_fork()

    def turn(self) -> float | None:
        """Advance the runs with news, hand a launched batch over, and launch what is due.

        See :class:`~ChatTTS.utils.device_loop.LoopPart`.
        """
        self._advance_runs()
        self._hand_over()
        batch: list[_BatchEntry] = []
        try:
            with self.lock:
                if unwanted := [job for job in self._jobs if not job.is_wanted]:
                    self.drop(unwanted)
                if self._closed or not (self._jobs or self._runs):
                    return None
                due, pause = self._due_jobs()
                if not due:
                    return 0.0 if self._patient else min(pause, _POLL_SECONDS)
                self._fill_batch(due, batch)
            self._launched = _Batch(batch, self._compute_lock.run(lambda: _launch(batch)))
        except BaseException as error:  # every client must hear of it, else it would wait for ever
            self._fail(batch, error)
        if not self._shares_loop:
            self._hand_over()
        return 0.0

    def _advance_runs(self) -> None:
        """Advance the runs with news.

        Those that are held back are advanced when there may be room, and once a second.
        """
        wakes: list[DecodeRun | None] = []
        while not self._wakes.empty():
            wakes.append(self._wakes.get())
        now = time.monotonic()
        may_have_room = None in wakes or now > self._held_looked_at + _POLL_SECONDS
        if may_have_room:
            self._held_looked_at = now
        patient = self._patient_due()
        for run in dict.fromkeys([*(self._held if may_have_room else ()), *patient, *wakes]):
            if run is None or run not in self._runs:
                continue
            if self._shares_loop and run not in patient and run.is_patient:
                self._patient[run] = None
                continue
            self._patient.pop(run, None)
            state = run.advance()
            (self._held.add if state is RunState.HELD else self._held.discard)(run)
            if state is RunState.OVER:
                with self.lock:
                    self._runs.discard(run)

    def _patient_due(self) -> dict[DecodeRun, None]:
        """Take the patient runs with news in the turns in which they are advanced."""
        self._turns += 1
        if self._turns % _PATIENCE:
            return {}
        patient, self._patient = self._patient, {}
        return patient

    def _hand_over(self) -> None:
        """Deliver the samples of the batch that was launched, if there is one."""
        batch, self._launched = self._launched, None
        if batch is None:
            return
        try:
            outputs = batch.samples()
            # One look at all samples: an operator for each job would wait for the other threads.
            are_finite = _are_finite([t for pair in outputs for t in pair if t is not None])
            with self.lock:
                for entry, samples in zip(batch.entries, outputs, strict=True):
                    if are_finite or _are_finite([t for t in samples if t is not None]):
                        self._deliver(entry, *samples)
                    else:
                        self._refuse(entry.job)
        except BaseException as error:
            self._fail(batch.entries, error)

    def _fail(self, entries: Sequence[_BatchEntry], error: BaseException) -> None:
        """End the jobs of a batch with an error, or all jobs where none was chosen yet."""
        with self.lock:
            failed = [entry.job for entry in entries] or list(self._jobs)
            self.drop(failed)
            for job in failed:
                job.fail(error)

    def _due_jobs(self) -> tuple[list[DecodeJob], float]:
        """Return the jobs that are due, and the seconds until the next one is."""
        due, pause, now = [], math.inf, time.monotonic()
        for job, since in self._jobs.items():
            wait = job.decoder.wait() if job.has_room else None
            # A job may have become due during the last batch: keep that time.
            self._jobs[job] = math.inf if wait is None else min(since, now + wait)
            if wait == 0:
                due.append(job)
            elif wait is not None:
                pause = min(pause, wait)
        return due, pause

    def _fill_batch(self, due: Sequence[DecodeJob], batch: list[_BatchEntry]) -> None:
        """Take frames of the jobs that can share a batch with the most urgent one, up to the bound.

        Those whose listeners need sound soon come first, and each gives an equal part at most: the
        long rest of one would hold up the first sound of others. A job that finds the batch full is
        early in the next one.
        """
        leads = {job: job.decoder.lead for job in due}
        by_need = sorted(due, key=leads.__getitem__)
        alike = [job for job in by_need if job.decoder.is_like(by_need[0].decoder)]
        urgent = sum(leads[job] < SOON for job in alike)
        left, part = self._max_frames, _part(self._max_frames, urgent)
        for number, job in enumerate(alike):
            if left <= 0:
                break
            most = min(left, part) if number < urgent else left
            entry = _BatchEntry(job, job.decoder.next(most), self._jobs.pop(job))
            self._jobs[job] = math.inf  # to the end of the queue
            batch.append(entry)
            left -= max(1, 0 if entry.input.frames is None else len(entry.input.frames))

    def _refuse(self, job: DecodeJob) -> None:
        """End the call of a job whose samples are not finite, unless the job was dropped."""
        if job not in self._jobs:
            return
        self.drop([job])
        job.fail(
            GenerationError(
                "the decoder gave samples that are not finite: the checkpoint's weights are "
                "damaged (check them with `chattts verify`) or too large for this dtype (load "
                "with dtype='float32')"
            )
        )

    def _deliver(self, entry: _BatchEntry, final: Tensor, provisional: Tensor | None) -> None:
        """Hand over the samples of one job, unless it was dropped meanwhile."""
        job = entry.job
        if job not in self._jobs:
            return
        samples = job.decoder.advance(entry.input, final, provisional)
        if job.decoder.is_complete:
            del self._jobs[job]
        job.deliver(samples, time.monotonic() - entry.since)


@dataclass(frozen=True)
class _BatchEntry:
    """One job's share of a batch.

    Attributes:
        input: what is decoded.
        since: when it was due, in seconds of ``time.monotonic``.
    """

    job: DecodeJob
    input: DecodeChunk
    since: float


def _part(frames: int, jobs: int) -> int:
    """Return the frames that each of some jobs may have in a batch of ``frames``."""
    return frames if jobs <= 1 else max(1, frames // jobs // PIECE_FRAMES) * PIECE_FRAMES


@dataclass(frozen=True)
class _Batch:
    """A launched batch, and what gives its samples, as :func:`launch_batch` does."""

    entries: Sequence[_BatchEntry]
    samples: Callable[[], list[tuple[Tensor, Tensor | None]]]


def _launch(entries: Sequence[_BatchEntry]) -> Callable[[], list[tuple[Tensor, Tensor | None]]]:
    """Launch a batch, and keep no threads that would slow the engine down."""
    try:
        return launch_batch([(entry.job.decoder, entry.input) for entry in entries])
    finally:
        openmp.return_threads()


def launch_batch(
    batch: Sequence[tuple[UtteranceDecoder, DecodeChunk]],
) -> Callable[[], list[tuple[Tensor, Tensor | None]]]:
    """Begin to decode inputs of several utterances of one synthesizer in one batch.

    Returns:
        Waits for the device where that computes by itself. It gives for each utterance the samples
        that became final, and for an early chunk also the samples that would follow if the
        utterance ended there.
    """
    synthesizer = batch[0][0].synthesizer
    if batch[0][0].is_whole:
        wholes = [
            None if piece.frames is None else synthesizer.launch_samples(piece.frames)
            for _, piece in batch
        ]
        return lambda: [(torch.empty(0) if whole is None else whole(), None) for whole in wholes]
    finals = synthesizer.launch(
        [DecoderInput(decoder.state, piece.frames, piece.last) for decoder, piece in batch]
    )
    pushes = [
        DecoderInput(decoder.state.copy(), _padding(piece.frames), last=True)
        for decoder, piece in batch
        if piece.early is not None
    ]
    pushed = synthesizer.launch(pushes) if pushes else list

    def samples() -> list[tuple[Tensor, Tensor | None]]:
        final, provisional = finals(), iter(pushed())
        return [
            (own, None if piece.early is None else next(provisional))
            for own, (_, piece) in zip(final, batch, strict=True)
        ]

    return samples


def _are_finite(samples: Sequence[Tensor]) -> bool:
    """Return whether all samples are finite; reads them once."""
    joined = torch.cat([torch.zeros(1), *samples])
    return bool(torch.stack(joined.aminmax()).isfinite().all())


def _padding(frames: Tensor | None) -> Tensor:
    """Return what an early chunk is computed with in place of the frames not known yet."""
    assert frames is not None, "a chunk has at least a frame"
    return frames[-1:].expand(PADDING_FRAMES, -1)
