"""Ctrl-C at every instruction: a signal that is pending from the n-th one on, for every n.

CPython looks for signals after some instructions and not after others, and that is what locks count
on. So the signal must become pending without Python code that would handle it: by a subscript,
which looks for none, and in a tracing function that no instruction calls any more.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

SECONDS = 20  # what takes longer hangs


class _Interrupt:
    __getitem__ = _thread.interrupt_main


_INTERRUPT: Any = _Interrupt()


class Interrupted:
    """Calls work in the main thread, and interrupts it at its n-th instruction.

    Attributes:
        has_come: whether the work had so many.
    """

    def __init__(self, work: Callable[[], object], instruction: int) -> None:
        self.has_come = False
        self._left = instruction
        tracer = sys.gettrace()  # of a coverage run
        try:
            sys._getframe().f_trace_opcodes = True  # 3.12 asks for it before the first event
            sys.settrace(self._trace)
            try:
                work()
            finally:
                sys.settrace(None)
            for _ in range(10):  # the loop looks for signals
                pass
        except (KeyboardInterrupt, Exception):  # Python's own code may fail of it otherwise
            sys.settrace(None)
        sys.settrace(tracer)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        frame.f_trace_opcodes = True
        if event == "opcode":
            self._left -= 1
            if self._left == 0:
                self.has_come = True
                sys.settrace(None)
                _INTERRUPT[signal.SIGINT]
                return None
        return self._trace


def at_every_instruction(
    work: Callable[[], object], check: Callable[[], object], first: int = 1, step: int = 1
) -> int:
    """Interrupt ``work`` everywhere, and call ``check`` in another thread each time.

    Returns:
        How often it was interrupted.
    """
    work()
    instruction, count = first, 0
    while Interrupted(work, instruction).has_come:
        checked: list[object] = []

        def run(checked: list[object] = checked) -> None:
            checked.append(check())

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(SECONDS)
        assert checked, f"after an interrupt at instruction {instruction} others wait for ever"
        instruction += step
        count += 1
    return count
