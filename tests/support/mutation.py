"""Random changes of bytes and of JSON values, for readers of strangers' files."""

from __future__ import annotations

import random
from typing import Any

_INTEGERS = (0, -1, 1 << 31, 1 << 53, 1 << 63, 1 << 64, 10**30)
_VALUES: tuple[Any, ...] = (*_INTEGERS, 1.5, None, True, "1", [], {})
_STEPS = (-1, 1, 8, -8, 1 << 32, 1 << 64)


def changed_bytes(content: bytes, rng: random.Random) -> bytes:
    """Return content with bytes replaced, flipped, removed and added, or cut off."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 50))):
        if not changed:
            break
        at, count = rng.randrange(len(changed)), rng.choice((1, 4, 100))
        way = rng.randrange(5)
        if way == 0:
            changed[at] ^= rng.randrange(1, 256)
        elif way == 1:
            del changed[at : at + count]
        elif way == 2:
            changed[at:at] = rng.randbytes(count)
        elif way == 3:
            changed[at : at + count] = bytes(len(changed[at : at + count]))
        else:
            del changed[at:]
    return bytes(changed)


def changed_value(value: Any, rng: random.Random) -> Any:
    """Return a value of JSON with one change somewhere in it."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        changed = dict(value)
        way = rng.random()
        if way < 0.8:
            changed[key] = changed_value(value[key], rng)
        elif way < 0.9:
            del changed[key]
        else:
            changed[rng.choice(("x", f"{key} ", f"../{key}"))] = value[key]
        return changed
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        return [changed_value(each, rng) if i == at else each for i, each in enumerate(value)]
    if isinstance(value, int) and rng.random() < 0.5:
        return value + rng.choice(_STEPS)
    return rng.choice(_VALUES)
