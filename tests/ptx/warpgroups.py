"""Products of four warps together, from shared memory, on GPUs of compute capability 9.0.

A product is computed when it is waited for, and not sooner. So a kernel that overwrites its inputs
or reads its results too early gives wrong numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import numpy as np

from .formats import Values, decode, encode
from .machine import WARP, Machine, operation
from .memory import Places, gather
from .program import Instruction, Number, Operand, PtxError, Register, Vector

_GROUP_THREADS = 4 * WARP
_ROWS, _DEPTH = 64, 16
# By the number in a descriptor: the bytes of a row of 8 x 16 byte pieces. Address bits 4 and above
# are exchanged by as many bits from bit 7 on.
_ROW_BYTES = {1: 128, 2: 64, 3: 32}


@operation("wgmma")
def _warpgroup(machine: Machine, instruction: Instruction) -> None:
    what = instruction.parts[1]
    if what == "mma_async":
        machine.open_products.append(_begin(machine, instruction))
    elif what == "commit_group":
        machine.product_groups.append(machine.open_products)
        machine.open_products = []
    elif what == "wait_group":
        [left] = instruction.operands
        assert isinstance(left, Number)
        while len(machine.product_groups) > left.bits:
            for product in machine.product_groups.pop(0):
                product()
    elif what != "fence":
        raise PtxError(f"not known: {instruction.text}")


def _begin(machine: Machine, instruction: Instruction) -> partial[None]:
    """Check an instruction; return what computes its product."""
    into, left, right, adds, *rest = instruction.operands
    shape = next(filter(None, (re.fullmatch(r"m64n(\d+)k16", p) for p in instruction.parts)), None)
    numbers = [operand.bits for operand in rest if isinstance(operand, Number)]
    kind = instruction.kind
    plain = numbers == ([1, 1, 0, 0] if isinstance(left, Register) else [1, 1, 0])
    if shape is None or kind not in ("bf16", "f16") or not plain:
        raise PtxError(f"not known: {instruction.text}")
    threads = machine.threads
    groups = threads.reshape(-1, _GROUP_THREADS)
    if len(threads) % _GROUP_THREADS or (groups[:, 0] % _GROUP_THREADS).any():
        raise PtxError(f"a product without all four warps: {instruction.text}")
    assert isinstance(into, Vector)
    machine.awaited.update(_names(into))
    columns = int(shape[1])
    right_places = _places(machine, right, columns)
    note = partial(_note_read, machine, groups)
    note(right_places)
    right_matrix = partial(_matrix, machine, right_places, kind, note)
    if isinstance(left, Register):
        places = _places(machine, left, _ROWS)
        note(places)
        rows = partial(_matrix, machine, places, kind, note)
    else:
        rows = partial(_from_registers, _raw(machine, left), kind)
    adding = machine.raw(adds, 1)
    return partial(_multiply, machine, into, rows, right_matrix, threads, adding)


def _names(vector: Vector) -> list[str]:
    return [item.name for item in vector.items if isinstance(item, Register)]


def _note_read(machine: Machine, groups: Places, places: Places) -> None:
    """Note that groups read places [groups, rows, 16]; each warp reads all."""
    for warp in range(4):
        readers = np.repeat(groups[:, WARP * warp], places[0].size)
        machine.note_shared("reads", places.ravel(), 2, readers)


def _places(machine: Machine, descriptor: Operand, rows: int) -> Places:
    """Return the places [groups, rows, 16] in shared memory of a matrix, rows contiguous."""
    bits = machine.raw(descriptor, 64)[::_GROUP_THREADS].astype(object)
    found = []
    for number, program in zip(bits, machine.programs()[::_GROUP_THREADS], strict=True):
        begin, stride = (number & 0x3FFF) << 4, (number >> 32 & 0x3FFF) << 4
        swizzle = number >> 62
        if swizzle not in _ROW_BYTES or number >> 49 & 7:
            raise PtxError(f"not a known layout: {machine.now.text}")
        row_bytes = _ROW_BYTES[swizzle]
        row, depth = np.arange(rows)[:, None], np.arange(_DEPTH)[None, :]
        places = begin + row // 8 * stride + row % 8 * row_bytes + 2 * depth
        exchanged = places ^ ((places >> 7 & (row_bytes // 16 - 1)) << 4)
        found.append(machine.in_shared(exchanged, 2, program))
    return np.stack(found)


def _matrix(machine: Machine, places: Places, kind: str, note: Callable[[Places], None]) -> Values:
    """Return the values [groups, rows, 16] at places of shared memory, read until now."""
    note(places)
    raw = gather(machine.shared, places.ravel(), 2)
    return decode(raw, kind).reshape(places.shape).astype(np.float64)


def _raw(machine: Machine, operand: Operand) -> list[Values]:
    assert isinstance(operand, Vector)
    return [machine.raw(item, 32) for item in operand.items]


def _from_registers(registers: list[Values], kind: str) -> Values:
    """Return the left matrix [groups, 64, 16] that the threads hold."""
    lane = np.arange(_GROUP_THREADS)
    first = lane // WARP * 16 + lane % WARP // 4
    found = np.empty((len(registers[0]) // _GROUP_THREADS, _ROWS, _DEPTH))
    for number, raw in enumerate(registers):
        for half in (0, 1):
            bits = (raw >> np.uint32(16 * half) & np.uint32(0xFFFF)).astype(np.uint16)
            columns = lane % 4 * 2 + 8 * (number >> 1) + half
            found[:, first + 8 * (number & 1), columns] = decode(bits, kind).reshape(len(found), -1)
    return found


def _multiply(
    machine: Machine,
    into: Vector,
    rows: partial[Values],
    right: partial[Values],
    threads: Places,
    adding: Values,
) -> None:
    """Compute a product, and add it to what its registers hold."""
    product = rows() @ right().transpose(0, 2, 1)  # [groups, 64, columns]
    machine.awaited.subtract(_names(into))
    lane = np.arange(_GROUP_THREADS)
    first = lane // WARP * 16 + lane % WARP // 4
    for number, item in enumerate(into.items):
        assert isinstance(item, Register)
        columns = 8 * (number >> 2) + lane % 4 * 2 + (number & 1)
        own = product[:, first + 8 * (number >> 1 & 1), columns].ravel()
        held = decode(machine.raw_for(threads, item).astype(np.uint32), "f32")
        total = np.where(adding, held.astype(np.float64) + own, own)
        machine.put_for(threads, item, encode(total, "f32"))
