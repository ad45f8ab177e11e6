"""Instructions that move values between registers and memories."""

from __future__ import annotations

import numpy as np

from .formats import BITS, Values, joined, split
from .machine import Copy, Machine, operation
from .memory import gather, scatter
from .program import Address, Instruction, Number, Operand, PtxError, Register, Symbol, Vector


@operation("mov")
def _move(machine: Machine, instruction: Instruction) -> None:
    bits = BITS[instruction.kind]
    into, operand = instruction.operands
    if isinstance(into, Vector):
        parts = split(machine.raw(operand, bits), len(into.items))
        for item, part in zip(into.items, parts, strict=True):
            machine.put(item, part)
    elif isinstance(operand, Vector):
        size = bits // len(operand.items)
        machine.put(into, joined([_raw_or_nan(machine, item, size) for item in operand.items]))
    else:
        machine.put(into, machine.raw(operand, bits).copy())


def _raw_or_nan(machine: Machine, operand: Operand, bits: int) -> Values:
    """Return a value; half of a pair may never have been written, and is then never used."""
    if isinstance(operand, Register) and not machine.is_written(operand):
        operand = Number(0x7FC00000 & ((1 << bits) - 1))
    return machine.raw(operand, bits)


@operation("cvta")
def _to_generic(machine: Machine, instruction: Instruction) -> None:
    into, operand = instruction.operands
    machine.put(into, machine.raw(operand, 64))


@operation("ld")
def _load(machine: Machine, instruction: Instruction) -> None:
    space, bits = instruction.parts[1], BITS[instruction.kind]
    into, place = instruction.operands
    if space == "param":
        assert isinstance(place, Address)
        assert isinstance(place.base, Symbol)
        given = machine.parameters[place.base.name]
        return machine.put(into, machine.raw(Number(given), bits))
    items = into.items if isinstance(into, Vector) else (into,)
    size = bits // 8
    whole, threads = size * instruction.vector_size, machine.threads
    if space == "global":
        places = machine.addresses(place)
        machine.memory.check(places, whole, instruction.text)
        machine.note_global("reads", places, whole, threads)
    else:
        places = machine.shared_places(place, whole)
        machine.note_shared("reads", places, whole, threads)
    for number, item in enumerate(items):
        at = places + number * size
        if space == "global":
            found = machine.memory.load(at, size, instruction.text)
        else:
            found = gather(machine.shared, at, size)
        machine.put(item, _widened(item, machine.spread(found), instruction.kind))
    return None


def _widened(into: Operand, raw: Values, kind: str) -> Values:
    """Return loaded bits in the size of the register, with the sign of its type."""
    assert isinstance(into, Register)
    if BITS[kind] == 8:
        signed = raw.view(np.int8) if kind == "s8" else raw
        return signed.astype(np.int16).view(np.uint16)
    if into.is_wide and BITS[kind] == 32:
        signed = raw.view(np.int32) if kind == "s32" else raw
        return signed.astype(np.int64).view(np.uint64)
    return raw


@operation("st")
def _store(machine: Machine, instruction: Instruction) -> None:
    space, bits = instruction.parts[1], BITS[instruction.kind]
    place, operand = instruction.operands
    items = operand.items if isinstance(operand, Vector) else (operand,)
    size = bits // 8
    whole, threads = size * len(items), machine.threads
    if space == "global":
        places = machine.addresses(place)
        machine.memory.check(places, whole, instruction.text)
        machine.note_global("writes", places, whole, threads)
    else:
        places = machine.shared_places(place, whole)
        machine.note_shared("writes", places, whole, threads)
    for number, item in enumerate(items):
        at, values = places + number * size, machine.held(machine.raw(item, bits))
        if space == "global":
            machine.memory.store(at, size, values, instruction.text)
        else:
            scatter(machine.shared, at, values)


@operation("prefetch")
def _fetch(machine: Machine, instruction: Instruction) -> None:
    """Note the places; data do not move. Fetches are no reads: their order changes nothing."""
    [place] = instruction.operands
    places = machine.addresses(place)
    machine.memory.check(places, 1, instruction.text)
    machine.fetched.update(places.tolist())


@operation("cp")
def _copy(machine: Machine, instruction: Instruction) -> None:
    """Carry out ``cp.async``: data arrive when they are waited for, and not sooner."""
    if "commit_group" in instruction.parts:
        machine.copy_groups.append(machine.open_copies)
        machine.open_copies = []
    elif "wait_group" in instruction.parts or "wait_all" in instruction.parts:
        _wait(machine, _number(instruction.operands[0]) if instruction.operands else 0)
    else:
        machine.open_copies.append(_begin_copy(machine, instruction))


def _wait(machine: Machine, left: int) -> None:
    """Let all groups of copies but the last ``left`` arrive."""
    while len(machine.copy_groups) > left:
        for copy in machine.copy_groups.pop(0):
            size = copy.data.shape[1]
            machine.shared[copy.offsets[:, None] + np.arange(size)] = copy.data
            machine.note_shared("writes", copy.offsets, size, copy.threads)


def _begin_copy(machine: Machine, instruction: Instruction) -> Copy:
    into, place, given, *used = instruction.operands
    size, threads, sources = _number(given), machine.threads, machine.addresses(place)
    wanted = np.full(len(threads), size)
    if used:  # bytes that are read; the rest of the target becomes zero
        wanted = machine.held(machine.raw(used[0], 32).astype(np.int64))
    reads = wanted > 0
    if (wanted[reads] != size).any():
        raise PtxError(f"a copy of a part: {instruction.text}")
    data = np.zeros((len(threads), size), np.uint8)
    step = min(size, 8)
    machine.memory.check(sources[reads], size, instruction.text)
    for at in range(0, size, step):
        found = machine.memory.load(sources[reads] + at, step, instruction.text)
        data[reads, at : at + step] = found.view(np.uint8).reshape(-1, step)
    machine.note_global("reads", sources[reads], size, threads[reads])
    offsets = machine.shared_places(into, size)
    machine.note_shared("writes", offsets, size, threads)  # from now on, until it is waited for
    return Copy(offsets, data, threads)


def _number(operand: Operand) -> int:
    assert isinstance(operand, Number)
    return operand.bits
