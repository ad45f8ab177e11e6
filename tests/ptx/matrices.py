"""Instructions of tensor cores: matrices in the registers of a warp."""

from __future__ import annotations

import numpy as np

from .formats import Values, decode, encode
from .machine import WARP, Machine, operation
from .memory import Places, gather, scatter
from .program import Instruction, Operand, PtxError, Vector

_LANES = np.arange(WARP)
_GROUP, _IN_GROUP = _LANES // 4, _LANES % 4


def _items(operand: Operand) -> tuple[Operand, ...]:
    assert isinstance(operand, Vector)
    return operand.items


def _elements(rows: Places, *, transposed: bool) -> list[Places]:
    """Return the places of the two elements that each lane holds of an 8 x 8 matrix.

    Args:
        rows: [warps, 8], where each row of 16 bytes begins.
        transposed: whether the matrix lies by columns.
    """
    if (rows % 16).any():
        raise PtxError("a row of a matrix is misaligned")
    if transposed:
        return [(rows[:, _IN_GROUP * 2 + i] + _GROUP * 2).ravel() for i in (0, 1)]
    return [(rows[:, _GROUP] + _IN_GROUP * 4 + 2 * i).ravel() for i in (0, 1)]


@operation("ldmatrix")
def _load(machine: Machine, instruction: Instruction) -> None:
    into, place = instruction.operands
    rows, threads = machine.shared_places(place, 1).reshape(-1, WARP), machine.threads
    for number in range(instruction.vector_size):
        own = rows[:, 8 * number : 8 * number + 8]
        halves = []
        for places in _elements(own, transposed="trans" in instruction.parts):
            machine.note_shared("reads", places, 2, threads)
            halves.append(gather(machine.shared, places, 2).astype(np.uint32))
        machine.put(_items(into)[number], halves[0] | (halves[1] << np.uint32(16)))


@operation("stmatrix")
def _store(machine: Machine, instruction: Instruction) -> None:
    place, operand = instruction.operands
    rows, threads = machine.shared_places(place, 1).reshape(-1, WARP), machine.threads
    for number in range(instruction.vector_size):
        own = rows[:, 8 * number : 8 * number + 8]
        values = machine.raw(_items(operand)[number], 32)
        for i, places in enumerate(_elements(own, transposed="trans" in instruction.parts)):
            machine.note_shared("writes", places, 2, threads)
            scatter(machine.shared, places, _half(values, i))


@operation("mma")
def _multiply(machine: Machine, instruction: Instruction) -> None:
    """Add the product of 16 x 16 and 16 x 8 matrices of half precision to float32 [16, 8]."""
    kind = instruction.parts[-2]
    if "m16n8k16" not in instruction.parts or kind not in ("bf16", "f16"):
        raise PtxError(f"not known: {instruction.text}")
    into, *operands = instruction.operands
    left, right, added = (
        [machine.raw(item, 32).reshape(-1, WARP) for item in _items(operand)]
        for operand in operands
    )
    a = np.empty((len(left[0]), 16, 16))
    b = np.empty((len(left[0]), 16, 8))
    c = np.empty((len(left[0]), 16, 8))
    for r, values in enumerate(left):
        for i in (0, 1):
            rows, columns = _GROUP + 8 * (r & 1), _IN_GROUP * 2 + 8 * (r >> 1) + i
            a[:, rows, columns] = decode(_half(values, i), kind)
    for r, values in enumerate(right):
        for i in (0, 1):
            b[:, _IN_GROUP * 2 + 8 * r + i, _GROUP] = decode(_half(values, i), kind)
    places = [(_GROUP + 8 * (r >> 1), _IN_GROUP * 2 + (r & 1)) for r in range(4)]
    for (rows, columns), values in zip(places, added, strict=True):
        c[:, rows, columns] = decode(values, "f32")
    total = (a @ b + c).astype(np.float32)
    for (rows, columns), item in zip(places, _items(into), strict=True):
        machine.put(item, encode(total[:, rows, columns].ravel(), "f32"))


def _half(values: Values, number: int) -> Values:
    """Return the lower or the upper half of numbers of 32 bits."""
    return np.ascontiguousarray(values).view(np.uint16).reshape(*values.shape, 2)[..., number]
