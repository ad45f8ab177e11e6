"""A thread that gives turns to what works on one device, and exists only while there is work.

On a GPU the engine and the decoder have one such loop together: what each of them does in Python
then never waits for the other's hold of the interpreter's lock, and the device computes meanwhile.
On a CPU, where each of them computes itself, they have a loop each.
"""

from __future__ import annotations

import math
import threading
from typing import Protocol

from . import openmp
from .locks import ChangeNotifier, WakeSignal, new_lock
from .process_hooks import register_thread_owner, start_thread

# On Windows a thread that waits without a timeout cannot be interrupted by Ctrl-C.
_POLL_SECONDS = 1.0


class LoopPart(Protocol):
    """A worker of a device that has turns in a loop."""

    def turn(self) -> float | None:
        """Do what is due. It raises nothing.

        Returns:
            The seconds until more is due, 0 for now; ``None`` where nothing is left to do.
        """
        ...


class DeviceLoop:
    """Gives each of its busy parts a turn, again and again.

    Args:
        name: of its thread.
        torch_threads: most threads of torch's operators in it; by default those of the process.
    """

    def __init__(self, name: str, torch_threads: int | None = None) -> None:
        self._name, self._torch_threads = name, torch_threads
        self._lock = new_lock()
        self._begin_anew()
        register_thread_owner(self)

    def _begin_anew(self) -> None:
        # The busy parts; each with whether it was given work since its present turn began.
        self._parts: dict[LoopPart, bool] = {}
        self._thread: threading.Thread | None = None
        self._bell = WakeSignal()
        self._rests = ChangeNotifier()  # under the lock

    def begin(self, part: LoopPart) -> None:
        """Give ``part`` turns from now on, until it has nothing left to do.

        Raises:
            OutOfThreadsError: the system gives no thread.
        """
        with self._lock:
            self._parts[part] = True
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                start_thread(self._thread)
        self.wake()

    def wake(self) -> None:
        """Begin the next turn now. It takes no lock: the garbage collector may call it."""
        if self._thread not in (None, threading.current_thread()):  # which looks anyway
            self._bell.wake()

    def wait_for_rest(self, part: LoopPart) -> None:
        """Wait until ``part`` has nothing left to do."""
        signal = WakeSignal()
        while True:
            with self._lock:
                thread = self._thread
                if part not in self._parts or thread is None or not thread.is_alive():
                    return
                self._rests.subscribe(signal)
            signal.wait(_POLL_SECONDS)

    def at_exit(self) -> None:
        """Wait for the thread, whose parts were told to end, at the interpreter's end."""
        thread = self._thread
        if thread is not None and thread.is_alive():
            thread.join()

    def after_fork(self) -> None:
        """Begin anew in a forked child, without a thread and without parts."""
        self._begin_anew()

    def _run(self) -> None:
        with openmp.at_most(self._torch_threads):
            # The method call drops all references to the parts when it ends.
            while self._take_turns():
                pass

    def _take_turns(self) -> bool:
        """Give each busy part a turn, and wait until more is due; return False where none is."""
        with self._lock:
            if self._thread is not threading.current_thread():
                return False  # Ctrl-C came while this thread was started, so it was replaced
            if not self._parts:
                self._thread = None
                return False
            parts = list(self._parts)
            self._parts.update(dict.fromkeys(parts, False))
        while self._bell.wait(0):  # what it rang for is seen in these turns
            pass
        pause = math.inf
        for part in parts:
            due = part.turn()
            pause = min(pause, math.inf if due is None else due)
            if due is None:
                with self._lock:
                    if not self._parts[part]:
                        del self._parts[part]
                        self._rests.notify()
        if 0 < pause < math.inf:
            self._bell.wait(min(pause, _POLL_SECONDS))
        return True
