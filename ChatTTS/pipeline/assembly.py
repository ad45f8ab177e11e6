"""From generated frames to rows of samples: each utterance decoded, each row in order."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import ChatTTSError
from ..model.generation import FinishReason
from ..text.tags import without_border_breaks
from ..utils.locks import Bell, Waiter
from .decode_worker import Owner, Track, Vocoding
from .decoding import UtteranceDecoder
from .frame_generation import Gain, Utterance
from .results import Piece, Row, Spoken
from .schedules import SAMPLE_RATE, Listener

logger = logging.getLogger(__name__)

Samples = NDArray[np.float32]
T = TypeVar("T")

# Makes the decoder of an utterance, for whoever hears its row.
MakeDecoder = Callable[[Utterance, Listener], UtteranceDecoder]

# How far a row may be ahead of whoever takes its samples, in samples: decoded, and generated.
_DECODED_AHEAD = 10 * SAMPLE_RATE
_GENERATED_AHEAD = 60 * SAMPLE_RATE
# A thread that waits for ever cannot be interrupted by Ctrl-C on Windows.
_POLL_SECONDS = 1.0


class UtteranceTrack(Track):
    """An utterance, from frames to samples that wait to be taken.

    Attributes:
        ready: samples that came and are not taken.
        spoken: what is said of the utterance.
        generated: samples that came, or could come of the frames that are here.
    """

    def __init__(
        self, line: RowLine, utterance: Utterance, decoder: UtteranceDecoder, spoken: Spoken
    ) -> None:
        self.decoder = decoder
        self.utterance = utterance
        self.spoken = spoken
        self.ready: deque[Samples] = deque()
        self.generated = 0
        self._line = line

    @property
    def is_spent(self) -> bool:
        """Whether all of it is taken."""
        return self.decoder.is_complete and not self.ready

    @property
    def is_wanted(self) -> bool:
        """See :class:`~ChatTTS.pipeline.decode_worker.Track`."""
        return not self._line.mixer.is_left

    @property
    def has_room(self) -> bool:
        """See :class:`~ChatTTS.pipeline.decode_worker.Track`."""
        return self._line.has_room

    def deliver(self, samples: Samples, delay: float) -> None:
        """See :class:`~ChatTTS.pipeline.decode_worker.Track`."""
        heard = self._with_silence(samples)
        silence = len(heard) - len(samples)
        self.generated += silence
        self._line.generated += silence
        if len(heard):
            self.ready.append(heard)
            self.spoken.samples += len(heard)
        if self.decoder.is_complete:
            self.spoken.finish = self.decoder.finish
        self._line.delivered(len(heard), delay, self.decoder.is_complete)

    def _with_silence(self, samples: Samples) -> Samples:
        """Return the samples with the breaks at the borders of the text, where they are due."""
        begins = len(samples) > 0 and self.spoken.samples == 0
        is_heard = begins or self.spoken.samples > 0
        ends = self.decoder.is_complete and self.decoder.finish is not FinishReason.ABORT
        if not begins and not (ends and is_heard):
            return samples
        before, _, after = without_border_breaks(self.spoken.text)
        parts = [_silence(before * begins), samples, _silence(after * ends)]
        return np.concatenate(parts)

    def fail(self, error: BaseException) -> None:
        """See :class:`~ChatTTS.pipeline.decode_worker.Track`."""
        self._line.mixer.fail(error)


class RowLine:
    """The utterances of a row that are not wholly taken, first to last.

    They are decoded one after another, in the order in which they are heard: what is needed later
    does not hold up what is needed now.
    """

    def __init__(self, mixer: RowMixer) -> None:
        self.mixer = mixer
        self.row = Row()
        self.listener = Listener()
        self.tracks: deque[UtteranceTrack] = deque()
        self.available = 0  # samples that can be taken
        self.generated = 0  # samples that can be taken, or could if all frames were decoded

    @property
    def current(self) -> UtteranceTrack | None:
        """The utterance that is being decoded; ``None`` where all are complete."""
        return next((t for t in self.tracks if not t.decoder.is_complete), None)

    @property
    def has_room(self) -> bool:
        """Whether whoever takes the samples is not too far behind."""
        return not self.mixer.bounds or self.available < _DECODED_AHEAD

    def delivered(self, samples: int, delay: float, is_complete: bool) -> None:
        """Samples of the current utterance came, perhaps its last ones."""
        self.available += samples
        if samples:
            self.listener.give(samples, delay)
        self._prune()
        if is_complete and (following := self.current) is not None:
            self.mixer.vocoding.add(following)
        self.mixer.notify()

    def fill(self, target: Samples) -> None:
        """Move samples into ``target``, as far as there are any."""
        filled = 0
        for track in self.tracks:
            while track.ready and filled < len(target):
                piece = track.ready.popleft()
                part = piece[: len(target) - filled]
                target[filled : filled + len(part)] = part
                filled += len(part)
                if len(part) < len(piece):
                    track.ready.appendleft(piece[len(part) :])
        self._took(filled)

    def piece(self, position: int) -> Piece | None:
        """All that is ready of the first utterance that has anything; ``None`` if none has."""
        track = next((track for track in self.tracks if track.ready), None)
        if track is None:
            return None
        samples = np.concatenate(track.ready)
        track.ready.clear()
        self._took(len(samples))
        finish = track.spoken.finish
        return Piece(
            samples=samples,
            position=position,
            utterance=track.utterance.index,
            text=track.spoken.text,
            finish_reason=None if finish is None else finish.value,
        )

    def _took(self, samples: int) -> None:
        self.available -= samples
        self.generated -= samples
        self._prune()
        self.mixer.vocoding.wake()
        self.mixer.notify()

    def _prune(self) -> None:
        while self.tracks and self.tracks[0].is_spent:
            self.tracks.popleft()


class RowMixer(Owner):
    """Has the utterances of all rows decoded, and gives their samples in order.

    Frames are pushed by one thread, and samples are taken by another or by an asyncio loop.
    Nothing is lost and nothing is given twice.

    Args:
        vocoding: who decodes.
        utterances: of all the rows.
        count: of the rows; one without an utterance is empty.
        make_decoder: makes the decoder of an utterance.
        is_bounded: whether to wait for whoever takes the samples.

    Attributes:
        rows: what is said of each row, and how it ended.
        is_left: whether nobody takes samples any more.
    """

    def __init__(
        self,
        vocoding: Vocoding,
        utterances: Sequence[Utterance],
        count: int,
        make_decoder: MakeDecoder,
        *,
        is_bounded: bool,
    ) -> None:
        self.vocoding = vocoding
        self._bell = Bell()  # of the vocoding's lock
        self._is_bounded = is_bounded
        self._is_awaited = False
        self._error: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._lines = [RowLine(self) for _ in range(count)]
        self._tracks: dict[tuple[int, int], UtteranceTrack] = {}
        for u in sorted(utterances, key=lambda u: u.index):
            line = self._lines[u.row]
            track = UtteranceTrack(line, u, make_decoder(u, line.listener), Spoken(u.text))
            self._tracks[u.row, u.index] = track
            line.tracks.append(track)
            line.row.utterances.append(track.spoken)
        self.rows = [line.row for line in self._lines]
        self.is_left = False
        self._make_decoder = make_decoder
        vocoding.own(self)

    # ------------------------------------------------------------ who generates

    def push(self, gain: Gain) -> bool:
        """Take what an utterance gained; waits while all rows are far ahead of the listener.

        Returns:
            False once nothing is taken any more.
        """
        waiter = Waiter()
        while True:
            with self.vocoding.lock:
                if self._is_over:
                    return False
                if not self._is_far_ahead:
                    self._push(gain)
                    return True
                self._bell.will_wake(waiter)
            waiter.wait(_POLL_SECONDS)

    def _push(self, gain: Gain) -> None:
        u, delta = gain.utterance, gain.delta
        line = self._lines[u.row]
        if gain.is_anew:
            self._begin_anew(line, self._tracks[u.row, u.index])
        track = self._tracks[u.row, u.index]
        track.spoken.text = u.text
        track.decoder.push(delta)
        generated = len(delta.ids) * track.decoder.synthesizer.samples_per_frame
        track.generated += generated
        line.generated += generated
        if track is line.current:
            self.vocoding.add(track)

    def _begin_anew(self, line: RowLine, track: UtteranceTrack) -> None:
        """Put a fresh track in the place of one of which nothing was taken."""
        self.vocoding.drop([track])
        u = track.utterance
        track.spoken.samples = 0
        fresh = UtteranceTrack(line, u, self._make_decoder(u, line.listener), track.spoken)
        self._tracks[u.row, u.index] = fresh
        line.tracks[line.tracks.index(track)] = fresh
        line.available -= sum(map(len, track.ready))
        line.generated -= track.generated

    def fail(self, error: BaseException) -> None:
        """Nothing comes any more; the first error is told to whoever takes the samples."""
        with self.vocoding.lock:
            self._error = self._error or error
            self._drop()

    def leave(self) -> None:
        """Nobody takes samples any more. It takes no lock: see ``Production.leave``."""
        self.is_left = True

    def close(self) -> None:
        """As :meth:`leave`, and let go of everything now."""
        self.leave()
        with self.vocoding.lock:
            for line in self._lines:
                line.tracks.clear()
            self._drop()

    def after_fork(self) -> None:
        """See :class:`~ChatTTS.pipeline.decode_worker.Owner`."""
        self._waiter = None
        self.fail(ChatTTSError("the process was forked, and this call stayed in the parent"))

    @property
    def _is_far_ahead(self) -> bool:
        unfinished = [line.generated for line in self._lines if line.current is not None]
        return self.bounds and min(unfinished, default=0) >= _GENERATED_AHEAD

    @property
    def bounds(self) -> bool:
        """Whether a row may be too far ahead: whoever waits for samples is not behind them."""
        return self._is_bounded and not self._is_awaited

    @property
    def _is_over(self) -> bool:
        ended = self.is_left or self._error is not None
        return ended or not any(line.tracks for line in self._lines)

    def _drop(self) -> None:
        self.vocoding.drop(self._tracks.values())
        self.notify()

    # ------------------------------------------------------------ who takes

    def wait(self, take: Callable[[], T | None]) -> T | None:
        """What ``take`` gives, as soon as it gives something; ``None`` when all has been taken.

        Raises:
            BaseException: what ended the work early.
        """
        waiter = Waiter()
        while True:
            with self.vocoding.lock:
                if (item := self._next(take)) is not None or self._is_over:
                    return item
                self._begin_waiting()
                self._bell.will_wake(waiter)
            try:
                waiter.wait(_POLL_SECONDS)
            finally:
                self._is_awaited = False

    async def wait_async(self, take: Callable[[], T | None]) -> T | None:
        """The same in an asyncio loop, which goes on meanwhile."""
        while True:
            with self.vocoding.lock:
                if (item := self._next(take)) is not None or self._is_over:
                    return item
                self._begin_waiting()
                # By its own name: as soon as the lock is free, whoever notifies forgets it here.
                self._waiter = waiter = asyncio.get_running_loop().create_future()
            try:
                await waiter
            finally:
                self._is_awaited = False

    def take(self, least: int = 1, most: int | None = None) -> Samples | None:
        """A chunk (rows, n) of what every unfinished row can give; ``None`` if that is too short.

        Rows that are finished are padded with silence.

        Args:
            least: samples that a chunk must have, unless all rows are finished.
            most: samples that a chunk may have.
        """
        ready = [line.available for line in self._lines]
        waiting = [line.available for line in self._lines if line.current is not None]
        length = min(waiting) if waiting else max(ready, default=0)
        if length == 0 or (waiting and length < least):
            return None
        chunk = np.zeros((len(ready), min(length, most or length)), dtype=np.float32)
        for line, samples in zip(self._lines, chunk, strict=True):
            line.fill(samples)
        return chunk

    def piece(self, position: int) -> Piece | None:
        """What the first row can give of its first unfinished utterance; ``None`` if nothing.

        Args:
            position: of its first sample.
        """
        return self._lines[0].piece(position)

    def whole(self) -> list[Samples]:
        """All that is ready of each row."""
        with self.vocoding.lock:
            rows = [np.zeros(line.available, dtype=np.float32) for line in self._lines]
            for line, samples in zip(self._lines, rows, strict=True):
                line.fill(samples)
            return rows

    @property
    def is_complete(self) -> bool:
        """Whether all samples are there."""
        return all(line.current is None for line in self._lines)

    @property
    def empty_texts(self) -> list[str]:
        """Texts of the utterances that the model ended at once."""
        return [
            spoken.text
            for row in self.rows
            for spoken in row.utterances
            if spoken.finish is FinishReason.STOP and not spoken.samples
        ]

    def notify(self) -> None:
        """Wake whoever waits, with the lock held."""
        self._bell.ring()
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            try:
                waiter.get_loop().call_soon_threadsafe(_resolve, waiter)
            except RuntimeError:  # the loop was closed, and who waited went with it
                logger.debug("an asyncio loop was closed while a stream was read in it")

    def _next(self, take: Callable[[], T | None]) -> T | None:
        item = None if self.is_left else take()
        if item is None and self._error is not None and not self.is_left:
            raise self._error
        return item

    def _begin_waiting(self) -> None:
        """Let go on what waited for room; called with the lock held, before a wait without it."""
        self._is_awaited = True
        self._bell.ring()
        self.vocoding.wake()


def _silence(seconds: float) -> Samples:
    return np.zeros(round(seconds * SAMPLE_RATE), dtype=np.float32)


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
