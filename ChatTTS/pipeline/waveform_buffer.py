"""Samples of one text between the decoder and the consumer: its utterances, in order.

Silence for tags at the borders of an utterance is made here; ``text/tags.py`` has its lengths.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque

import numpy as np

from ..audio.samples import SAMPLE_RATE, Samples
from ..model.generation import FinishReason
from .alignment.utterance_alignment import UtteranceAlignment
from .decode.schedules import PlaybackClock
from .decode.utterance_decoder import UtteranceDecoder
from .decode.worker import DecodeClient, DecodeJob, DecodeWorker
from .results import Piece, SpokenText, SpokenUtterance
from .utterance import Sound, Utterance
from .utterance_shape import UtteranceShape

# How far a text may be decoded ahead of the consumer of its samples, in samples.
_DECODED_AHEAD = 10 * SAMPLE_RATE


class AssemblingCall(DecodeClient):
    """The call that the waveforms of some texts belong to.

    Attributes:
        worker: decodes their utterances.
        is_left: whether the consumer is gone.
    """

    worker: DecodeWorker
    is_left: bool

    @property
    @abstractmethod
    def is_bounded(self) -> bool:
        """Return whether samples may be too far ahead of the consumer."""

    @abstractmethod
    def fail(self, error: BaseException) -> None:
        """End the call; the consumer gets the first error."""

    @abstractmethod
    def notify(self) -> None:
        """Wake the producer and the consumer; called with the worker's lock held."""


class UtteranceJob(DecodeJob):
    """An utterance from its frames to the samples that wait for the consumer.

    Attributes:
        ready: samples that are decoded and not taken.
        spoken: the utterance as the caller sees it.
        generated: samples that are decoded, or would be if all present frames were.
        alignment: gives the words, once the first frames came and if their times are wanted.
        shape: changes the samples, where the text asks for that and the first frames came.
        words_taken, faults_taken: how many of the words and of the faults the consumer took.
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
        self.words_taken = self.faults_taken = 0
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
        return not self._buffer.call.is_left

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
        self._buffer.call.fail(error)


class WaveformBuffer:
    """The waveform of one text: its utterances, in order, that are not wholly taken.

    Utterances are decoded one after another, in the order in which they are heard. So a later one
    does not hold up an earlier one.

    Args:
        call: the text's.

    Attributes:
        available: samples that can be taken.
        generated: samples that can be taken, or could be if all present frames were decoded.
    """

    def __init__(self, call: AssemblingCall) -> None:
        self.call = call
        self.spoken = SpokenText()
        self.playback = PlaybackClock()
        self.jobs: deque[UtteranceJob] = deque()
        self.available = 0
        self.generated = 0

    @property
    def current(self) -> UtteranceJob | None:
        """The utterance that is being decoded; ``None`` where all are complete."""
        for job in self.jobs:  # a generator would cost more than all else here
            if not job.decoder.is_complete:
                return job
        return None

    @property
    def has_room(self) -> bool:
        """Return whether more samples may be decoded for the consumer."""
        return not self.call.is_bounded or self.available < _DECODED_AHEAD

    def delivered(self, samples: int, delay: float, is_complete: bool) -> None:
        """Count new samples of the current utterance, and begin the next one after its last."""
        self.available += samples
        if samples:
            self.playback.give(samples, delay)
        self._prune()
        if is_complete and (following := self.current) is not None:
            self.call.worker.add(following)
        self.call.notify()

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
        samples = job.ready[0] if len(job.ready) == 1 else np.concatenate(job.ready)
        job.ready.clear()
        self._took(len(samples))
        finish = job.spoken.finish
        start = self.spoken.start_of(job.spoken)
        fresh = job.spoken.words[job.words_taken :]
        job.words_taken += len(fresh)
        faults = job.spoken.faults[job.faults_taken :]
        job.faults_taken += len(faults)
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
        self.call.worker.wake()
        self.call.notify()

    def _prune(self) -> None:
        while self.jobs and self.jobs[0].is_spent:
            self.jobs.popleft()
