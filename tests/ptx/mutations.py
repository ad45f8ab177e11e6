"""Takes lines out of compiled kernels, and tells which of them are not missed.

``python -m tests.ptx.mutations CAPABILITY`` prints, for each scenario and line, whether the
scenario notices that the line is gone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import takewhile

from .launches import Emulation
from .program import Instruction, Program, Symbol
from .scenarios import SCENARIOS

_NOTHING = Instruction(("fence",), (), "taken out")


def kind_of(instruction: Instruction) -> str | None:
    """Return whether a line is a barrier, a wait, a masked store or a fetch, or ``None``."""
    parts = instruction.parts
    if parts[0] in ("bar", "barrier") and "warp" not in parts:
        return "barrier"
    if "wait_group" in parts:
        return "wait"
    if parts[:2] == ("st", "global") and instruction.predicate is not None:
        return "mask"
    if parts[0] == "prefetch":
        return "fetch"
    return None


def without(program: Program, place: int) -> Program:
    """Return the program with one line taken out, or with the mask of a store or a fetch."""
    line = program.code[place]
    is_masked = kind_of(line) in ("mask", "fetch")
    changed = replace(line, predicate=None) if is_masked else _NOTHING
    return replace(program, code=(*program.code[:place], changed, *program.code[place + 1 :]))


def orders_nothing(program: Program, place: int) -> bool:
    """Return whether no warp reads shared memory before a barrier, nor until the next one.

    Copies into places that no warp has read need no order. The compiler sets such barriers before a
    loop, as it does in the loop.
    """
    loops = (
        (program.labels[operand.name], at)
        for at, line in enumerate(program.code)
        for operand in line.operands
        if line.parts[0] == "bra" and isinstance(operand, Symbol)
    )
    in_loop = any(begin <= place <= end for begin, end in loops)
    behind = takewhile(lambda line: kind_of(line) != "barrier", program.code[place + 1 :])
    near = (*program.code[:place], *behind)
    return not in_loop and not any(map(_reads_shared, near))


def _reads_shared(line: Instruction) -> bool:
    return line.parts[:2] == ("ld", "shared") or line.parts[0] in ("ldmatrix", "wgmma")


def main(capability: str) -> None:
    emulation = Emulation(int(capability), order=None)
    emulation.install()
    for scenario, run in SCENARIOS.items():
        _take_out(emulation, scenario, run)


def _take_out(emulation: Emulation, scenario: str, run: Callable[[], None]) -> None:
    """Run a scenario without each line of its kernels in turn; print what became of it."""
    programs: dict[str, Program] = {}

    def note(kernel: str, program: Program) -> Program:
        programs[kernel] = program
        return program

    emulation.change = note
    run()
    for kernel, program in programs.items():
        for place, line in enumerate(program.code):
            kind = kind_of(line)
            if kind is None or (kind == "barrier" and orders_nothing(program, place)):
                continue
            emulation.change = partial(_replaced, kernel, without(program, place))
            print(scenario, _outcome(run), kind, kernel, place, line.text)


def _replaced(kernel: str, changed: Program, name: str, given: Program) -> Program:
    return changed if name == kernel else given


def _outcome(run: Callable[[], None]) -> str:
    try:
        run()
    except (AssertionError, RuntimeError):
        return "noticed"
    return "missed"


if __name__ == "__main__":
    main(*sys.argv[1:])
