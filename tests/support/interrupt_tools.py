"""Ctrl-C at every instruction: a signal that is pending from the n-th one on, for every n.

CPython checks for signals after some instructions only, and locks rely on that. So the signal must
become pending without Python code that would handle it. A tracing function does that by a
subscript, after which CPython does not check, and no later instruction calls the function.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

SECONDS = 20  # longer than this counts as a hang


class _Interrupt:
    __getitem__ = _thread.interrupt_main


_INTERRUPT: Any = _Interrupt()


class Interrupted:
    """Call ``work`` in the main thread, and interrupt it at its n-th instruction.

    Attributes:
        has_come: whether the work had that many instructions.
    """

    def __init__(self, work: Callable[[], object], instruction: int) -> None:
        self.has_come = False
        self._left = instruction
        tracer = sys.gettrace()  # of a coverage run
        try:
            sys._getframe().f_trace_opcodes = True  # Python 3.12 needs it before the first event
            sys.settrace(self._trace)
            try:
                work()
            finally:
                sys.settrace(None)
            for _ in range(10):  # the loop makes CPython check for signals
                pass
        except (KeyboardInterrupt, Exception):  # Python's own code may turn it into another error
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
    """Interrupt ``work`` at every instruction, and call ``check`` in another thread each time.

    Returns:
        How often ``work`` was interrupted.
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
