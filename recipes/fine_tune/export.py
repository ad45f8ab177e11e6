"""The stages ``export`` and ``merge``: the adapter by itself, and checkpoints of what was tuned."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from ChatTTS.checkpoints.assets import AssetFolder
from ChatTTS.config import Config
from ChatTTS.core import Chat
from ChatTTS.errors import AssetError
from ChatTTS.model.dvae import MelDecoder
from ChatTTS.model.llama.config import module_of, read_llama_shape
from ChatTTS.model.lora.adapter import Adapter
from ChatTTS.model.lora.reader import read_adapter
from ChatTTS.weights.tensors import read_tensors

from .corpus import Corpus, path_of
from .decoder import is_tuned, load_tuned_decoder
from .run import Run
from .task import load_tuned

logger = logging.getLogger(__name__)

ADAPTER, DECODER, MERGED = "adapter", "decoder", "merged"


def main(run: Run) -> None:
    """Write ``adapter/`` in the run's folder, as ``load(adapter=...)`` takes it.

    Where the Decoder was tuned, also ``decoder/asset``: the base with that Decoder, for use with
    and without the adapter.

    Raises:
        AssetError: nothing is trained yet, or the Decoder has learned from another adapter.
    """
    folder, tuned = run.out / ADAPTER, load_tuned(run)
    tuned.save(folder, Corpus.read(path_of(run)).speaker)
    adapter = trained_adapter(run)
    logger.info("%s: %d products, digest %s", folder, len(adapter.products), adapter.info.digest)
    if is_tuned(run):
        whole = run.out / DECODER
        with written(run.folder, whole / "asset") as partial:
            write_decoder(partial, load_tuned_decoder(run, tuned))
        logger.info("%s: the base with the tuned Decoder", whole)


def merge(run: Run) -> None:
    """Write ``merged/asset``: the base with the adapter in its weights, and the voice by its name.

    Where the Decoder was tuned, it is that one.

    Raises:
        AssetError: there is no adapter, the Decoder has learned from another one, or the checkpoint
            cannot be loaded.
    """
    adapter = trained_adapter(run)
    folder = run.out / MERGED
    with written(run.folder, folder / "asset") as partial:
        write_merged(partial, adapter, run.settings.name)
        if is_tuned(run):
            write_decoder(partial, load_tuned_decoder(run, load_tuned(run)))
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


@contextmanager
def written(base: AssetFolder, asset: Path) -> Iterator[AssetFolder]:
    """Yield a copy of a checkpoint to change, which becomes ``asset`` once it is complete.

    Args:
        asset: an earlier folder is removed then.
    """
    partial = asset.with_name(asset.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(base.asset, partial)
    yield AssetFolder(partial, "custom")
    shutil.rmtree(asset, ignore_errors=True)
    os.replace(partial, asset)


def write_merged(folder: AssetFolder, adapter: Adapter, name: str) -> None:
    """Add an adapter to the weights of a checkpoint, in place; they keep their dtypes.

    The adapter's speaker becomes the default one, ``name``.

    Raises:
        AssetError: see :func:`merged_tensors`.
    """
    weights = folder.gpt
    tensors = merged_tensors(read_tensors(weights), adapter, weights)
    save_file(tensors, weights, metadata={"format": "pt"})
    if adapter.speaker is not None:
        _add_speaker(folder.config, name, adapter.speaker)


def write_decoder(folder: AssetFolder, decoder: MelDecoder) -> None:
    """Replace the Decoder of a checkpoint, in place; its tensors keep their dtypes.

    Raises:
        AssetError: a weight does not fit into its dtype.
    """
    file = folder.decoder
    known, tuned = read_tensors(file), decoder.state_dict()
    tensors = {name: tuned.get(name, value).to(value.dtype) for name, value in known.items()}
    for name, value in tensors.items():
        if not bool(torch.isfinite(value).all()):
            raise AssetError(f"{name} of the tuned Decoder does not fit into {value.dtype}")
    save_file(tensors, file, metadata={"format": "pt"})


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
