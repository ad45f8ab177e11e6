"""Read and write how long a checkpoint speaks, by which speech is fitted to its time."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

from .checkpoints.assets import AssetFolder
from .errors import ConfigError, shown
from .found_files import FoundFile
from .pipeline.speech_lengths import FoundLengths, Pace, SpeechLengths
from .utils.untrusted import read_json

# Of the file's format.
_VERSION = 1
# In the cache folder.
_FOLDER = "lengths"
_SECONDS = ("per_han", "per_letter", "per_mark", "per_utterance")
_TAGS = re.compile(r"(?:\[speed_\d\]){0,2}")
# Of a sane file: no unit takes longer, and no pace is so far from the usual one.
_LONGEST, _FARTHEST, _MOST_PACES = 60.0, 10.0, 200


def found_lengths(assets: AssetFolder) -> FoundLengths:
    """Return the stored lengths of a checkpoint, or none, and the place of later ones.

    The bundled voice has them among its files.

    Raises:
        ConfigError: the file beside the checkpoint is damaged.
    """
    if assets.origin == "bundled" and assets.speech_lengths.is_file():
        return FoundLengths(_parsed(read_json(assets.speech_lengths)))
    file = FoundFile(
        assets,
        assets.speech_lengths,
        _FOLDER,
        "the lengths of speech",
        "delete the file, and the next call with a duration learns a new one",
        _parsed,
    )
    return FoundLengths(file.read(), lambda lengths: file.write(as_json(lengths)))


def as_json(lengths: SpeechLengths) -> dict[str, Any]:
    """Return lengths as the file has them."""
    return {"version": _VERSION, **asdict(lengths)}


def _parsed(value: Any) -> SpeechLengths:
    """Return the lengths of a file.

    Raises:
        ConfigError: the value has no lengths.
    """
    if not isinstance(value, dict) or value.get("version") != _VERSION:
        raise ConfigError(f"it must be a JSON object with version {_VERSION} and lengths")
    seconds = {name: _number(name, value.get(name), 0.0, _LONGEST) for name in _SECONDS}
    paces = value.get("paces")
    if not isinstance(paces, list) or not 1 <= len(paces) <= _MOST_PACES:
        raise ConfigError(f"paces must be a list of 1 to {_MOST_PACES}, not {shown(paces)}")
    found = sorted(map(_pace, paces), key=lambda pace: pace.factor)
    return SpeechLengths(**seconds, paces=tuple(found))


def _pace(value: Any) -> Pace:
    tags = value.get("tags") if isinstance(value, dict) else None
    if not isinstance(tags, str) or _TAGS.fullmatch(tags) is None:
        raise ConfigError(
            f"a pace must have at most two tags such as [speed_3], and a factor, not {shown(value)}"
        )
    return Pace(tags, _number("factor", value.get("factor"), 1 / _FARTHEST, _FARTHEST))


def _number(name: str, value: Any, least: float, most: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:
        raise ConfigError(f"{name} must be a number from {least:g} to {most:g}, not {shown(value)}")
    return float(value)
