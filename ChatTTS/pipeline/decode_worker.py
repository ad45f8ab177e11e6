"""The thread that turns what all calls generate into samples, many utterances in one batch."""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from weakref import WeakSet

import torch
from torch import Tensor

from ..errors import GenerationError
from ..model.streaming_decoder import DecoderInput
from ..utils.fair_lock import Turns
from ..utils.locks import Bell, Waiter, new_rlock
from ..utils.process_hooks import start, watch
from .decoding import STAND_INS, Samples, UtteranceDecoder, Work

# Frames that are decoded in one turn. On a CPU more would be little faster, and holds up the
# engine; a GPU decodes many in the time of a few.
MOST_FRAMES = 64
MOST_FRAMES_ON_GPU = 2048
# Who leaves takes no lock, so he wakes nobody: how often to look, in seconds.
_POLL_SECONDS = 1.0


class Track(ABC):
    """An utterance that is being decoded, and where its samples go.

    All methods are called with the lock of the :class:`Vocoding` held, and none may wait.
    """

    decoder: UtteranceDecoder

    @property
    @abstractmethod
    def is_wanted(self) -> bool:
        """Whether anybody still listens."""

    @property
    @abstractmethod
    def has_room(self) -> bool:
        """Whether more samples may come: whoever takes them is not too far behind."""

    @abstractmethod
    def deliver(self, samples: Samples, delay: float) -> None:
        """Take what came, which may complete the decoder; not called once the track is dropped.

        Args:
            samples: [n], perhaps none.
            delay: seconds since they were due.
        """

    @abstractmethod
    def fail(self, error: BaseException) -> None:
        """Nothing comes any more."""


class Owner(ABC):
    """Somebody who waits for samples."""

    @abstractmethod
    def after_fork(self) -> None:
        """In a forked child: nothing comes any more."""


class Vocoding:
    """Decodes tracks as their schedules ask for it, in a thread that lives while there are any.

    A turn decodes all tracks that are due in one batch, and a bounded number of frames: between
    two turns an engine that needs the same cores can make a step.

    Args:
        turns: in which samples are computed, as is all work that needs the same cores.
        most_frames: that are decoded in one turn.

    Attributes:
        lock: guards the tracks, their decoders and their owners.
    """

    def __init__(self, turns: Turns, most_frames: int = MOST_FRAMES) -> None:
        self._turns = turns
        self._most_frames = most_frames
        self._owners: WeakSet[Owner] = WeakSet()
        self.lock = new_rlock()
        self._begin()
        watch(self)

    def _begin(self) -> None:
        self._bell = Bell()
        # In the order in which they came, with the time since when they are due.
        self._tracks: dict[Track, float] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    def own(self, owner: Owner) -> None:
        """From now on tell ``owner`` of forks."""
        self._owners.add(owner)

    def add(self, track: Track) -> None:
        """Decode ``track`` until it is complete; one that is there already has news."""
        with self.lock:
            if self._closed:
                return
            self._tracks.setdefault(track, math.inf)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="vocoding", daemon=True)
                start(self._thread)
            self._bell.ring()

    def drop(self, tracks: Iterable[Track]) -> None:
        """Forget tracks for good, complete or not."""
        with self.lock:
            for track in tracks:
                self._tracks.pop(track, None)
            self._bell.ring()

    def wake(self) -> None:
        """There is room for a track again."""
        with self.lock:
            self._bell.ring()

    def at_exit(self) -> None:
        """At the interpreter's end: stop after the turn that is running."""
        with self.lock:
            self._closed, thread = True, self._thread
            self._bell.ring()
        if thread is not None and thread.is_alive():
            thread.join()

    def after_fork(self) -> None:
        """In a forked child: no thread, no tracks."""
        self._begin()
        for owner in list(self._owners):
            owner.after_fork()

    def _run(self) -> None:
        """The thread's work. What a turn was about is forgotten before the next one is awaited."""
        while self._turn():
            pass

    def _turn(self) -> bool:
        """Decode what is due, as soon as anything is; false where the thread is to end."""
        shares: list[_Share] = []
        try:
            if not self._await(shares):
                return False
            outputs = self._turns.run(
                lambda: decode([(share.track.decoder, share.work) for share in shares])
            )
            with self.lock:
                for share, (final, flushed) in zip(shares, outputs, strict=True):
                    self._deliver(share, final, flushed)
        except BaseException as error:  # nobody must be left waiting, whatever it was
            with self.lock:
                failed = [share.track for share in shares] or list(self._tracks)
                self.drop(failed)
                for track in failed:
                    track.fail(error)
        return True

    def _await(self, shares: list[_Share]) -> bool:
        """Share out the next turn, as soon as anything is due; false where there is no track."""
        waiter = Waiter()
        while True:
            with self.lock:
                # Ctrl-C may leave a thread behind while it starts: another one has begun then.
                if self._closed or self._thread is not threading.current_thread():
                    return False
                self.drop([track for track in self._tracks if not track.is_wanted])
                if not self._tracks:
                    self._thread = None
                    return False
                due, pause = self._look()
                if due:
                    self._share(due, shares)
                    return True
                self._bell.will_wake(waiter)
            waiter.wait(min(pause, _POLL_SECONDS))

    def _look(self) -> tuple[list[Track], float]:
        """The tracks that are due, and the seconds until the next one is."""
        due, pause, now = [], math.inf, time.monotonic()
        for track, since in self._tracks.items():
            wait = track.decoder.wait() if track.has_room else None
            # What was to be due while another turn went on is due since then.
            self._tracks[track] = math.inf if wait is None else min(since, now + wait)
            if wait == 0:
                due.append(track)
            elif wait is not None:
                pause = min(pause, wait)
        return due, pause

    def _share(self, due: Sequence[Track], shares: list[_Share]) -> None:
        """Give pieces of the tracks that can share a batch with the first of them, as far as a
        turn goes; who comes too late is first next time."""
        left = self._most_frames
        for track in due:
            if left > 0 and track.decoder.is_like(due[0].decoder):
                share = _Share(track, track.decoder.next(left), self._tracks.pop(track))
                self._tracks[track] = math.inf  # to the end of the line
                shares.append(share)
                left -= max(1, 0 if share.work.frames is None else len(share.work.frames))

    def _deliver(self, share: _Share, final: Tensor, flushed: Tensor | None) -> None:
        """Hand over what a turn gave, unless the track was dropped meanwhile."""
        track = share.track
        if track not in self._tracks:
            return
        if not _is_sound(final) or not (flushed is None or _is_sound(flushed)):
            self.drop([track])
            track.fail(
                GenerationError(
                    "the decoder gave samples that are not finite: the checkpoint's weights are "
                    "damaged (check them with `chattts verify`) or too large for this dtype (load "
                    "with dtype='float32')"
                )
            )
            return
        samples = track.decoder.advance(share.work, final, flushed)
        if track.decoder.is_complete:
            del self._tracks[track]
        track.deliver(samples, time.monotonic() - share.since)


@dataclass(frozen=True)
class _Share:
    """What a track has of a turn.

    Attributes:
        work: to be decoded.
        since: when it was due.
    """

    track: Track
    work: Work
    since: float


def decode(work: Sequence[tuple[UtteranceDecoder, Work]]) -> list[tuple[Tensor, Tensor | None]]:
    """Pieces of one synthesizer's utterances, in one batch.

    Returns:
        For each the samples that became final, and for an early one also those that would follow
        if the utterance ended there.
    """
    synthesizer = work[0][0].synthesizer
    if work[0][0].is_whole:
        wholes = (piece.frames for _, piece in work)
        return [
            (torch.empty(0) if frames is None else synthesizer.samples(frames), None)
            for frames in wholes
        ]
    finals = synthesizer.advance(
        [DecoderInput(decoder.state, piece.frames, piece.last) for decoder, piece in work]
    )
    flushes = [
        DecoderInput(decoder.state.copy(), _stand_ins(piece.frames), last=True)
        for decoder, piece in work
        if piece.early is not None
    ]
    flushed = iter(synthesizer.advance(flushes) if flushes else ())
    return [
        (final, None if piece.early is None else next(flushed))
        for final, (_, piece) in zip(finals, work, strict=True)
    ]


def _is_sound(samples: Tensor) -> bool:
    """Whether a listener could be given these; one pass over them."""
    return not len(samples) or bool(torch.stack(samples.aminmax()).isfinite().all())


def _stand_ins(frames: Tensor | None) -> Tensor:
    """What an early chunk is computed with in place of the frames that are not known yet."""
    assert frames is not None, "a chunk has at least a frame"
    return frames[-1:].expand(STAND_INS, -1)
