"""From generated frames to waveforms: decodes each utterance, and keeps each text in order.

Silence for tags at the borders of an utterance is made here; ``text/tags.py`` has its lengths.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from ..audio.samples import SAMPLE_RATE, Samples
from ..errors import ChatTTSError
from ..model.generation import FinishReason
from ..utils.locks import ChangeNotifier, WakeSignal
from .alignment.utterance_alignment import UtteranceAlignment
from .decode.schedules import PlaybackClock
from .decode.utterance_decoder import UtteranceDecoder
from .decode.worker import DecodeClient, DecodeJob, DecodeWorker
from .results import Piece, SpokenText, SpokenUtterance
from .utterance import Sound, Utterance, UtteranceUpdate
from .utterance_shape import UtteranceShape

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Makes the decoder of an utterance, for the playback of its text.
MakeDecoder = Callable[[Utterance, PlaybackClock], UtteranceDecoder]

# How far a text may be ahead of the consumer of its samples, in samples: decoded, and generated.
_DECODED_AHEAD = 10 * SAMPLE_RATE
_GENERATED_AHEAD = 60 * SAMPLE_RATE
# On Windows, Ctrl-C cannot interrupt a wait without a limit.
_POLL_SECONDS = 1.0


class UtteranceJob(DecodeJob):
    """An utterance from its frames to the samples that wait for the consumer.

    Attributes:
        ready: samples that are decoded and not taken.
        spoken: the utterance as the caller sees it.
        generated: samples that are decoded, or would be if all present frames were.
        alignment: gives the words, once the first frames came and if their times are wanted.
        shape: changes the samples, where the text asks for that and the first frames came.
        words_given, faults_given: how many of the words and of the faults the consumer took.
    """

    def __init__(
        self,
        buffer: WaveformBuffer,
        utterance: Utterance,
        decoder: UtteranceDecoder,
        spoken: SpokenUtterance,
    ) -> None:
        self.decoder = decoder
        self.utterance = utterance
        self.spoken = spoken
        self.ready: deque[Samples] = deque()
        self.generated = 0
        self.alignment: UtteranceAlignment | None = None
        self.shape: UtteranceShape | None = None
        self.words_given = self.faults_given = 0
        self._buffer = buffer

    def find_words(self) -> None:
        """Add the words that are final by now to those that the caller sees."""
        if self.shape is not None:
            self.spoken.words += self.shape.take_words()
            self.spoken.faults += self.shape.take_faults()
        elif self.alignment is not None:
            self.spoken.words += self.alignment.words_from(len(self.spoken.words))

    @property
    def is_spent(self) -> bool:
        """Return whether all samples are taken."""
        return self.decoder.is_complete and not self.ready

    @property
    def is_wanted(self) -> bool:
        """Return whether the consumer is still there."""
        return not self._buffer.assembler.is_left

    @property
    def has_room(self) -> bool:
        """Return whether the text has room for more samples."""
        return self._buffer.has_room

    def deliver(self, samples: Samples, delay: float) -> None:
        """Take decoded samples: see :meth:`DecodeJob.deliver`."""
        padded = self._with_silence(self._shaped(samples))
        self.count_generated(len(padded) - len(samples))
        self._give(padded, delay)

    def take_sound(self, sound: Sound, finish: FinishReason | None) -> None:
        """Take the whole sound of the utterance, which needs no decoding."""
        self.decoder.finish, self.decoder.is_complete = finish, True
        self.spoken.words += sound.words
        self._buffer.spoken.fit = sound.fit
        self.count_generated(len(sound.samples))
        self._give(sound.samples, 0.0)

    def count_generated(self, samples: int) -> None:
        """Count samples that were decoded, or can be."""
        self.generated += samples
        self._buffer.generated += samples

    def _give(self, samples: Samples, delay: float) -> None:
        if len(samples):
            self.ready.append(samples)
            self.spoken.samples += len(samples)
        if self.decoder.is_complete:
            self.spoken.finish = self.decoder.finish
            self.find_words()
        self._buffer.delivered(len(samples), delay, self.decoder.is_complete)

    def _shaped(self, samples: Samples) -> Samples:
        """Return the samples that the shape has ready."""
        if self.shape is None:
            return samples
        return self.shape.push(
            samples,
            self.alignment,
            is_last=self.decoder.is_complete,
            is_whole=self.decoder.finish is not FinishReason.ABORT,
        )

    def _with_silence(self, samples: Samples) -> Samples:
        """Return the samples with the breaks and pauses around the utterance, where due."""
        begins = len(samples) > 0 and self.spoken.samples == 0
        is_heard = begins or self.spoken.samples > 0
        ends = self.decoder.is_complete and self.decoder.finish is not FinishReason.ABORT
        if not begins and not (ends and is_heard):
            return samples
        u = self.utterance
        before, after = u.silence_around(self.spoken.text)
        first, last = begins and not u.cuts_start, ends and not u.cuts_end
        return np.pad(samples, (before * first, after * last))

    def fail(self, error: BaseException) -> None:
        """End the whole call with ``error``."""
        self._buffer.assembler.fail(error)


class WaveformBuffer:
    """The waveform of one text: its utterances, in order, that are not wholly taken.

    Utterances are decoded one after another, in the order in which they are heard. So a later one
    does not hold up an earlier one.

    Attributes:
        available: samples that can be taken.
        generated: samples that can be taken, or could be if all present frames were decoded.
    """

    def __init__(self, assembler: WaveformAssembler) -> None:
        self.assembler = assembler
        self.spoken = SpokenText()
        self.playback = PlaybackClock()
        self.jobs: deque[UtteranceJob] = deque()
        self.available = 0
        self.generated = 0

    @property
    def current(self) -> UtteranceJob | None:
        """The utterance that is being decoded; ``None`` where all are complete."""
        return next((job for job in self.jobs if not job.decoder.is_complete), None)

    @property
    def has_room(self) -> bool:
        """Return whether more samples may be decoded for the consumer."""
        return not self.assembler.is_bounded or self.available < _DECODED_AHEAD

    def delivered(self, samples: int, delay: float, is_complete: bool) -> None:
        """Count new samples of the current utterance, and begin the next one after its last."""
        self.available += samples
        if samples:
            self.playback.give(samples, delay)
        self._prune()
        if is_complete and (following := self.current) is not None:
            self.assembler.worker.add(following)
        self.assembler.notify()

    def fill(self, target: Samples) -> None:
        """Move samples into ``target``, as many as are there."""
        filled = 0
        for job in self.jobs:
            while job.ready and filled < len(target):
                piece = job.ready.popleft()
                part = piece[: len(target) - filled]
                target[filled : filled + len(part)] = part
                filled += len(part)
                if len(part) < len(piece):
                    job.ready.appendleft(piece[len(part) :])
        self._took(filled)

    def piece(self, position: int) -> Piece | None:
        """Take all that is ready of the first utterance with samples; ``None`` if none has any."""
        job = next((job for job in self.jobs if job.ready), None)
        if job is None:
            return None
        samples = np.concatenate(job.ready)
        job.ready.clear()
        self._took(len(samples))
        finish = job.spoken.finish
        start = self.spoken.start_of(job.spoken)
        fresh = job.spoken.words[job.words_given :]
        job.words_given += len(fresh)
        faults = job.spoken.faults[job.faults_given :]
        job.faults_given += len(faults)
        return Piece(
            samples=samples,
            position=position,
            utterance=job.utterance.index,
            text=job.spoken.text,
            finish_reason=None if finish is None else finish.value,
            words=tuple(word.shifted(start) for word in fresh),
            faults=tuple(fault.shifted(start) for fault in faults),
            attempts=job.spoken.attempts,
        )

    def _took(self, samples: int) -> None:
        self.available -= samples
        self.generated -= samples
        for job in self.jobs:
            job.find_words()
        self._prune()
        self.assembler.worker.wake()
        self.assembler.notify()

    def _prune(self) -> None:
        while self.jobs and self.jobs[0].is_spent:
            self.jobs.popleft()


class WaveformAssembler(DecodeClient):
    """Has the utterances of all texts decoded, and gives the samples of each text in order.

    One thread, the producer, pushes frames. Another thread or an asyncio loop, the consumer, takes
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
                if self._is_over:
                    return False
                if not self._is_far_ahead:
                    self._push(update)
                    return True
                self._notifier.subscribe(signal)
            signal.wait(_POLL_SECONDS)

    def _push(self, update: UtteranceUpdate) -> None:
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
        """Take no samples any more. It takes no lock: see ``GenerationThread.leave``."""
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
    def _is_far_ahead(self) -> bool:
        unfinished = [b.generated for b in self._buffers if b.current is not None]
        return self.is_bounded and min(unfinished, default=0) >= _GENERATED_AHEAD

    @property
    def is_bounded(self) -> bool:
        """Return whether samples may be too far ahead of the consumer; never while it waits."""
        return self._waits_for_consumer and not self._is_awaited

    @property
    def _is_over(self) -> bool:
        ended = self.is_left or self._error is not None
        return ended or not any(buffer.jobs for buffer in self._buffers)

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
                if (item := self._next(take)) is not None or self._is_over:
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
                if (item := self._next(take)) is not None or self._is_over:
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
