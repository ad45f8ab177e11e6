"""Instructions on the bits of whole numbers."""

from __future__ import annotations

import numpy as np

from .formats import BITS, UNSIGNED, is_signed
from .machine import Machine, operation
from .program import Instruction, Number


@operation("shl", "shr")
def _shift(machine: Machine, instruction: Instruction) -> None:
    name, kind = instruction.parts[0], instruction.kind
    into, operand, amount = instruction.operands
    values, by = machine.value(operand, kind), machine.raw(amount, 32)
    over = by >= BITS[kind]
    by = np.minimum(by, BITS[kind] - 1).astype(values.dtype)
    shifted = values << by if name == "shl" else values >> by
    if name == "shl" or not is_signed(kind):
        shifted = np.where(over, values.dtype.type(0), shifted)
    machine.put_value(into, shifted, kind)


@operation("shf")
def _funnel_shift(machine: Machine, instruction: Instruction) -> None:
    into, *operands = instruction.operands
    low, high, by = (machine.raw(operand, 32).astype(np.uint64) for operand in operands)
    by = by & np.uint64(31) if "wrap" in instruction.parts else np.minimum(by, np.uint64(32))
    pair = (high << np.uint64(32)) | low
    shifted = (pair << by) >> np.uint64(32) if instruction.parts[1] == "l" else pair >> by
    machine.put(into, shifted.astype(np.uint32))


@operation("bfe")
def _extract(machine: Machine, instruction: Instruction) -> None:
    bits = BITS[instruction.kind]
    into, operand, *place = instruction.operands
    values = machine.raw(operand, bits).astype(np.uint64)
    begin, length = (machine.raw(each, 32).astype(np.uint64) & np.uint64(0xFF) for each in place)
    field = (values >> begin) & ((np.uint64(1) << length) - np.uint64(1))
    if is_signed(instruction.kind):
        sign = np.uint64(1) << (length - np.uint64(1))
        field = (field ^ sign) - sign
    machine.put(into, field.astype(UNSIGNED[bits]))


@operation("bfi")
def _insert(machine: Machine, instruction: Instruction) -> None:
    into, *operands = instruction.operands
    field, base, begin, length = (machine.raw(operand, 32) for operand in operands)
    mask = ((np.uint32(1) << length) - np.uint32(1)) << begin
    machine.put(into, (base & ~mask) | ((field << begin) & mask))


@operation("popc")
def _count(machine: Machine, instruction: Instruction) -> None:
    into, operand = instruction.operands
    values = machine.raw(operand, BITS[instruction.kind])
    as_bytes = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
    ones = np.unpackbits(as_bytes, axis=1)
    machine.put(into, ones.sum(axis=1).astype(np.uint32))


@operation("lop3")
def _logic(machine: Machine, instruction: Instruction) -> None:
    into, *operands, table = instruction.operands
    assert isinstance(table, Number)
    a, b, c = (machine.raw(operand, 32) for operand in operands)
    result = np.zeros_like(a)
    for row in range(8):
        if table.bits >> row & 1:
            result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
    machine.put(into, result)


@operation("prmt")
def _permute(machine: Machine, instruction: Instruction) -> None:
    into, *operands = instruction.operands
    low, high, choice = (machine.raw(operand, 32).astype(np.uint64) for operand in operands)
    pair = low | (high << np.uint64(32))
    result = np.zeros_like(pair)
    for place in range(4):
        chosen = (choice >> np.uint64(4 * place)) & np.uint64(15)
        byte = (pair >> (np.uint64(8) * (chosen & np.uint64(7)))) & np.uint64(0xFF)
        signs = np.where(byte & np.uint64(0x80), np.uint64(0xFF), np.uint64(0))
        byte = np.where(chosen & np.uint64(8), signs, byte)
        result |= byte << np.uint64(8 * place)
    machine.put(into, result.astype(np.uint32))
