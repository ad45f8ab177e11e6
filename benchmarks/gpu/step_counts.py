"""Count the instructions and bytes of a decode step's launches, without a GPU.

The engine's own step launches the kernels. Each is compiled for a compute capability, and a few of
its programs run in the emulator of ``tests/ptx``, which tells what they carry out. This is the main
module of a process of its own, because a process declares its kernels either for Triton's
interpreter or for a GPU:

    python -m benchmarks.gpu.step_counts CAPABILITY FILE [OPTION]
"""

from __future__ import annotations

import argparse
import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from triton.runtime.jit import JITFunction

from ChatTTS.model.cuda import graphs
from ChatTTS.model.kernels.cuda.prefetch import Prefetch
from ChatTTS.model.random_numbers import Pass
from ChatTTS.model.velocity.model_loader import ModelLoader
from tests.ptx.formats import BITS
from tests.ptx.launches import Emulation
from tests.ptx.machine import OPERATIONS, WARP, Machine, Operation
from tests.ptx.memory import Places
from tests.ptx.program import Address, Instruction, Number, Operand

from .scale import FULL, TINY, Record, Scale, Task
from .step_model import Launch
from .steps import load

# Layers of the models that are counted: the last layer of the deeper one stands for all others.
_DEPTHS = (2, 3)
# Where codes are embedded and drawn, the number of text ids plays no part.
_TEXT_IDS = 400
# Warps of the programs that are emulated; more than any launch has.
_MOST_WARPS = 1 << 16
# Bytes that memory gives at once.
_SECTOR = 32


class LaunchCounter:
    """Counts the launches of a step, of which it computes only a few programs.

    Args:
        capability: of the GPU to compile for, such as 90.
    """

    def __init__(self, capability: int) -> None:
        self._emulation = Emulation(capability, races=False, order=None)
        self._choose, self._ahead = Prefetch.of, set[int]()
        self._found: Counter[Launch] | None = None
        self._known: dict[tuple[Any, ...], Launch] = {}
        # Of the launch that is emulated: see Launch.
        self._touched = Touched((1, 1, 1))
        self._of_warp = np.zeros(_MOST_WARPS, dtype=np.int64)
        self._warps = self._issued = self._moved = self._operations = 0

    def install(self) -> None:
        """Stand between this process and its launches from now on."""
        self._emulation.install()
        for name, operation in OPERATIONS.items():
            OPERATIONS[name] = self._counted(operation)
        emulate: Any = JITFunction.run

        def run(kernel: JITFunction[Any], *args: Any, **options: Any) -> None:
            if self._found is None:
                return
            given = dict(zip(kernel.arg_names, args, strict=False)) | options
            key = kernel.fn.__name__, *map(_told, given.values())
            if key not in self._known:
                self._known[key] = self._measured(kernel, args, options, emulate)
            self._found[self._known[key]] += 1

        JITFunction.run = run

    def start_over(self) -> None:
        """Forget what launches have fetched ahead."""
        self._ahead.clear()

    def note_ahead(self, x: Tensor, weights: Sequence[Tensor]) -> Prefetch:
        """Note which of ``weights`` a launch fetches ahead, and have it fetch nothing.

        The few programs that are emulated would fetch the share of all.
        """
        if any(self._choose(x, weights).ends):
            self._ahead.update(weight.data_ptr() for weight in weights)
        return self._choose(x, ())

    @contextmanager
    def counting(self) -> Iterator[Counter[Launch]]:
        """Give the launches in this block, and how many there are of each.

        All launches outside of such blocks compute nothing.
        """
        found = self._found = Counter[Launch]()
        with _Operators(found):
            yield found
        self._found = None

    def _measured(self, kernel: JITFunction[Any], args: Any, options: Any, emulate: Any) -> Launch:
        """Emulate the first programs of a launch; return the work of all."""
        name, grid = kernel.fn.__name__, (*options["grid"], 1, 1)[:3]
        few = min(2, grid[0]), min(2, grid[1]), grid[2]
        self._touched = Touched(few)
        self._warps = self._issued = self._moved = self._operations = 0
        self._of_warp[:] = 0
        with _disable_current_modes():  # the emulator's own operators
            emulate(kernel, *args, **(options | {"grid": few}))
        programs = math.prod(few)
        times = math.prod(grid) / programs
        tensors = [value for value in (*args, *options.values()) if isinstance(value, Tensor)]
        ahead = [tensor for tensor in tensors if tensor.data_ptr() in self._ahead]
        return Launch(
            name,
            programs=math.prod(grid),
            warps=self._warps // programs,
            instructions=int(self._of_warp.max()),
            issued=round(times * self._issued),
            moved=round(times * self._moved),
            fetched=self._touched.in_all(grid, tensors),
            operations=round(times * self._operations),
            ahead=self._touched.in_all(grid, ahead),
        )

    def _counted(self, operation: Operation) -> Operation:
        """Return an operation of the emulator that also counts."""

        def counted(machine: Machine, instruction: Instruction) -> None:
            warps = machine.count // WARP
            self._warps = max(self._warps, warps)
            self._issued += warps
            self._of_warp[machine.threads // WARP] += 1
            self._operations += warps * _operations(instruction)
            if nbytes := _moved(instruction):
                [place] = _places(instruction)
                addresses = machine.addresses(place)
                self._moved += nbytes * len(addresses)
                self._touched.add(addresses, machine.programs())
            operation(machine, instruction)

        return counted


class Touched:
    """The memory that the first programs of a launch touch, and so what all of them do.

    Args:
        few: the numbers of programs that run, in three directions: at most two in the first two,
            which show whether programs side by side touch the same memory.
    """

    def __init__(self, few: tuple[int, int, int]) -> None:
        self._few = few
        self._sectors: list[set[int]] = [set() for _ in range(few[0] * few[1])]

    def add(self, addresses: Places, programs: Places) -> None:
        """Note accesses to addresses, each by a program."""
        columns = programs % len(self._sectors)
        for column in np.unique(columns):
            own = np.unique(addresses[columns == column] // _SECTOR)
            self._sectors[column].update(own.tolist())

    def in_all(self, grid: tuple[int, int, int], tensors: Sequence[Tensor]) -> int:
        """Return the bytes that all programs of ``grid`` touch, each counted once."""
        storages = {tensor.untyped_storage().data_ptr(): tensor for tensor in tensors}
        total = 0
        for base, tensor in storages.items():
            nbytes = tensor.untyped_storage().nbytes()
            first, last = base // _SECTOR, (base + nbytes - 1) // _SECTOR
            own = [{at for at in each if first <= at <= last} for each in self._sectors]
            if not own[0]:
                continue
            count = float(len(own[0]))
            for axis, neighbour in ((0, 1), (1, self._few[0])):
                if grid[axis] > 1:
                    new = len(own[neighbour] - own[0]) / len(own[0])
                    count *= 1 + new * (grid[axis] - 1)
            total += min(round(count * _SECTOR), nbytes)
        return total


class _Operators(TorchDispatchMode):
    """Counts torch's operators that would launch a kernel on a GPU, as a launch without work."""

    def __init__(self, found: Counter[Launch]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._found = found

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self._found[Launch("torch")] += _is_launch(func, args)
        return func(*args, **(kwargs or {}))


def _is_launch(func: Any, args: tuple[Any, ...]) -> bool:
    """Return whether an operator computes: it is no view, and not only memory."""
    name = func.overloadpacket.__name__
    if name == "copy_":  # an addition to a slice ends with a copy of the slice to itself
        return bool(args[0].data_ptr() != args[1].data_ptr())
    if name == "to":
        return any(isinstance(arg, torch.dtype) and arg != args[0].dtype for arg in args)
    return "empty" not in name and not func.is_view


def _told(value: Any) -> Any:
    """Return what the work of a launch depends on, of one of its arguments."""
    return (tuple(value.shape), value.dtype) if isinstance(value, Tensor) else str(value)


def _places(instruction: Instruction) -> list[Operand]:
    """Return the address of tensors that an instruction loads from or stores to."""
    if instruction.parts[0] == "cp":
        return [instruction.operands[1]]
    return [operand for operand in instruction.operands if isinstance(operand, Address)]


def _moved(instruction: Instruction) -> int:
    """Return the bytes of tensors that a thread loads or stores."""
    parts = instruction.parts
    if parts[0] in ("ld", "st") and parts[1] == "global":
        return instruction.vector_size * BITS[instruction.kind] // 8
    if parts[:2] == ("cp", "async") and "global" in parts:
        size = instruction.operands[2]
        assert isinstance(size, Number)
        return size.bits
    return 0


def _operations(instruction: Instruction) -> int:
    """Return the operations of matrix units for a warp."""
    for part in instruction.parts:
        if shape := re.fullmatch(r"m(\d+)n(\d+)k(\d+)", part):
            rows, columns, depth = map(int, shape.groups())
            # Four warps share an instruction of a warpgroup.
            return 2 * rows * columns * depth // (4 if instruction.parts[0] == "wgmma" else 1)
    return 0


class _StepCapturer:
    """See ``GraphCapturer`` in ``model/cuda/graphs.py``; a replay does the work again."""

    captures, seconds = 0, 0.0

    def capture(self, work: Callable[[], Any], warm_up: object = None) -> _Repeated:
        return _Repeated(work)


class _Repeated:
    """See ``CapturedGraph`` in ``model/cuda/graphs.py``."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work, self.result = work, work()

    @torch.inference_mode()
    def replay(self) -> None:
        self._work()


def count(
    capability: int, scale: Scale, kind: Pass, settings: Mapping[str, Any]
) -> dict[str, list[dict[str, Any]]]:
    """Return the launches of a step, by the number of sequences; see :class:`Launch`.

    Args:
        kind: what the step draws.
        settings: the ``kv_cache_dtype`` and the ``quantization`` of the engine.
    """
    counter = LaunchCounter(capability)
    counter.install()
    with (
        patch.object(ModelLoader, "_team", lambda loader: None),
        patch.object(ModelLoader, "_has_triton", lambda *_: True),
        patch.object(graphs, "CudaGraphCapturer", lambda *_, **__: _StepCapturer()),
        patch.object(Prefetch, "of", counter.note_ahead),
    ):
        less, more = (_counted_steps(counter, scale, layers, kind, settings) for layers in _DEPTHS)
    others = scale.gpt.num_hidden_layers - _DEPTHS[0]
    steps = {}
    for streams, found in less.items():
        layer = more[streams] - found
        whole = found + Counter({launch: others * times for launch, times in layer.items()})
        steps[str(streams)] = [{"times": n, **asdict(launch)} for launch, n in whole.items()]
    return steps


def _counted_steps(
    counter: LaunchCounter, scale: Scale, layers: int, kind: Pass, settings: Mapping[str, Any]
) -> dict[int, Counter[Launch]]:
    gpt = replace(scale.gpt, num_hidden_layers=layers)
    if kind is Pass.CODE:
        gpt = replace(gpt, num_text_tokens=_TEXT_IDS)
    own = replace(scale, gpt=gpt, device="cpu", copy_bytes=TINY.copy_bytes)
    counted = {}
    with TemporaryDirectory() as name:
        task = Task(own, Path(name), Record(Path(name) / "x.json"), time.time())
        loaded = load(task, "bfloat16", kind=kind, **settings)
        for streams in own.streams:
            counter.start_over()
            running = loaded.lay_out(streams)
            running.run(1)()  # the first step also writes block tables
            with counter.counting() as found:
                running.run(1)
            counted[streams] = found
    return counted


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.step_counts")
    parser.add_argument("capability", type=int, help="such as 90 for 9.0")
    parser.add_argument("file", type=Path, help="the JSON to write")
    parser.add_argument("--text", action="store_true", help="a step that draws text ids")
    parser.add_argument("--eight-bits", action="store_true", help="keys and values in eight bits")
    parser.add_argument("--int8-weights", action="store_true", help="weights in eight bits")
    parser.add_argument("--tiny", action="store_true", help="a tiny model")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)  # how long a draw takes depends on the logits, and so on keys and values
    kind = Pass.REFINE if args.text else Pass.CODE
    scale, settings = TINY if args.tiny else FULL, dict[str, str]()
    if args.eight_bits:
        settings["kv_cache_dtype"] = "int8"
    if args.int8_weights:
        settings["quantization"] = "int8"
    steps = count(args.capability, scale, kind, settings)
    args.file.write_text(json.dumps(steps), encoding="utf-8")


if __name__ == "__main__":
    main()
