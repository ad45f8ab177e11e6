"""The sizes of the GPU benchmark, and the arguments of its parts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ChatTTS.config import GPTConfig


@dataclass(frozen=True)
class Scale:
    """Sizes of the model and of the measurements.

    Attributes:
        device: the device of all parts.
        gpt: sizes of the language model.
        streams: numbers of sequences that decode together.
        positions: length of each sequence in a step that is timed.
        prompt, frames: positions of the prompt and new frames of a request to the engine.
        rounds: number of rounds, of which the median counts.
        steps: steps of a round, at most 8: a step's results are kept for few later ones.
        product_rows: numbers of rows in timed products.
        check_rows: numbers of rows with which kernels are compared with their references.
        bit_rows: the most rows whose bits are compared.
        prompts: numbers of rows of prompt steps.
        spread_bytes: bytes that are read before any is read again; more than all caches hold.
        copy_bytes: size of the copy that measures the memory's rate.
        kv_memory: size of the engine's KV cache.
        tests: patterns of the test files that are run.
        traffic_seconds: how long requests join and leave.
        soak: requests that are held against their lone runs, and the most ids of one.
        beside: texts that are spoken at once beside a stream; more than any captured launch has.
        batched_tokens: the engine's token budget of a step; ``None`` for its default.
    """

    device: str
    gpt: GPTConfig
    streams: tuple[int, ...]
    positions: int
    prompt: int
    frames: int
    rounds: int
    steps: int
    product_rows: tuple[int, ...]
    check_rows: tuple[int, ...]
    bit_rows: int
    prompts: tuple[int, ...]
    spread_bytes: int
    copy_bytes: int
    kv_memory: str
    tests: tuple[str, ...]
    traffic_seconds: float
    soak: tuple[int, int]
    beside: int
    batched_tokens: int | None = None


FULL = Scale(
    device="cuda:0",
    gpt=GPTConfig(),
    streams=(1, 8, 16, 64, 256),
    positions=500,
    prompt=50,
    frames=350,
    rounds=30,
    steps=8,
    product_rows=(1, 2, 4, 8, 16, 32, 64, 256),
    check_rows=(1, 17, 64, 256),
    bit_rows=256,
    prompts=(50, 500, 2000),
    spread_bytes=256 << 20,
    copy_bytes=2 << 30,
    # The longest float32 part needs 12.6 GB; a card of 24 GB has room for this beside the model.
    kv_memory="14GB",
    # The last two hold every backend against one contract.
    tests=(
        "**/cuda/test_*.py",
        "model/synthesis/test_cuda_decoder.py",
        "model/synthesis/test_streaming_decoder.py",
        "model/velocity/backends/torch/test_sampler.py",
    ),
    traffic_seconds=6,
    soak=(128, 120),
    beside=20,
)
# Sizes with which a whole run takes seconds on a CPU.
TINY = Scale(
    device="cpu",
    gpt=GPTConfig(
        hidden_size=64,
        intermediate_size=128,
        num_attention_heads=4,
        num_hidden_layers=2,
        max_position_embeddings=128,
        num_text_tokens=400,
    ),
    streams=(1, 3),
    positions=40,
    prompt=10,
    frames=8,
    rounds=2,
    steps=2,
    product_rows=(1, 3),
    check_rows=(1, 3),
    bit_rows=40,
    prompts=(9,),
    spread_bytes=1,
    copy_bytes=1 << 10,
    kv_memory="4MB",
    tests=("model/synthesis/test_launch_shapes.py",),
    traffic_seconds=0.2,
    soak=(9, 6),
    beside=3,
    batched_tokens=16,
)


class Record:
    """The results of a part, written to ``file`` with each addition.

    So the results from before a failure or a time limit are kept.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self.values: dict[str, Any] = {}
        self._write()

    def put(self, **values: Any) -> None:
        """Add figures, by their names."""
        self.values |= values
        self._write()

    def _write(self) -> None:
        partial = self._file.with_suffix(".partial")
        partial.write_text(json.dumps(self.values), encoding="utf-8")
        partial.replace(self._file)


@dataclass(frozen=True)
class Task:
    """The arguments of every part.

    Attributes:
        scale: sizes of the model and of the measurements.
        folder: the folder of all parts, in which checkpoints are written once.
        record: takes the results.
        began: start of the part's process, in seconds since the epoch.
    """

    scale: Scale
    folder: Path
    record: Record
    began: float

    @property
    def device(self) -> torch.device:
        """The device of the part."""
        return torch.device(self.scale.device)
