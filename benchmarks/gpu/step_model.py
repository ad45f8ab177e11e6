"""The expected time of a decode step on a GPU, from the launches that it consists of.

``step_counts.py`` counts the instructions and bytes of each launch in its PTX. A launch takes the
time of its start, of its instructions one after another, and of what takes longest of these: bytes
from memory, bytes from caches, instructions of all warps, products. The constants make the model
agree with the figures of one H100 (``results/``); no other GPU was measured. So the first run on
another GPU can be held against the model: ``gpu.sh`` does that.

    python -m benchmarks.gpu.step_model
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..common.command import new_parser
from .scale import FULL, Scale, Task

ROOT = Path(__file__).resolve().parents[2]
# Seconds from the start of a launch to that of the next, beside its own work: where launches
# overlap (capability 9.0 and newer), and where the next one waits until this one has ended.
_OVERLAPPING_START, _START = 1.8e-6, 3.6e-6
_OVERLAPS = 90
# Cycles of an instruction of PTX that waits for the one before it; the mean over a kernel.
_CYCLES = 1.0
# The part of the memory's rate that the kernels reach.
_REACHED = 0.7
# Bytes that a multiprocessor takes from the caches in a cycle.
_CACHE_BYTES = 48
# Instructions that the schedulers of a multiprocessor begin in a cycle.
_ISSUED = 4
# The part of the rate of products that the kernels reach.
_REACHED_PRODUCTS = 0.5


@dataclass(frozen=True)
class Gpu:
    """The rates of a GPU, as its maker states them.

    Attributes:
        capability: compute capability, 90 for 9.0.
        read: bytes of memory a second.
        products: operations a second of bfloat16 products, without sparsity.
        multiprocessors: how many it has.
        clock: cycles a second, at the most.
    """

    capability: int
    read: float
    products: float
    multiprocessors: int
    clock: float

    @property
    def start(self) -> float:
        """Seconds from a launch to the next one, beside its own work."""
        return _OVERLAPPING_START if self.capability >= _OVERLAPS else _START


GPUS: Mapping[str, Gpu] = {
    "H200": Gpu(90, 4.8e12, 989e12, 132, 1.98e9),
    "H100": Gpu(90, 3.35e12, 989e12, 132, 1.98e9),
    "A100": Gpu(80, 2.04e12, 312e12, 108, 1.41e9),
    "RTX 4090": Gpu(89, 1.01e12, 165e12, 128, 2.52e9),
    "RTX 3060": Gpu(86, 0.36e12, 25.5e12, 28, 1.78e9),
    "L4": Gpu(89, 0.30e12, 121e12, 58, 2.04e9),
}


# What is told of each step, and how it is counted.
_STEPS: Mapping[str, Mapping[str, bool]] = {
    "a step of codes": {},
    "a step of text ids": {"text": True},
    "a step of codes, keys and values in eight bits": {"eight_bits": True},
    "a step of codes, weights in eight bits": {"int8_weights": True},
    "a step of codes, weights, keys and values in eight bits": {
        "eight_bits": True,
        "int8_weights": True,
    },
}


@dataclass(frozen=True)
class Launch:
    """The work of one launch.

    Attributes:
        kernel: its name.
        programs, warps: programs of the launch, and warps of a program.
        instructions: that a warp carries out one after another; the most of any warp.
        issued: instructions of all warps.
        moved: bytes that all programs load and store, from caches or memory.
        fetched: bytes of memory that they touch, each counted once.
        operations: operations of matrix units.
        ahead: those bytes of ``fetched`` that earlier launches fetch into the cache.
    """

    kernel: str
    programs: int = 1
    warps: int = 1
    instructions: int = 0
    issued: int = 0
    moved: int = 0
    fetched: int = 0
    operations: int = 0
    ahead: int = 0

    def seconds(self, gpu: Gpu, *, ahead: bool = False) -> float:
        """Return the time from this launch to the next one.

        Args:
            ahead: whether what earlier launches fetch is in the cache.
        """
        cycles = gpu.clock * min(self.programs, gpu.multiprocessors)
        work = max(
            (self.fetched - ahead * self.ahead) / (_REACHED * gpu.read),
            self.moved / (_CACHE_BYTES * cycles),
            self.issued / (_ISSUED * cycles),
            self.operations / (_REACHED_PRODUCTS * gpu.products),
        )
        return gpu.start + self.instructions * _CYCLES / gpu.clock + work


@dataclass(frozen=True)
class Step:
    """A decode step.

    Attributes:
        launches: the different launches, each with how often the step has it.
    """

    launches: Sequence[tuple[int, Launch]]

    @property
    def count(self) -> int:
        """Return the number of launches."""
        return sum(times for times, _ in self.launches)

    @property
    def instructions(self) -> int:
        """Return the instructions that follow one another through all launches."""
        return sum(times * launch.instructions for times, launch in self.launches)

    @property
    def fetched(self) -> int:
        """Return the bytes of memory that the launches need."""
        return sum(times * launch.fetched for times, launch in self.launches)

    def seconds(self, gpu: Gpu) -> float:
        """Return the expected time, without fetches ahead."""
        return sum(times * launch.seconds(gpu) for times, launch in self.launches)

    def least_seconds(self, gpu: Gpu) -> float:
        """Return the least time with fetches ahead: all of them arrive before they are read.

        The memory still gives each byte once.
        """
        launches = sum(times * own.seconds(gpu, ahead=True) for times, own in self.launches)
        return max(launches, self.fetched / (_REACHED * gpu.read))


def gpu_named(name: str, multiprocessors: int) -> Gpu | None:
    """Return the GPU that CUDA calls ``name``; ``None`` for another one, or a smaller edition."""
    for known, gpu in GPUS.items():
        if re.search(rf"\b{known}\b", name) and gpu.multiprocessors == multiprocessors:
            return gpu
    return None


def count_steps(
    capability: int,
    scale: Scale,
    *,
    text: bool = False,
    eight_bits: bool = False,
    int8_weights: bool = False,
) -> dict[int, Step]:
    """Count the steps of each number of sequences of ``scale``, in a process of its own.

    Args:
        text: the steps draw text ids, not codes.
        eight_bits: keys and values have eight bits.
        int8_weights: the Llama's weights have eight bits.

    Raises:
        RuntimeError: the kernels cannot be compiled or emulated here; the message says why.
    """
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    # Triton compiles for the capability; the steps compute on the CPU.
    environment |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    with TemporaryDirectory(prefix="chattts-steps-") as folder:
        file = Path(folder) / "steps.json"
        command = [sys.executable, "-m", f"{__package__}.step_counts", str(capability), str(file)]
        chosen = {"--text": text, "--eight-bits": eight_bits, "--int8-weights": int8_weights}
        chosen["--tiny"] = scale != FULL
        command += [option for option, given in chosen.items() if given]
        done = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, errors="replace"
        )
        if done.returncode:
            raise RuntimeError(f"the step cannot be counted: {done.stderr[-2000:]}")
        told = json.loads(file.read_text(encoding="utf-8"))
    return {int(rows): read_step(launches) for rows, launches in told.items()}


def read_step(launches: Sequence[Mapping[str, Any]]) -> Step:
    """Return a step from the JSON of its launches."""
    read = [dict(launch) for launch in launches]
    return Step([(launch.pop("times"), Launch(**launch)) for launch in read])


def measure(task: Task) -> None:
    """Record the expected milliseconds of steps in bfloat16 on this GPU.

    Without a GPU they are those of an H100. On a GPU of another kind none are expected.
    """
    import torch

    gpu: Gpu | None = GPUS["H100"]
    if task.device.type == "cuda":
        about = torch.cuda.get_device_properties(task.device)
        gpu = gpu_named(about.name, about.multi_processor_count)
    if gpu is None:
        task.record.put(skipped="step_model.py does not know this GPU")
        return
    steps = count_steps(gpu.capability, task.scale)
    found = {
        str(rows): {
            "ms": 1e3 * step.seconds(gpu),
            "least_ms": 1e3 * step.least_seconds(gpu),
            "launches": step.count,
            "instructions": step.instructions,
            "read_mb": step.fetched / 1e6,
        }
        for rows, step in steps.items()
    }
    task.record.put(positions=task.scale.positions, streams=found)
    place = expectation(task)
    place.write_text(json.dumps({rows: own["ms"] for rows, own in found.items()}), "utf-8")


def expectation(task: Task) -> Path:
    """Return the file that has the expected milliseconds of a step, by the number of streams."""
    return task.folder / "expected-steps.json"


def main() -> None:
    new_parser("gpu.step_model", __doc__).parse_args()
    capabilities = sorted({gpu.capability for gpu in GPUS.values()})
    for title, options in _STEPS.items():
        counted = {each: count_steps(each, FULL, **options) for each in capabilities}
        _print(title, counted)


def _print(title: str, counted: Mapping[int, Mapping[int, Step]]) -> None:
    """Print the times of a step on each GPU, and its counts for each capability."""
    print(f"{title} at {FULL.positions} positions, bfloat16: ms expected (bytes alone)")
    for name, gpu in GPUS.items():
        cells = [
            f"{rows:4}: {1e3 * step.seconds(gpu):6.2f} ({1e3 * step.fetched / gpu.read:5.2f})"
            for rows, step in counted[gpu.capability].items()
        ]
        print(f"{name:9}", *cells)
    print("with weights that are fetched ahead: ms at the least")
    for name, gpu in GPUS.items():
        least = {rows: own.least_seconds(gpu) for rows, own in counted[gpu.capability].items()}
        print(f"{name:9}", *(f"{rows:4}: {1e3 * seconds:6.2f}" for rows, seconds in least.items()))
    print("launches; instructions one after another; MB read from memory")
    for capability, steps in counted.items():
        cells = [
            f"{rows:4}: {step.count:4}; {step.instructions:6}; {step.fetched / 1e6:6.0f}"
            for rows, step in steps.items()
        ]
        print(f"{capability / 10:<9}", *cells)
    print()


if __name__ == "__main__":
    main()
