"""How large everything in the GPU benchmark is, and what its parts are given."""

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
        device: where everything runs.
        streams: numbers of sequences that decode together.
        positions: of each sequence in a step that is timed.
        prompt, frames: of a request to the engine.
        rounds: the median of so many counts.
        steps: of a round.
        product_rows: rows of products.
        check_rows: rows of the kernels that are held against their twins.
        prompts: rows of prompt steps.
        spread_bytes: what is read before anything is read again: more than all caches hold.
        copy_bytes: copied for the limit.
        kv_memory: of the engine.
        tests: files of tests that are run.
        batched_tokens: positions of a step of the engine; ``None`` is its own choice.
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
    prompts: tuple[int, ...]
    spread_bytes: int
    copy_bytes: int
    kv_memory: str
    tests: str
    batched_tokens: int | None = None


FULL = Scale(
    device="cuda:0",
    gpt=GPTConfig(),
    streams=(1, 8, 64, 256),
    positions=500,
    prompt=50,
    frames=350,
    rounds=15,
    steps=20,
    product_rows=(1, 2, 4, 8, 16, 32, 64, 256),
    check_rows=(1, 17, 64, 256),
    prompts=(50, 500, 2000),
    spread_bytes=256 << 20,
    copy_bytes=2 << 30,
    kv_memory="24GB",
    tests="**/cuda/test_*.py",
)
# Everything that a run does, in seconds, on a CPU.
TINY = Scale(
    device="cpu",
    gpt=GPTConfig(
        hidden_size=64,
        intermediate_size=128,
        num_attention_heads=4,
        num_hidden_layers=2,
        max_position_embeddings=128,
        num_text_tokens=120,
    ),
    streams=(1, 3),
    positions=40,
    prompt=10,
    frames=8,
    rounds=2,
    steps=2,
    product_rows=(1, 3),
    check_rows=(1, 3),
    prompts=(9,),
    spread_bytes=1,
    copy_bytes=1 << 10,
    kv_memory="4MB",
    tests="model/cuda/test_passes.py",
    batched_tokens=16,
)


class Record:
    """What a part has found, written to ``file`` whenever something is added: what was found
    before a part failed or was ended is not lost."""

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
    """What a part is to do.

    Attributes:
        folder: of all parts: checkpoints are written there once.
        record: takes what is found.
        began: when the part's process was started, in seconds since the epoch.
    """

    scale: Scale
    folder: Path
    record: Record
    began: float

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return torch.device(self.scale.device)
