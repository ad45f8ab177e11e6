"""Arithmetic instructions, on one value or on packed ones."""

from __future__ import annotations

from collections.abc import Callable
from operator import add, and_, mul, or_, sub, xor
from typing import Any

import numpy as np

from .formats import BITS, FLOATS, Values, decode, encode, flush, is_signed, joined, split
from .machine import Machine, Operation, operation
from .program import Instruction

# Types that hold two values: the type of each.
_PACKED = {"f32x2": "f32", "bf16x2": "bf16", "f16x2": "f16"}

Function = Callable[..., Any]


def _lanewise(*names: str) -> Callable[[Function], Operation]:
    """Declare an instruction that computes each value from those of its operands."""

    def declare(function: Function) -> Operation:
        def run(machine: Machine, instruction: Instruction) -> None:
            into, *operands = instruction.operands
            kind = instruction.kind
            if kind in _PACKED:
                return _packed(machine, instruction, function)
            kinds = [kind] * len(operands)
            if "f32" in instruction.parts and kind in ("f16", "bf16"):  # mixed, from 10.0 on
                kind, kinds[-1] = "f32", "f32"
            values = [machine.value(o, k) for o, k in zip(operands, kinds, strict=True)]
            machine.put_value(into, _rounded(instruction, function(*values), kind), kind)
            return None

        return operation(*names)(run)

    return declare


def _packed(machine: Machine, instruction: Instruction, function: Function) -> None:
    into, *operands = instruction.operands
    kind = _PACKED[instruction.kind]
    halves = [split(machine.raw(o, 2 * BITS[kind]), 2) for o in operands]
    results = []
    for parts in zip(*halves, strict=True):
        wide = [decode(part, kind).astype(np.float64) for part in parts]
        results.append(encode(function(*wide).astype(np.float32), kind))
    machine.put(into, joined(results))


def _rounded(instruction: Instruction, values: Values, kind: str) -> Values:
    if kind == "f32":
        values = values.astype(np.float32)
        return flush(values) if "ftz" in instruction.parts else values
    return values


def _with_third(function: Function) -> Function:
    """Return the function of two or three values, of which newer GPUs take three."""

    def run(first: Values, *others: Values) -> Values:
        for other in others:
            first = function(first, other)
        return first

    return run


def _smaller(a: Values, b: Values) -> Values:
    return np.fmin(a, b) if a.dtype.kind == "f" else np.minimum(a, b)


def _larger(a: Values, b: Values) -> Values:
    return np.fmax(a, b) if a.dtype.kind == "f" else np.maximum(a, b)


def _divided(a: Values, b: Values) -> Values:
    if a.dtype.kind == "f":
        return a.astype(np.float64) / b.astype(np.float64)
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    quotient = np.where(b == 0, 0, abs(a) // abs(safe)) * np.sign(a) * np.sign(safe)
    return quotient.astype(a.dtype) if a.dtype.kind == "i" else np.where(b == 0, 0, a // safe)


for _name, _function in {
    "add": add,
    "sub": sub,
    "and": and_,
    "or": or_,
    "xor": xor,
    "min": _smaller,
    "max": _larger,
}.items():
    _lanewise(_name)(_with_third(_function))
_lanewise("rem")(np.fmod)
_lanewise("div")(_divided)
_lanewise("neg")(np.negative)
_lanewise("abs")(np.abs)
_lanewise("not")(np.invert)


@_lanewise("fma")
def _fused(a: Values, b: Values, c: Values) -> Values:
    # The product of two float32 is exact in float64, so that the sum is nearly rounded once.
    return a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)


def _product(machine: Machine, instruction: Instruction) -> Values:
    """Return a product of whole numbers: the low bits, the high bits, or all of them."""
    kind = instruction.kind
    a, b = (machine.value(o, kind) for o in instruction.operands[1:3])
    if "wide" in instruction.parts or "hi" in instruction.parts:
        if BITS[kind] > 32:
            high = [(int(x) * int(y)) >> 64 & (2**64 - 1) for x, y in zip(a, b, strict=True)]
            return np.array(high, dtype=np.uint64)
        wide: Any = np.int64 if is_signed(kind) else np.uint64
        a, b = a.astype(wide), b.astype(wide)
        return np.right_shift(a * b, wide(BITS[kind])) if "hi" in instruction.parts else a * b
    return np.multiply(a, b)


_float_product = _lanewise("a product of floats")(mul)


@operation("mul")
def _mul(machine: Machine, instruction: Instruction) -> None:
    kind = instruction.kind
    if kind in _PACKED or kind in FLOATS:
        return _float_product(machine, instruction)
    machine.put_value(
        instruction.operands[0], _product(machine, instruction), _product_kind(instruction)
    )
    return None


@operation("mad")
def _mad(machine: Machine, instruction: Instruction) -> None:
    kind = _product_kind(instruction)
    into, _, _, third = instruction.operands
    total = _product(machine, instruction) + machine.value(third, kind)
    machine.put_value(into, total, kind)


def _product_kind(instruction: Instruction) -> str:
    kind = instruction.kind
    return f"{kind[0]}{2 * BITS[kind]}" if "wide" in instruction.parts else kind


def _approximate(name: str, function: Function) -> None:
    """Declare a function that a GPU approximates; here it is rounded from float64."""

    def run(machine: Machine, instruction: Instruction) -> None:
        into, operand = instruction.operands
        given = machine.value(operand, "f32")
        if "ftz" in instruction.parts:
            given = flush(given)
        result = function(given.astype(np.float64))
        machine.put_value(into, _rounded(instruction, result, "f32"), "f32")

    operation(name)(run)


_approximate("ex2", np.exp2)
_approximate("lg2", np.log2)
_approximate("sqrt", np.sqrt)
_approximate("rsqrt", lambda x: 1 / np.sqrt(x))
_approximate("rcp", lambda x: 1 / x)

_COMPARISONS: dict[str, Function] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNSIGNED_NAMES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


@operation("setp")
def _compare(machine: Machine, instruction: Instruction) -> None:
    relation, kind = instruction.parts[1], instruction.kind
    into, first, second = instruction.operands
    a, b = machine.value(first, kind), machine.value(second, kind)
    unordered = np.isnan(a) | np.isnan(b) if kind in FLOATS else np.zeros(len(a), bool)
    if relation in ("num", "nan"):
        return machine.put(into, unordered if relation == "nan" else ~unordered)
    name = _UNSIGNED_NAMES.get(relation, relation)
    result = _COMPARISONS[name[:2]](a, b)
    holds_unordered = len(name) == 3 and name.endswith("u")
    return machine.put(into, result | unordered if holds_unordered else result & ~unordered)


@operation("selp")
def _select(machine: Machine, instruction: Instruction) -> None:
    bits = BITS[instruction.kind]
    into, first, second, predicate = instruction.operands
    holds = machine.raw(predicate, 1)
    machine.put(into, np.where(holds, machine.raw(first, bits), machine.raw(second, bits)))


@operation("cvt")
def _convert(machine: Machine, instruction: Instruction) -> None:
    kinds = [part for part in instruction.parts[1:] if part in BITS]
    to, of = kinds[0], kinds[-1]
    into, *operands = instruction.operands
    if to in _PACKED:
        high, low = (encode(machine.value(o, "f32"), _PACKED[to]) for o in operands)
        return machine.put(into, joined([low, high]))
    values = machine.value(operands[0], of)
    if "ftz" in instruction.parts and of == "f32":
        values = flush(values)
    if of in FLOATS:
        values = _to_whole(instruction, values)
    if of in FLOATS and to not in FLOATS:
        lowest, highest = _bounds(to)
        values = np.where(np.isnan(values), 0, np.clip(values.astype(np.float64), lowest, highest))
        # The largest number of 64 bits is no float64; the sizes here are far below it.
    elif of not in FLOATS and to not in FLOATS:
        values = values.astype(np.int64 if is_signed(of) else np.uint64)
    if to == "s8":  # no register is so small: its other bits repeat the sign
        return machine.put_value(into, values.astype(np.int8), "s64")
    return machine.put_value(into, values, to)


_ROUNDINGS: dict[str, Function] = {
    "rzi": np.trunc,
    "rni": np.rint,
    "rmi": np.floor,
    "rpi": np.ceil,
}


def _to_whole(instruction: Instruction, values: Values) -> Values:
    for part in instruction.parts:
        if part in _ROUNDINGS:
            whole: Values = _ROUNDINGS[part](values)
            return whole
    return values


def _bounds(kind: str) -> tuple[float, float]:
    bits = BITS[kind]
    if is_signed(kind):
        return -(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1
    return 0.0, 2.0**bits - 1
