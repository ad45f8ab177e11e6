"""Adapters of random numbers, as peft saves them, and checkpoints that they are merged into."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from benchmarks.common.random_adapter import save_adapter
from ChatTTS.config import Config
from ChatTTS.model.llama.config import LlamaShape, module_of, read_llama_shape
from ChatTTS.model.lora.adapter import Adapter
from ChatTTS.model.lora.reader import read_adapter

from .places import DATA

MODEL = DATA / "model-a"


def shape_of(checkpoint: Path = MODEL) -> LlamaShape:
    config = Config.from_file(checkpoint / "asset" / "config.json")
    return read_llama_shape(checkpoint / "asset" / "gpt" / "config.json", config.gpt)


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
