"""The features of a 64-bit ARM processor, as Linux and macOS tell them.

Linux is asked by the words that it gives each process at its start, not by ``/proc/cpuinfo``, which
under an emulator tells of the machine around it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

# Every processor of that architecture has it.
_ALWAYS = frozenset({"asimd"})

# Of Linux's auxiliary vector (asm/hwcap.h and linux/auxvec.h): the bits by their names in
# /proc/cpuinfo, in each of two words.
_HWCAP, _HWCAP2 = 16, 26
_WORDS = {
    _HWCAP: {"asimd": 1 << 1, "atomics": 1 << 8, "asimddp": 1 << 20},
    _HWCAP2: {"i8mm": 1 << 13, "bf16": 1 << 14},
}

# macOS's names; it tells of them from version 12 on.
_NAMES = {
    "atomics": "hw.optional.arm.FEAT_LSE",
    "asimddp": "hw.optional.arm.FEAT_DotProd",
    "bf16": "hw.optional.arm.FEAT_BF16",
    "i8mm": "hw.optional.arm.FEAT_I8MM",
}


def arm_features() -> frozenset[str]:
    """Return what this processor has of the features that kernels use, as Linux names them."""
    if sys.platform.startswith("linux"):
        return features_of_linux(_word)
    if sys.platform == "darwin":
        return features_of_macos(_is_set)
    return _ALWAYS


def features_of_linux(word: Callable[[int], int]) -> frozenset[str]:
    """Return the features in the words of the auxiliary vector.

    Args:
        word: returns the word of a type, and 0 where there is none.
    """
    found = (
        name for kind, bits in _WORDS.items() for name, bit in bits.items() if word(kind) & bit
    )
    return _ALWAYS.union(found)


def features_of_macos(is_set: Callable[[str], bool]) -> frozenset[str]:
    """Return the features of which macOS tells.

    Args:
        is_set: returns whether there is a value of a name in the kernel's state, other than 0.
    """
    return _ALWAYS.union(name for name, told in _NAMES.items() if is_set(told))


def _word(kind: int) -> int:
    ask = ctypes.CDLL(None).getauxval
    ask.restype, ask.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
    found: int = ask(kind)
    return found


def _is_set(name: str) -> bool:
    value = ctypes.c_int(0)
    size = ctypes.c_size_t(ctypes.sizeof(value))
    ask = ctypes.CDLL(None).sysctlbyname
    failed = ask(name.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0))
    return not failed and value.value != 0
