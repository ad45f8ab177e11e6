"""Launches of the package's kernels, compiled for a GPU and run by the emulator.

Import this in a process where ``TRITON_INTERPRET`` is not set, before any kernel.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from ChatTTS.model.kernels.cuda import dependent_launch, prefetch, products

# Each of these modules declares the instructions that it knows.
from . import arithmetic, bits, data, matrices, warpgroups, warps  # noqa: F401
from .machine import Machine
from .memory import TensorMemory
from .overlap import LaunchAccesses, LaunchOrder
from .program import Program, parse

# Bytes of shared memory that a program may have, by compute capability.
SHARED = {
    80: 163 << 10,
    86: 99 << 10,
    89: 99 << 10,
    90: 227 << 10,
    100: 227 << 10,
    120: 99 << 10,
}

# Bytes of the cache that all of the GPU shares.
_CACHE = 50 << 20


@dataclass
class Emulation:
    """The launches of a process.

    Attributes:
        capability: of the GPU that is emulated, such as 90.
        races: whether races are looked for.
        order: finds what launches that overlap do to one another; ``None`` if that is not looked
            for.
        change: changes a program before it runs, for tests of the emulator.
        launches: how often each kernel was launched.
        instructions: how many instructions each kernel has carried out.
        fetched: how often the last launch fetched each address into the cache.
    """

    capability: int
    races: bool = True
    order: LaunchOrder | None = field(default_factory=LaunchOrder)
    change: Callable[[str, Program], Program] = lambda kernel, program: program
    launches: Counter[str] = field(default_factory=Counter)
    instructions: Counter[str] = field(default_factory=Counter)
    fetched: Counter[int] = field(default_factory=Counter)
    _programs: dict[str, Program] = field(default_factory=dict)

    def install(self) -> None:
        """Emulate every launch of this process from now on."""
        driver.set_active(_Driver(self.capability))
        # The package asks whether tensors are on a GPU; here they are on the CPU.
        for module in (dependent_launch, products):
            setattr(module, "capability", lambda x: self.capability)  # noqa: B010
        setattr(prefetch, "cache_bytes", lambda x: _CACHE)  # noqa: B010
        compile_only: Any = JITFunction.run

        def run(kernel: JITFunction[Any], *args: Any, **options: Any) -> None:
            grid = options["grid"]
            given = dict(zip(kernel.arg_names, args, strict=False)) | {
                name: value for name, value in options.items() if name in kernel.arg_names
            }
            if "widen" in kernel.arg_names:  # only the interpreter needs it
                given["widen"] = False
            options |= {"warmup": True}
            known = {name: value for name, value in options.items() if name not in given}
            compiled = compile_only(kernel, **known, **given)
            sizes = grid(given) if callable(grid) else grid
            overlaps = bool(options.get("launch_pdl"))
            self._launch(kernel.fn.__name__, compiled, given, (*sizes, 1, 1)[:3], overlaps)

        JITFunction.run = run

    def _launch(
        self,
        name: str,
        compiled: Any,
        given: dict[str, Any],
        grid: tuple[int, int, int],
        overlaps: bool,
    ) -> None:
        """Run one launch.

        Raises:
            RuntimeError: the kernel does what it must not.
        """
        shared, limit = compiled.metadata.shared, SHARED[self.capability]
        if shared > limit:
            raise RuntimeError(f"{name}: {shared} bytes of shared memory, and {limit} are there")
        program = self._programs.get(compiled.hash)
        if program is None:
            program = self._programs[compiled.hash] = parse(compiled.asm["ptx"])
        program = self.change(name, program)
        memory, values = _arguments(compiled, given)
        values += [0] * (len(program.parameters) - len(values))  # scratch memory that none needs
        threads = 32 * compiled.metadata.num_warps
        accesses = None
        if self.order is not None:
            accesses = LaunchAccesses(memory, math.prod(grid) * threads, overlaps=overlaps)
        machine = Machine(
            program,
            grid,
            threads,
            shared,
            memory,
            dict(zip(program.parameters, values, strict=True)),
            races=self.races,
            accesses=accesses,
        )
        machine.run()
        if self.order is not None and accesses is not None:
            machine.found |= self.order.add(name, accesses)
        self.launches[name] += 1
        self.instructions[name] += machine.executed
        self.fetched = machine.fetched
        if machine.found:
            raise RuntimeError(f"{name} {grid}: {'; '.join(sorted(machine.found))}")


def _arguments(compiled: Any, given: dict[str, Any]) -> tuple[TensorMemory, list[int]]:
    """Return the memory that a launch may access, and the raw values of its parameters."""
    memory, values = TensorMemory(), []
    constants = {key if isinstance(key, str) else key[0] for key in compiled.src.constants}
    names = list(compiled.src.fn.arg_names)
    constants = {names[each] if isinstance(each, int) else each for each in constants}
    for name, kind in compiled.src.signature.items():
        value = given[name]
        if kind == "constexpr" or name in constants:
            continue
        if isinstance(value, Tensor):
            content = torch.empty(0, dtype=torch.uint8).set_(value.untyped_storage())
            memory.add(content.data_ptr(), content.numpy())
            values.append(value.data_ptr())
        elif kind == "fp32":
            values.append(int(struct.unpack("<I", struct.pack("<f", value))[0]))
        else:
            values.append(int(value))
    return memory, values


class _Driver:
    """What Triton asks a driver, answered for a GPU that is not there."""

    def __init__(self, capability: int) -> None:
        self._capability = capability
        self._target = GPUTarget("cuda", capability, 32)
        self.utils = _Utilities(capability)

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        return divmod(self._capability, 10)

    def launcher_cls(self, *_: object) -> Callable[..., None]:
        return lambda *_: None


class _Utilities:
    """Properties of the device, and the place of a loaded program."""

    def __init__(self, capability: int) -> None:
        self._capability = capability

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {"max_shared_mem": SHARED[self._capability]}

    def load_binary(self, *_: object) -> tuple[int, ...]:
        return 0, 0, 0, 0, 1024
