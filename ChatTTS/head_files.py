"""Read and write the attention heads that a search chose for a checkpoint."""

from __future__ import annotations

from typing import Any

from .checkpoints.assets import AssetFolder
from .config import AlignmentHeads, Config, GPTConfig, checked_heads
from .errors import ConfigError, shown
from .found_files import FoundFile
from .pipeline.alignment.found_heads import FoundHeads
from .pipeline.alignment.head_scores import HeadChoice, Score

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
    file = _file(assets, config.gpt)
    heads = None if config.defaults.alignment_heads else file.read()
    return FoundHeads(heads or (), lambda choice: file.write(_as_json(choice)))


def _file(assets: AssetFolder, gpt: GPTConfig) -> FoundFile[AlignmentHeads]:
    return FoundFile(
        assets,
        assets.alignment_heads,
        _FOLDER,
        "the attention heads",
        "delete the file, and run `chattts align` to write a new one",
        lambda value: _parsed(value, gpt),
    )


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
