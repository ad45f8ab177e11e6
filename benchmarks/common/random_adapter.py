"""Write an adapter of random numbers, as peft saves it."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from ChatTTS.model.llama.config import LlamaShape, module_of, projections
from ChatTTS.model.lora.reader import CONFIG, SPEAKER, WEIGHTS


def adapter_tensors(
    shape: LlamaShape,
    seed: int,
    rank: int,
    targets: Collection[str] | None = None,
    strength: float = 0.4,
) -> dict[str, Tensor]:
    """Tensors under peft's names; by default of all projections."""
    generator = torch.Generator().manual_seed(seed)
    tensors: dict[str, Tensor] = {}
    for layer in range(shape.num_hidden_layers):
        for name, (outputs, inputs) in projections(shape).items():
            if targets is None or name in targets:
                place = f"base_model.model.layers.{layer}.{module_of(name)}.{name}.lora_"
                down = torch.randn(rank, inputs, generator=generator) / inputs**0.5
                up = torch.randn(outputs, rank, generator=generator) * strength / rank**0.5
                tensors |= {f"{place}A.weight": down, f"{place}B.weight": up}
    return tensors


def save_adapter(
    folder: Path,
    shape: LlamaShape,
    seed: int = 0,
    rank: int = 4,
    targets: Collection[str] | None = None,
    *,
    speaker: str | None = None,
    strength: float = 0.4,
    **config: Any,
) -> Path:
    """Write an adapter whose scale is 1, unless ``config`` says otherwise."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(adapter_tensors(shape, seed, rank, targets, strength), folder / WEIGHTS)
    settings = {"peft_type": "LORA", "r": rank, "lora_alpha": rank, "bias": "none"} | config
    (folder / CONFIG).write_text(json.dumps(settings), "utf-8")
    if speaker is not None:
        (folder / SPEAKER).write_text(speaker, "utf-8")
    return folder
