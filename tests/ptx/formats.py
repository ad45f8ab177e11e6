"""Types of PTX: their sizes, and values as NumPy has them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]

BITS = {
    **dict.fromkeys(("b8", "u8", "s8"), 8),
    **dict.fromkeys(("b16", "u16", "s16", "f16", "bf16"), 16),
    **dict.fromkeys(("b32", "u32", "s32", "f32", "f16x2", "bf16x2"), 32),
    **dict.fromkeys(("b64", "u64", "s64", "f64"), 64),
    "pred": 1,
}
FLOATS = ("f64", "f32", "f16", "bf16")
UNSIGNED: dict[int, Any] = {1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
SIGNED: dict[int, Any] = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


def is_signed(kind: str) -> bool:
    """Return whether a type is a signed whole number."""
    return kind.startswith("s")


def decode(bits: Values, kind: str) -> Values:
    """Return raw bits as values of a type; bfloat16 and float16 become float32."""
    if kind == "f32":
        return bits.view(np.float32)
    if kind == "f64":
        return bits.view(np.float64)
    if kind == "bf16":
        wide: Values = np.left_shift(bits.astype(np.uint32), np.uint32(16))
        return wide.view(np.float32)
    if kind == "f16":
        return bits.view(np.float16).astype(np.float32)
    whole: Values = bits.view(SIGNED[BITS[kind]]) if is_signed(kind) else bits
    return whole


def encode(values: Values, kind: str) -> Values:
    """Return values of a type as raw bits; floats are rounded to nearest even."""
    if kind == "f32":
        return np.ascontiguousarray(values.astype(np.float32)).view(np.uint32)
    if kind == "f64":
        return np.ascontiguousarray(values.astype(np.float64)).view(np.uint64)
    if kind == "f16":
        return np.ascontiguousarray(values.astype(np.float16)).view(np.uint16)
    if kind == "bf16":
        return _to_bfloat16(np.ascontiguousarray(values.astype(np.float32)))
    bits = BITS[kind]
    if is_signed(kind):
        return np.ascontiguousarray(values.astype(SIGNED[bits])).view(UNSIGNED[bits])
    whole: Values = values.astype(UNSIGNED[bits])
    return whole


def _to_bfloat16(values: Values) -> Values:
    bits = values.view(np.uint32).astype(np.uint64)
    odd = (bits >> np.uint64(16)) & np.uint64(1)
    rounded = np.right_shift(bits + np.uint64(0x7FFF) + odd, np.uint64(16)).astype(np.uint16)
    bounded: Values = np.where(np.isnan(values), np.uint16(0x7FFF), rounded)
    return bounded


def flush(values: Values) -> Values:
    """Return float32 values with subnormal numbers replaced by zeros of their sign."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    small = (bits & np.uint32(0x7F800000)) == 0
    return np.where(small, bits & np.uint32(0x80000000), bits).view(np.float32)


def split(bits: Values, parts: int) -> list[Values]:
    """Return the equal parts of each number, the lowest first."""
    size = bits.dtype.itemsize * 8 // parts
    return [(bits >> bits.dtype.type(size * i)).astype(UNSIGNED[size]) for i in range(parts)]


def joined(parts: list[Values]) -> Values:
    """Return numbers that consist of equal parts, the lowest first."""
    size = parts[0].dtype.itemsize * 8
    wide = UNSIGNED[size * len(parts)]
    total = np.zeros(len(parts[0]), wide)
    for i, part in enumerate(parts):
        total |= part.astype(wide) << wide(size * i)
    return total
