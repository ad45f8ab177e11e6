"""The instruction sets for which the CPU kernels have code of their own.

A wheel has the kernels of each variant for its system, and the best one that the processor can run
is taken. A checkout compiles them for the processor that they run on. The environment variable
``CHATTTS_KERNELS`` names a variant of this table instead, so that one machine can compute, test and
measure what another one would.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ...errors import ConfigError
from .arm_features import arm_features

FORCED = "CHATTTS_KERNELS"
_CPUS = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Variant:
    """Kernels for an instruction set.

    Attributes:
        name: its name for ``CHATTTS_KERNELS``.
        machine: the architecture, ``x86_64`` or ``aarch64``.
        flags: what a compiler of the GCC or Clang family is told.
        target: the processor by which Zig's compiler knows it.
        needs: what the processor must have, as Linux names it in ``/proc/cpuinfo``.
    """

    name: str
    machine: str
    flags: tuple[str, ...]
    target: str
    needs: frozenset[str]


_V2: frozenset[str] = frozenset({"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"})
_V3 = _V2 | {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_VNNI = _V4 | {"avx512_vnni"}
_BF16 = _VNNI | {"avx512_bf16"}
AMX: frozenset[str] = frozenset({"amx_tile", "amx_bf16", "amx_int8"})
_AMX_FLAGS = ("-mamx-tile", "-mamx-bf16", "-mamx-int8")
_ARM: frozenset[str] = frozenset({"asimd"})
# Compilers use atomic instructions of 8.1 where they are told of 8.2.
_DOTPROD = _ARM | {"atomics", "asimddp"}
# What keeps a compiler that compiles for this processor from using AMX.
NO_AMX_FLAGS = tuple(flag.replace("-m", "-mno-", 1) for flag in _AMX_FLAGS)

# A variant is in the table where the sources make other code for it (see vectors.h). Those of an
# architecture go from the plainest to the fastest.
VARIANTS = (
    Variant("x86-64-v2", "x86_64", ("-march=x86-64-v2",), "x86_64_v2", _V2),
    Variant("x86-64-v3", "x86_64", ("-march=x86-64-v3",), "x86_64_v3", _V3),
    Variant(
        "x86-64-v3-vnni",
        "x86_64",
        ("-march=x86-64-v3", "-mavxvnni"),
        "x86_64_v3+avxvnni",
        _V3 | {"avx_vnni"},
    ),
    Variant("x86-64-v4", "x86_64", ("-march=x86-64-v4",), "x86_64_v4", _V4),
    Variant(
        "x86-64-v4-vnni",
        "x86_64",
        ("-march=x86-64-v4", "-mavx512vnni"),
        "x86_64_v4+avx512vnni",
        _VNNI,
    ),
    Variant(
        "x86-64-v4-bf16",
        "x86_64",
        ("-march=x86-64-v4", "-mavx512vnni", "-mavx512bf16"),
        "x86_64_v4+avx512vnni+avx512bf16",
        _BF16,
    ),
    Variant(
        "x86-64-v4-amx",
        "x86_64",
        ("-march=x86-64-v4", "-mavx512vnni", "-mavx512bf16", *_AMX_FLAGS),
        "x86_64_v4+avx512vnni+avx512bf16+amx_tile+amx_bf16+amx_int8",
        _BF16 | AMX,
    ),
    Variant("arm64", "aarch64", ("-march=armv8-a",), "generic", _ARM),
    Variant(
        "arm64-dotprod",
        "aarch64",
        ("-march=armv8.2-a+dotprod",),
        "generic+v8_2a+dotprod",
        _DOTPROD,
    ),
    Variant(
        "arm64-bf16",
        "aarch64",
        ("-march=armv8.2-a+dotprod+bf16",),
        "generic+v8_2a+dotprod+bf16",
        _DOTPROD | {"bf16"},
    ),
    Variant(
        "arm64-i8mm",
        "aarch64",
        ("-march=armv8.2-a+dotprod+bf16+i8mm",),
        "generic+v8_2a+dotprod+bf16+i8mm",
        _DOTPROD | {"bf16", "i8mm"},
    ),
)

# torch's names of features where they are not those of Linux, and what comes with a feature in
# every processor but is not told by torch.
_TOLD = {
    "avx512_f": {"avx512f"},
    "avx512_bw": {"avx512bw"},
    "avx512_cd": {"avx512cd"},
    "avx512_dq": {"avx512dq"},
    "avx512_vl": {"avx512vl"},
    "fma3": {"fma"},
    "lzcnt": {"abm"},
    "bmi": {"bmi1"},
    "sse4_2": {"sse4_2", "cx16", "lahf_lm"},
    "avx2": {"avx2", "movbe", "xsave"},
}


def forced(environment: Mapping[str, str] = os.environ) -> Variant | None:
    """Return the variant that ``CHATTTS_KERNELS`` names, None where the variable is not set.

    Raises:
        ConfigError: there is no such variant, or this processor cannot run it.
    """
    name = environment.get(FORCED, "")
    return checked(name, architecture(), _features()) if name else None


def chosen(environment: Mapping[str, str] = os.environ) -> Variant | None:
    """Return the forced variant or else the fastest that this processor can run.

    Returns:
        None where the system does not tell of any.

    Raises:
        ConfigError: the forced variant cannot be used.
    """
    if (variant := forced(environment)) is not None:
        return variant
    return fastest(architecture(), _features())


def fastest(machine: str, features: frozenset[str]) -> Variant | None:
    """Return the fastest variant that a processor can run, None where there is none.

    Args:
        machine: the processor's architecture, ``x86_64`` or ``aarch64``.
        features: what the processor has, as Linux names it.
    """
    return next((v for v in reversed(VARIANTS) if _runs(v, machine, features)), None)


def checked(name: str, machine: str, features: frozenset[str]) -> Variant:
    """Return the variant ``name`` if a processor can run it.

    Args:
        name: a name of the table.
        machine: the processor's architecture, ``x86_64`` or ``aarch64``.
        features: what the processor has, as Linux names it.

    Raises:
        ConfigError: there is no such variant, or the processor cannot run it.
    """
    runs = [variant.name for variant in VARIANTS if _runs(variant, machine, features)]
    found = next((variant for variant in VARIANTS if variant.name == name), None)
    if found is not None and name in runs:
        return found
    if found is None:
        reason = "there is no such variant"
    elif found.machine != machine:
        reason = f"it is for {found.machine}, and this machine is {machine}"
    else:
        reason = f"this processor lacks {', '.join(sorted(found.needs - features))}"
    raise ConfigError(
        f"{FORCED}={name} cannot be used: {reason}; variants that run here: "
        f"{', '.join(runs) or 'none that this system tells of'}"
    )


def _runs(variant: Variant, machine: str, features: frozenset[str]) -> bool:
    return variant.machine == machine and variant.needs <= features


def multiplies_bf16_on_arm() -> bool:
    """Return whether this is a 64-bit ARM processor with products of bfloat16."""
    return architecture() == "aarch64" and "bf16" in _features()


def architecture() -> str:
    """Return this machine's architecture as Linux names it."""
    name = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


def _features() -> frozenset[str]:
    """Return what the processor has, as far as the system or torch tells it."""
    if architecture() == "aarch64":
        return arm_features()
    if not _CPUS.exists():
        return _told()
    for line in _CPUS.read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "flags":
            return _allowed(frozenset(value.split()))
    return frozenset()


def _allowed(features: frozenset[str]) -> frozenset[str]:
    return features if features >= AMX and allows_amx() else features - AMX


@functools.cache
def allows_amx() -> bool:
    """Ask Linux to let this process and its children use AMX's registers; return whether it does.

    Without this an instruction of AMX ends the process. Asking again changes nothing, so a child
    of a fork needs none. See Documentation/arch/x86/xstate.rst of Linux.
    """
    if not sys.platform.startswith("linux") or architecture() != "x86_64":
        return False
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    refused: int = ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data)
    return refused == 0


def _told() -> frozenset[str]:
    """Return the features that torch tells of, by their names in Linux."""
    ask: Any = getattr(torch.cpu, "get_capabilities", None)
    if ask is None:  # an older version of torch
        levels = {"AVX2": _V3, "AVX512": _V4}
        return levels.get(torch.backends.cpu.get_cpu_capability(), frozenset())
    had = [name for name, value in ask().items() if value is True]
    return _allowed(frozenset().union(*(_TOLD.get(name, {name}) for name in had)))
