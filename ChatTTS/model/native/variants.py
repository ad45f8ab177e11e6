"""The instruction sets for which the CPU kernels have code of their own.

The kernels are compiled for the processor that they run on. The environment variable
``CHATTTS_KERNELS`` names a variant of this table instead, so that one machine can compute, test and
measure what another one would.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import ConfigError

FORCED = "CHATTTS_KERNELS"
_CPUS = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Variant:
    """Kernels for an instruction set.

    Attributes:
        name: its name for ``CHATTTS_KERNELS``.
        machine: the architecture, ``x86_64`` or ``aarch64``.
        flags: what the compiler is told.
        needs: what the processor must have, as Linux names it in ``/proc/cpuinfo``.
    """

    name: str
    machine: str
    flags: tuple[str, ...]
    needs: frozenset[str]


_V2 = frozenset({"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"})
_V3 = _V2 | {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_VNNI = _V4 | {"avx512_vnni"}

# A variant is in the table where the sources make other code for it (see vectors.h).
VARIANTS = (
    Variant("x86-64-v2", "x86_64", ("-march=x86-64-v2",), _V2),
    Variant("x86-64-v3", "x86_64", ("-march=x86-64-v3",), _V3),
    Variant("x86-64-v3-vnni", "x86_64", ("-march=x86-64-v3", "-mavxvnni"), _V3 | {"avx_vnni"}),
    Variant("x86-64-v4", "x86_64", ("-march=x86-64-v4",), _V4),
    Variant("x86-64-v4-vnni", "x86_64", ("-march=x86-64-v4", "-mavx512vnni"), _VNNI),
    Variant(
        "x86-64-v4-bf16",
        "x86_64",
        ("-march=x86-64-v4", "-mavx512vnni", "-mavx512bf16"),
        _VNNI | {"avx512_bf16"},
    ),
    Variant("arm64", "aarch64", ("-march=armv8-a",), frozenset({"asimd"})),
)


def forced(environment: Mapping[str, str] = os.environ) -> Variant | None:
    """Return the variant that ``CHATTTS_KERNELS`` names, None where the variable is not set.

    Raises:
        ConfigError: there is no such variant, or this processor cannot run it.
    """
    name = environment.get(FORCED, "")
    return checked(name, _machine(), _features()) if name else None


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


def _machine() -> str:
    machine = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)


def _features() -> frozenset[str]:
    """Return what the processor has; nothing where the system has no ``/proc/cpuinfo``."""
    if not _CPUS.exists():
        return frozenset()
    for line in _CPUS.read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()
