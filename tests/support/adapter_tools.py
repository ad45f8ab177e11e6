"""Adapters of random numbers, as peft saves them, and checkpoints that they are merged into."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ChatTTS.checkpoints.adapters import CONFIG, SPEAKER, WEIGHTS, read_adapter
from ChatTTS.config import Config
from ChatTTS.model.adapters import Adapter, module_of, projections
from ChatTTS.model.llama_config import LlamaShape, read_llama_shape

from .places import DATA

MODEL = DATA / "model-a"


def shape_of(checkpoint: Path = MODEL) -> LlamaShape:
    config = Config.from_file(checkpoint / "asset" / "config.json")
    return read_llama_shape(checkpoint / "asset" / "gpt" / "config.json", config.gpt)


def adapter_tensors(
    shape: LlamaShape,
    seed: int,
    rank: int,
    targets: Collection[str] | None = None,
    strength: float = 0.4,
) -> dict[str, Tensor]:
    """Tensors under peft's names; by default of all projections."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
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


def make_adapter(folder: Path, shape: LlamaShape, name: str = "a", **given: Any) -> Adapter:
    """Write an adapter into ``folder`` and read it."""
    return read_adapter(save_adapter(folder / name, shape, **given), name, shape)


def merged_tensors(tensors: dict[str, Tensor], adapter: Adapter) -> dict[str, Tensor]:
    """Add an adapter to a Llama's weights, in double precision."""
    merged = dict(tensors)
    for (layer, name), product in adapter.products.items():
        key = f"layers.{layer}.{module_of(name)}.{name}.weight"
        added = product.up.double() @ product.down.double()
        merged[key] = (merged[key].double() + added).to(tensors[key].dtype)
    return merged


def merged_checkpoint(folder: Path, adapter: Adapter) -> Path:
    """Copy the small checkpoint with an adapter in its weights."""
    copy = Path(shutil.copytree(MODEL, folder))
    weights = copy / "asset" / "gpt" / "model.safetensors"
    save_file(merged_tensors(load_file(weights), adapter), weights)
    return copy
