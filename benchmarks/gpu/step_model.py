"""The expected time of a decode step on a GPU, from its bytes and launches.

A step reads all weights, and the keys and values of all positions, and consists of launches that
follow one another. The two constants are estimates for compute capability 9.0; no GPU was measured.
A first run on a GPU can be held against the figures.

    python -m benchmarks.gpu.step_model
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ChatTTS.config import GPTConfig

from ..common.step_limit import StepWork

# Launches of a step beside those of its layers: embedding, head, draws, counters, results.
_OTHER_LAUNCHES = 9
_LAYER_LAUNCHES = 6
# Seconds from the start of a launch to that of the next, beside the time of its bytes.
_LAUNCH_SECONDS = 3e-6
# The part of the memory's rate that the kernels reach.
_REACHED = 0.6
# The part of the rate of products that the kernels reach with the rows of a prompt.
_REACHED_PRODUCTS = 0.4


@dataclass(frozen=True)
class Gpu:
    """The rates of a GPU, as its maker states them.

    Attributes:
        read: bytes of memory a second.
        products: operations a second of bfloat16 products.
    """

    read: float
    products: float


GPUS: Mapping[str, Gpu] = {
    "H200": Gpu(4.8e12, 989e12),
    "H100": Gpu(3.35e12, 989e12),
    "A100": Gpu(2.04e12, 312e12),
    "RTX 4090": Gpu(1.01e12, 165e12),
    "L4": Gpu(0.30e12, 121e12),
}


@dataclass(frozen=True)
class StepModel:
    """The expected time of a step of the model ``gpt`` in bfloat16 on ``gpu``."""

    gpu: Gpu
    gpt: GPTConfig

    @property
    def work(self) -> StepWork:
        """Return the bytes and operations of a step."""
        return StepWork.of(self.gpt, "bfloat16", "bfloat16")

    @property
    def launches(self) -> int:
        """Return the number of launches of a step."""
        return _LAYER_LAUNCHES * self.gpt.num_hidden_layers + _OTHER_LAUNCHES

    def decode_seconds(self, positions: int) -> float:
        """Return the time of a step whose sequences have so many positions in all."""
        work = self.work
        read = work.weight_bytes + positions * work.position_bytes
        return self.launches * _LAUNCH_SECONDS + read / (_REACHED * self.gpu.read)

    def prompt_seconds(self, rows: int) -> float:
        """Return the time to read so many positions of prompts."""
        operations = rows * self.work.llama_operations
        products = operations / (_REACHED_PRODUCTS * self.gpu.products)
        return self.decode_seconds(rows) + products


def main() -> None:
    gpt, positions = GPTConfig(), 500
    print(f"milliseconds of a step at {positions} positions, bfloat16: expected (bytes alone)")
    for name, gpu in GPUS.items():
        model, times = StepModel(gpu, gpt), []
        for streams in (1, 64, 256):
            held = streams * positions
            read = model.work.weight_bytes + held * model.work.position_bytes
            expected = model.decode_seconds(held)
            times.append(f"{streams:4}: {1e3 * expected:6.2f} ({1e3 * read / gpu.read:.2f})")
        print(f"{name:9}", *times)


if __name__ == "__main__":
    main()
