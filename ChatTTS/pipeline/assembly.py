"""From generated frames to the waveforms of a call's texts: between a producer and a consumer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from ..audio.samples import SAMPLE_RATE, Samples
from ..errors import ChatTTSError
from ..model.generation import FinishReason
from ..utils.locks import ChangeNotifier, WakeSignal
from .decode.schedules import PlaybackClock
from .decode.utterance_decoder import UtteranceDecoder
from .decode.worker import DecodeWorker
from .results import Piece, SpokenUtterance
from .utterance import Utterance, UtteranceUpdate
from .utterance_shape import UtteranceShape
from .waveform_buffer import AssemblingCall, UtteranceJob, WaveformBuffer

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Makes the decoder of an utterance, for the playback of its text.
MakeDecoder = Callable[[Utterance, PlaybackClock], UtteranceDecoder]

# How far a text may be generated ahead of the consumer of its samples, in samples.
_GENERATED_AHEAD = 60 * SAMPLE_RATE
# On Windows, Ctrl-C cannot interrupt a wait without a limit.
_POLL_SECONDS = 1.0


class WaveformAssembler(AssemblingCall):
    """Has the utterances of all texts decoded, and gives the samples of each text in order.

    One thread, the producer, gives frames. Another thread or an asyncio loop, the consumer, takes
    samples. No sample is lost and none is given twice.

    Args:
        worker: decodes the frames.
        utterances: of all the texts.
        count: of the texts; one without an utterance has an empty waveform.
        make_decoder: makes the decoder of an utterance.
        waits_for_consumer: whether the producer waits while it is far ahead of the consumer.

    Attributes:
        texts: what was spoken of each text, and how it ended.
        is_left: whether the consumer is gone.
    """

    def __init__(
        self,
        worker: DecodeWorker,
        utterances: Sequence[Utterance],
        count: int,
        make_decoder: MakeDecoder,
        *,
        waits_for_consumer: bool,
    ) -> None:
        self.worker = worker
        self._notifier = ChangeNotifier()  # under the worker's lock
        self._waits_for_consumer = waits_for_consumer
        self._is_awaited = False
        self._error: BaseException | None = None
        self._future: asyncio.Future[None] | None = None
        self._buffers = [WaveformBuffer(self) for _ in range(count)]
        self._jobs: dict[tuple[int, int], UtteranceJob] = {}
        for u in sorted(utterances, key=lambda u: u.index):
            buffer = self._buffers[u.text_index]
            decoder = make_decoder(u, buffer.playback)
            job = UtteranceJob(buffer, u, decoder, SpokenUtterance(u.shown))
            self._jobs[u.text_index, u.index] = job
            buffer.jobs.append(job)
            buffer.spoken.utterances.append(job.spoken)
        self.texts = [buffer.spoken for buffer in self._buffers]
        self.is_left = False
        self._make_decoder = make_decoder
        worker.register(self)

    # ------------------------------------------------------------ the producer's side

    def push(self, update: UtteranceUpdate) -> bool:
        """Take new frames; wait while all texts are far ahead of the consumer.

        Returns:
            False once frames are no longer taken.
        """
        signal = WakeSignal()
        while True:
            with self.worker.lock:
                if self.is_over or not self.is_far_ahead:
                    return self.add(update)
                self._notifier.subscribe(signal)
            signal.wait(_POLL_SECONDS)

    def add(self, update: UtteranceUpdate) -> bool:
        """Take new frames without waiting; return False once frames are no longer taken."""
        with self.worker.lock:
            if self.is_over:
                return False
            self._add(update)
            return True

    def _add(self, update: UtteranceUpdate) -> None:
        u, delta = update.utterance, update.delta
        buffer = self._buffers[u.text_index]
        if update.is_restart:
            self._restart(buffer, self._jobs[u.text_index, u.index])
        job = self._jobs[u.text_index, u.index]
        job.spoken.text = u.shown
        job.alignment = update.alignment
        if job.shape is None and u.is_shaped and update.sound is None:
            job.shape = UtteranceShape(u)
        if delta.finish is not None:
            job.find_words()
        (job.spoken.faults.extend if job.shape is None else job.shape.add_faults)(update.faults)
        job.spoken.attempts = update.attempts
        if update.sound is not None:
            job.take_sound(update.sound, delta.finish)
            return
        job.decoder.push(delta)
        job.count_generated(len(delta.ids) * job.decoder.synthesizer.samples_per_frame)
        if job is buffer.current:
            self.worker.add(job)

    def _restart(self, buffer: WaveformBuffer, job: UtteranceJob) -> None:
        """Replace a job, of which no sample was taken, by a fresh one."""
        self.worker.drop([job])
        u = job.utterance
        job.spoken.samples = 0
        job.spoken.words.clear()
        job.spoken.faults.clear()
        fresh = UtteranceJob(buffer, u, self._make_decoder(u, buffer.playback), job.spoken)
        self._jobs[u.text_index, u.index] = fresh
        buffer.jobs[buffer.jobs.index(job)] = fresh
        buffer.available -= sum(map(len, job.ready))
        buffer.generated -= job.generated

    def fail(self, error: BaseException) -> None:
        """End the call; the consumer gets the first error."""
        with self.worker.lock:
            self._error = self._error or error
            self._drop()

    def leave(self) -> None:
        """Take no samples any more. It takes no lock: see ``StreamGeneration.leave``."""
        self.is_left = True

    def close(self) -> None:
        """Leave, and free everything now."""
        self.leave()
        with self.worker.lock:
            for buffer in self._buffers:
                buffer.jobs.clear()
            self._drop()

    def after_fork(self) -> None:
        """End the call in a forked child."""
        self._future = None
        self.fail(ChatTTSError("the process was forked, and this call stayed in the parent"))

    @property
    def is_far_ahead(self) -> bool:
        """Return whether all unfinished texts have more frames than the consumer needs soon."""
        if not self.is_bounded:
            return False
        with self.worker.lock:
            unfinished = [b.generated for b in self._buffers if b.current is not None]
            return min(unfinished, default=0) >= _GENERATED_AHEAD

    @property
    def lead(self) -> float:
        """The least seconds of sound that the listener of an unfinished text still has to play."""
        with self.worker.lock:
            current = [buffer.current for buffer in self._buffers]
            return min([job.decoder.lead for job in current if job is not None], default=0.0)

    @property
    def is_bounded(self) -> bool:
        """Return whether samples may be too far ahead of the consumer; never while it waits."""
        return self._waits_for_consumer and not self._is_awaited

    @property
    def is_over(self) -> bool:
        """Return whether no more frames are taken."""
        if self.is_left or self._error is not None:
            return True
        open_texts = [buffer for buffer in self._buffers if buffer.jobs]
        return not open_texts

    def _drop(self) -> None:
        self.worker.drop(self._jobs.values())
        self.notify()

    # ------------------------------------------------------------ the consumer's side

    def wait(self, take: Callable[[], T | None]) -> T | None:
        """Return what ``take`` gives, once it gives something; ``None`` when all has been taken.

        Raises:
            BaseException: what ended the work early.
        """
        signal = WakeSignal()
        while True:
            with self.worker.lock:
                if (item := self._next(take)) is not None or self.is_over:
                    return item
                self._begin_waiting()
                self._notifier.subscribe(signal)
            try:
                signal.wait(_POLL_SECONDS)
            finally:
                self._is_awaited = False

    async def wait_async(self, take: Callable[[], T | None]) -> T | None:
        """Do as :meth:`wait` in an asyncio loop, which goes on meanwhile."""
        while True:
            with self.worker.lock:
                if (item := self._next(take)) is not None or self.is_over:
                    return item
                self._begin_waiting()
                # Kept in a local name: `notify` clears the attribute once the lock is free.
                self._future = future = asyncio.get_running_loop().create_future()
            try:
                await future
            finally:
                self._is_awaited = False

    def take(self, min_samples: int = 1, max_samples: int | None = None) -> Samples | None:
        """Take a chunk, float32 [texts, n], of what every unfinished text can give.

        Texts that are finished are padded with silence.

        Args:
            min_samples: samples that a chunk must have, unless all texts are finished.
            max_samples: samples that a chunk may have.

        Returns:
            ``None`` where there are too few samples.
        """
        ready = [buffer.available for buffer in self._buffers]
        waiting = [buffer.available for buffer in self._buffers if buffer.current is not None]
        length = min(waiting) if waiting else max(ready, default=0)
        if length == 0 or (waiting and length < min_samples):
            return None
        chunk = np.zeros((len(ready), min(length, max_samples or length)), dtype=np.float32)
        for buffer, samples in zip(self._buffers, chunk, strict=True):
            buffer.fill(samples)
        return chunk

    def piece(self, position: int) -> Piece | None:
        """Take what is ready of the first text's first unfinished utterance; ``None`` if nothing.

        Args:
            position: of its first sample.
        """
        return self._buffers[0].piece(position)

    def waveforms(self) -> list[Samples]:
        """Take all that is ready of each text, float32 [n] each."""
        with self.worker.lock:
            waveforms = [np.zeros(b.available, dtype=np.float32) for b in self._buffers]
            for buffer, samples in zip(self._buffers, waveforms, strict=True):
                buffer.fill(samples)
            return waveforms

    @property
    def is_complete(self) -> bool:
        """Return whether all samples are decoded."""
        return all(buffer.current is None for buffer in self._buffers)

    @property
    def empty_texts(self) -> list[str]:
        """Texts of the utterances that the model ended at once."""
        return [
            spoken.text
            for text in self.texts
            for spoken in text.utterances
            if spoken.finish is FinishReason.STOP and not spoken.samples
        ]

    def notify(self) -> None:
        """Wake the producer and the consumer; called with the lock held."""
        self._notifier.notify()
        future, self._future = self._future, None
        if future is not None:
            try:
                future.get_loop().call_soon_threadsafe(_resolve, future)
            except RuntimeError:  # the loop was closed, and its task with it
                logger.debug("an asyncio loop was closed while a stream was read in it")

    def _next(self, take: Callable[[], T | None]) -> T | None:
        item = None if self.is_left else take()
        if item is None and self._error is not None and not self.is_left:
            raise self._error
        return item

    def _begin_waiting(self) -> None:
        """Resume all that waited for room; called with the lock held, before the consumer waits."""
        self._is_awaited = True
        self._notifier.notify()
        self.worker.wake()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
