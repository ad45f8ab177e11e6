"""The stage ``export``: the adapter by itself, or merged into a checkpoint of its own."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from ChatTTS.checkpoints.adapters import read_adapter
from ChatTTS.checkpoints.assets import AssetFolder
from ChatTTS.checkpoints.tensors import read_tensors
from ChatTTS.config import Config
from ChatTTS.core import Chat
from ChatTTS.errors import AssetError
from ChatTTS.model.adapters import Adapter, module_of
from ChatTTS.model.llama_config import read_llama_shape

from .corpus import Corpus, path_of
from .run import Run
from .task import load_tuned

logger = logging.getLogger(__name__)

ADAPTER, MERGED = "adapter", "merged"


def main(run: Run) -> None:
    """Write ``adapter/`` in the run's folder, as ``load(adapter=...)`` takes it."""
    folder = run.out / ADAPTER
    load_tuned(run).save(folder, Corpus.read(path_of(run)).speaker)
    adapter = trained_adapter(run)
    logger.info("%s: %d products, digest %s", folder, len(adapter.products), adapter.info.digest)


def merge(run: Run) -> None:
    """Write ``merged/asset``: the base with the adapter in its weights, and the voice by its name.

    Raises:
        AssetError: there is no adapter, or the checkpoint cannot be loaded.
    """
    adapter = trained_adapter(run)
    folder = run.out / MERGED
    write_merged(run.folder, adapter, folder / "asset", run.settings.name)
    Chat().load_or_raise("custom", custom_path=folder, device="cpu")
    logger.info("%s can be loaded: Chat().load('custom', custom_path=...)", folder)


def trained_adapter(run: Run) -> Adapter:
    """Read the adapter that :func:`main` wrote.

    Raises:
        AssetError: it is missing or damaged.
    """
    config = Config.from_file(run.folder.config)
    shape = read_llama_shape(run.folder.gpt_config, config.gpt)
    return read_adapter(run.out / ADAPTER, run.settings.name, shape)


def write_merged(base: AssetFolder, adapter: Adapter, asset: Path, name: str) -> None:
    """Write a checkpoint in the published layout.

    Weights keep the base's dtypes. The adapter's speaker becomes the default one, ``name``.

    Args:
        asset: an earlier folder is removed once the new one is complete.
    """
    partial = asset.with_name(asset.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(base.asset, partial)
    weights = partial / "gpt" / "model.safetensors"
    tensors = merged_tensors(read_tensors(weights), adapter, weights)
    save_file(tensors, weights, metadata={"format": "pt"})
    if adapter.speaker is not None:
        _add_speaker(partial / "config.json", name, adapter.speaker)
    shutil.rmtree(asset, ignore_errors=True)
    os.replace(partial, asset)


def merged_tensors(
    tensors: Mapping[str, Tensor], adapter: Adapter, file: Path
) -> dict[str, Tensor]:
    """Return a Llama's tensors with an adapter's products added, in double precision.

    Raises:
        AssetError: a weight is missing, or the sum does not fit into its dtype.
    """
    merged = dict(tensors)
    for (layer, projection), product in adapter.products.items():
        key = f"layers.{layer}.{module_of(projection)}.{projection}.weight"
        if key not in merged:
            raise AssetError(f"{file} has no {key}: the adapter belongs to another checkpoint")
        whole = merged[key].double() + product.up.double() @ product.down.double()
        merged[key] = whole.to(merged[key].dtype)
        if not bool(torch.isfinite(merged[key]).all()):
            raise AssetError(f"{key} does not fit into {merged[key].dtype} with the adapter")
    return merged


def _add_speaker(path: Path, name: str, speaker: str) -> None:
    config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    defaults = config.setdefault("defaults", {})
    defaults["speakers"] = {name: speaker, **defaults.get("speakers", {})}
    defaults["speakers"][name] = speaker
    defaults["speaker"] = name
    path.write_text(json.dumps(config, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
