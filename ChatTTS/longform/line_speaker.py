"""Speak the lines of a plan side by side, and give them out in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from ..errors import AudioError, ChatTTSError
from ..utils.locks import ChangeNotifier, WakeSignal, new_lock
from .line_store import LineStore, SpokenLine
from .planned import PlannedLine
from .script import ScriptError

# Seconds between looks at the caller's event.
_POLL = 0.1
# Utterances for each line that is generated at once. A paragraph has several, all of which the
# engine begins together: more of them take more memory, and hardly less time.
_UTTERANCES = 3
_NOTHING = SpokenLine(np.zeros(0, dtype=np.float32), ())


class InterruptedReadingError(ChatTTSError):
    """A reading was interrupted; the lines spoken before are kept."""


class LineVoice(Protocol):
    """Speaks one line; called in several threads at once."""

    def speak(self, planned: PlannedLine, stop: threading.Event) -> SpokenLine | None:
        """Return the speech of a line; ``None`` if ``stop`` was set before its end.

        Raises:
            ScriptError: the line cannot be spoken.
        """


class LineSpeaker:
    """Speaks lines, each one only if it is not kept already.

    Args:
        voice: speaks a line.
        store: the folder of the results.
        side_by_side: lines that are generated at once.
        interrupt: an event that ends the reading; any thread may set it.
    """

    def __init__(
        self,
        voice: LineVoice,
        store: LineStore,
        side_by_side: int,
        interrupt: threading.Event | None,
    ) -> None:
        self._voice, self._store = voice, store
        self._side_by_side = side_by_side
        self._interrupt = interrupt
        self._room = _Room(_UTTERANCES * side_by_side)

    def lines(self, plan: Sequence[PlannedLine]) -> Iterator[tuple[PlannedLine, SpokenLine]]:
        """Yield all lines in order, with their speech.

        At most twice as many lines as are generated at once are ahead of the caller, and their
        speech is in the folder, so memory does not grow with the length. Lines of many utterances
        wait for one another, so memory hardly depends on the length of the lines. Closing the
        iterator ends the generation.

        Raises:
            ScriptError: a line cannot be spoken. Lines that were begun are finished and kept first.
            AudioError: the folder takes no more lines.
            InterruptedReadingError: the event was set, or ``Chat.interrupt`` was called.
        """
        stop = threading.Event()
        ahead: deque[tuple[PlannedLine, Future[None]]] = deque()
        pool = ThreadPoolExecutor(self._side_by_side, thread_name_prefix="line")
        try:
            for planned in plan:
                ahead.append((planned, pool.submit(self._speak, planned, stop)))
                if len(ahead) >= 2 * self._side_by_side:
                    yield self._next(ahead)
            while ahead:
                yield self._next(ahead)
        except ScriptError:
            pool.shutdown(cancel_futures=True)
            raise
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)

    def _next(
        self, ahead: deque[tuple[PlannedLine, Future[None]]]
    ) -> tuple[PlannedLine, SpokenLine]:
        planned, future = ahead.popleft()
        is_done = False
        while not is_done:
            if self._interrupt is not None and self._interrupt.is_set():
                raise self._interrupted()
            is_done = bool(wait([future], _POLL).done)
        try:
            future.result()
        except CancelledError as error:
            raise self._interrupted() from error
        if planned.key is None:
            return planned, _NOTHING
        spoken = self._store.load(planned.key)
        if spoken is None:
            raise AudioError(
                f"another program deleted or damaged a line in {self._store.folder}; run the "
                "command again"
            )
        return planned, spoken

    def _speak(self, planned: PlannedLine, stop: threading.Event) -> None:
        """Speak a line and keep it; runs in a thread of the pool."""
        key = planned.key
        if key is None or self._store.has(key):
            return
        with self._room.taken(len(planned.texts)):
            if stop.is_set():
                raise self._interrupted()
            spoken = self._voice.speak(planned, stop)
        if spoken is None:
            raise self._interrupted()
        self._store.save(key, spoken)

    def _interrupted(self) -> InterruptedReadingError:
        return InterruptedReadingError(
            f"interrupted; the lines spoken so far are kept in {self._store.folder}"
        )


class _Room:
    """Room for a number of utterances; a line with more of them takes all of it."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most
        self._lock, self._changed = new_lock(), ChangeNotifier()

    @contextmanager
    def taken(self, count: int) -> Iterator[None]:
        """Wait until there is room for ``count`` utterances, and take it."""
        count = min(count, self._most)
        signal = WakeSignal()
        while not self._take(count, signal):
            signal.wait(_POLL)
        try:
            yield
        finally:
            with self._lock:
                self._left += count
                self._changed.notify()

    def _take(self, count: int, signal: WakeSignal) -> bool:
        """Take room for ``count`` utterances; if there is none, wake ``signal`` at a change."""
        with self._lock:
            if self._left < count:
                self._changed.subscribe(signal)
                return False
            self._left -= count
            return True
