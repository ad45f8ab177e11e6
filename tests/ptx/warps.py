"""Instructions by which the threads of a warp exchange values, and those that do nothing here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .formats import Values
from .machine import WARP, Machine, operation
from .program import Instruction, WithPredicate

_LANES = np.arange(WARP)[None, :]


@operation("shfl")
def _shuffle(machine: Machine, instruction: Instruction) -> None:
    into, *operands = instruction.operands
    mode = instruction.parts[2]
    values, by, limits = (machine.raw(operand, 32).reshape(-1, WARP) for operand in operands[:3])
    by, limits = by.astype(np.int64) & 31, limits.astype(np.int64)
    segment, clamp = (limits >> 8) & 31, limits & 31
    first, last = _LANES & segment, (_LANES & segment) | (clamp & ~segment)
    if mode == "bfly":
        source, valid = _LANES ^ by, (_LANES ^ by) <= last
    elif mode == "up":
        source, valid = _LANES - by, _LANES - by >= last
    elif mode == "down":
        source, valid = _LANES + by, _LANES + by <= last
    else:
        source = first | (by & ~segment)
        valid = source <= last
    source = np.where(valid, source, _LANES)
    found = np.take_along_axis(values, source, 1).ravel()
    if isinstance(into, WithPredicate):
        machine.put(into.value, found)
        machine.put(into.predicate, valid.ravel())
    else:
        machine.put(into, found)


_REDUCTIONS: dict[str, Callable[[Values], Values]] = {
    "add": lambda values: values.sum(axis=1, dtype=values.dtype),
    "min": lambda values: values.min(axis=1),
    "max": lambda values: values.max(axis=1),
    "and": lambda values: np.bitwise_and.reduce(values, axis=1),
    "or": lambda values: np.bitwise_or.reduce(values, axis=1),
}


@operation("redux")
def _reduce(machine: Machine, instruction: Instruction) -> None:
    into, operand, *_ = instruction.operands
    values = machine.value(operand, instruction.kind).reshape(-1, WARP)
    reduced = _REDUCTIONS[instruction.parts[2]](values)
    machine.put_value(into, np.repeat(reduced, WARP), instruction.kind)


@operation("vote")
def _vote(machine: Machine, instruction: Instruction) -> None:
    into, operand, *_ = instruction.operands
    holds = machine.raw(operand, 1).reshape(-1, WARP)
    if "ballot" in instruction.parts:
        bits = holds.astype(np.uint64) << np.arange(WARP, dtype=np.uint64)
        result = bits.sum(axis=1).astype(np.uint32)
    else:
        result = holds.any(axis=1) if "any" in instruction.parts else holds.all(axis=1)
    machine.put(into, np.repeat(result, WARP))


@operation("griddepcontrol")
def _order_launches(machine: Machine, instruction: Instruction) -> None:
    """Carry out ``wait``. Launches follow one another here, so ``launch_dependents`` does nothing.

    ``overlap.py`` tells what would be wrong if they did not.
    """
    if "wait" in instruction.parts:
        machine.wait_for_launch()


@operation("activemask", "fence", "membar")
def _nothing(machine: Machine, instruction: Instruction) -> None:
    """Memory has one order here."""
