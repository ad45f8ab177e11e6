"""Read and write the attention heads that a search chose for a checkpoint.

The file is beside a checkpoint in a folder of the user's. For all other checkpoints, and where that
folder is read-only, it is in the cache folder, under a hash of the weights.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from pathlib import Path
from typing import Any

from .checkpoints.assets import AssetFolder
from .config import AlignmentHeads, Config, GPTConfig, checked_heads
from .errors import AssetError, ConfigError, shown
from .model.velocity.backends.cpu.fingerprint import fingerprint
from .pipeline.alignment.found_heads import FoundHeads
from .pipeline.alignment.head_scores import HeadChoice, Score
from .utils.kept_files import KeptFolder, writing_whole
from .utils.untrusted import LONGEST_JSON, parse_json, read_json
from .weights.tensor_file import TensorFile

logger = logging.getLogger(__name__)

# Of the file's format.
_VERSION = 1
# In the cache folder.
_FOLDER = "heads"


def found_heads(assets: AssetFolder, config: Config) -> FoundHeads:
    """Return the stored heads of a checkpoint, or none, and the place of later ones.

    Nothing is read for a checkpoint whose configuration names heads.

    Raises:
        ConfigError: the file beside the checkpoint is damaged, or names heads that the model lacks.
    """
    heads: AlignmentHeads = ()
    if not config.defaults.alignment_heads:
        heads = _read_beside(assets, config.gpt) or _read_cached(assets, config.gpt)
    return FoundHeads(heads, lambda choice: _write(assets, choice))


def _is_own(assets: AssetFolder) -> bool:
    """Return whether the folder is the user's; those of the hub and the package are not."""
    return assets.origin in ("local", "custom")


def _read_beside(assets: AssetFolder, gpt: GPTConfig) -> AlignmentHeads:
    path = assets.alignment_heads
    if not _is_own(assets) or not os.path.lexists(path):
        return ()
    try:
        return _parsed(read_json(path), gpt)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path}: {error}; delete the file, and run `chattts align` to write a new one"
        ) from error


def _read_cached(assets: AssetFolder, gpt: GPTConfig) -> AlignmentHeads:
    """Return the heads in the cache folder; without a usable file there, none."""
    folder = KeptFolder(_FOLDER)
    path = folder.path
    try:
        if not folder.names():
            return ()
        path /= _cached_name(assets)
        with folder.reading(path.name) as file:
            return _parsed(parse_json(file.read(LONGEST_JSON).decode("utf-8")), gpt)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        logger.warning(
            "%s is not used, and the attention heads are searched for again where they are needed; "
            "delete it if this goes on (%s)",
            path,
            error,
        )
        return ()


def _cached_name(assets: AssetFolder) -> str:
    about = [fingerprint(TensorFile(path)) for path in (assets.gpt, assets.embed)]
    return f"{hashlib.sha256(' '.join(about).encode()).hexdigest()}.json"


def _write(assets: AssetFolder, choice: HeadChoice) -> Path | None:
    """Store a choice; return its file, or ``None`` where none can be written."""
    content = json.dumps(_as_json(choice), indent=1).encode("utf-8") + b"\n"
    path = assets.alignment_heads
    if _is_own(assets) and os.access(path.parent, os.W_OK):
        try:
            with writing_whole(path) as file:
                file.write(content)
            return path
        except OSError as error:
            logger.info("%s cannot be written: %s", path, error)
    folder = KeptFolder(_FOLDER)
    try:
        name = _cached_name(assets)
        with folder.writing(name) as file:
            file.write(content)
    except (OSError, AssetError) as error:
        logger.warning(
            "the attention heads cannot be saved, so every start searches for them again: %s", error
        )
        return None
    return folder.path / name


def _as_json(choice: HeadChoice) -> dict[str, Any]:
    return {
        "version": _VERSION,
        "heads": [list(pair) for pair in choice.heads],
        "score": _numbers(choice.joint),
        "scores": [
            {"layer": each.layer, "head": each.head, **_numbers(each.score)} for each in choice.best
        ],
    }


def _numbers(score: Score) -> dict[str, float]:
    return {
        "total": round(score.total, 4),
        "monotone": round(score.monotone, 4),
        "coverage": round(score.coverage, 4),
        "sharpness": round(score.sharpness, 4),
    }


def _parsed(value: Any, gpt: GPTConfig) -> AlignmentHeads:
    """Return the heads of a file; its scores are for readers.

    Raises:
        ConfigError: the value is no choice of heads, or not one of this model.
    """
    if not isinstance(value, dict) or value.get("version") != _VERSION:
        raise ConfigError(f"it must be a JSON object with version {_VERSION} and heads")
    heads = value.get("heads")
    pairs = heads if isinstance(heads, list) else []
    are_whole = all(
        isinstance(pair, list) and len(pair) == 2 and all(type(n) is int for n in pair)
        for pair in pairs
    )
    if not pairs or not are_whole:
        raise ConfigError(
            f"heads must be pairs of a layer and a head, such as [[2, 0], [3, 1]], not "
            f"{shown(heads)}"
        )
    return checked_heads(pairs, gpt)
