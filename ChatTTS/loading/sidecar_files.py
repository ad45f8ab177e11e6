"""Sidecar files of a checkpoint: its attention heads and its lengths of speech, each searched once.

Such a file is beside a checkpoint in a folder of the user's. For all other checkpoints, and where
that folder is read-only, it is in the cache folder, under a hash of the weights.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from ..checkpoints.assets import AssetFolder
from ..config import AlignmentHeads, Config, GPTConfig, checked_heads
from ..errors import AssetError, ConfigError, shown
from ..pipeline.alignment.head_scores import HeadChoice, Score
from ..pipeline.lazy_value import LazyValue
from ..pipeline.speech_lengths import Pace, SpeechLengths
from ..utils.cache_files import CacheFolder, atomic_write
from ..utils.untrusted import LONGEST_JSON, parse_json, read_json
from ..weights.fingerprint import fingerprint
from ..weights.tensor_file import TensorFile

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Of the files' formats.
_VERSION = 1
_LENGTHS = ("per_han", "per_letter", "per_mark", "per_utterance")
_TAGS = re.compile(r"(?:\[speed_\d\]){0,2}")
# Of a sane file: no unit takes longer, and no pace is so far from the usual one.
_LONGEST, _FARTHEST, _MOST_PACES = 60.0, 10.0, 200


@dataclass(frozen=True)
class _File(Generic[T]):
    """The sidecar file of one property of a checkpoint.

    Attributes:
        assets: the checkpoint.
        path: of the file beside it.
        folder: name of the folder in the cache folder.
        what: what was found, in the plural, such as ``the attention heads``.
        remedy: of a damaged file beside the checkpoint.
        parse: returns the finding of a JSON value; raises ValueError where it is none.
    """

    assets: AssetFolder
    path: Path
    folder: str
    what: str
    remedy: str
    parse: Callable[[Mapping[str, Any]], T]

    def read(self) -> T | None:
        """Return what is stored, or ``None``.

        Raises:
            ConfigError: the file beside the checkpoint is damaged.
        """
        found = self._read_beside()
        return self._read_cached() if found is None else found

    def write(self, content: Mapping[str, Any]) -> Path | None:
        """Store a JSON object; return its file, or ``None`` where none can be written."""
        text = json.dumps(content, indent=1).encode("utf-8") + b"\n"
        if self._is_own and os.access(self.path.parent, os.W_OK):
            try:
                with atomic_write(self.path) as file:
                    file.write(text)
                return self.path
            except OSError as error:
                logger.info("%s cannot be written: %s", self.path, error)
        folder = CacheFolder(self.folder)
        try:
            name = self._cached_name()
            with folder.writing(name) as file:
                file.write(text)
        except (OSError, AssetError) as error:
            logger.warning(
                "%s cannot be saved, so every start searches for them again: %s", self.what, error
            )
            return None
        return folder.path / name

    @property
    def _is_own(self) -> bool:
        """Return whether the folder is the user's; those of the hub and the package are not."""
        return self.assets.origin in ("local", "custom")

    def _read_beside(self) -> T | None:
        if not self._is_own or not os.path.lexists(self.path):
            return None
        try:
            return self._parsed(read_json(self.path))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{self.path}: {error}; {self.remedy}") from error

    def _read_cached(self) -> T | None:
        """Return what is in the cache folder; without a usable file there, ``None``."""
        folder = CacheFolder(self.folder)
        path = folder.path
        try:
            if not folder.names():
                return None
            path /= self._cached_name()
            with folder.reading(path.name) as file:
                return self._parsed(parse_json(file.read(LONGEST_JSON).decode("utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            logger.warning(
                "%s is not used, and %s are searched for again where they are needed; delete it "
                "if this goes on (%s)",
                path,
                self.what,
                error,
            )
            return None

    def _parsed(self, value: Any) -> T:
        if not isinstance(value, dict) or value.get("version") != _VERSION:
            raise ConfigError(f"it must be a JSON object with version {_VERSION} and {self.folder}")
        return self.parse(value)

    def _cached_name(self) -> str:
        about = [fingerprint(TensorFile(path)) for path in (self.assets.gpt, self.assets.embed)]
        return f"{hashlib.sha256(' '.join(about).encode()).hexdigest()}.json"


# -- attention heads -------------------------------------------------------------------------------


def stored_heads(assets: AssetFolder, config: Config) -> LazyValue[AlignmentHeads]:
    """Return the stored heads of a checkpoint, or none, and the place of later ones.

    Nothing is read for a checkpoint whose configuration names heads.

    Raises:
        ConfigError: the file beside the checkpoint is damaged, or names heads that the model lacks.
    """
    file = _File(
        assets,
        assets.alignment_heads,
        "heads",
        "the attention heads",
        "delete the file, and run `chattts align` to write a new one",
        lambda content: _parsed_heads(content, config.gpt),
    )
    known = None if config.defaults.alignment_heads else file.read()
    return LazyValue(known, lambda choice: file.write(_heads_content(choice)))


def _heads_content(choice: HeadChoice) -> dict[str, Any]:
    """Return what the file of a choice has; its scores are for readers."""
    return {
        "version": _VERSION,
        "heads": [list(pair) for pair in choice.heads],
        "score": _rounded(choice.joint),
        "scores": [
            {"layer": each.layer, "head": each.head, **_rounded(each.score)} for each in choice.best
        ],
    }


def _rounded(score: Score) -> dict[str, float]:
    names = ("total", "monotone", "coverage", "sharpness")
    return {name: round(getattr(score, name), 4) for name in names}


def _parsed_heads(content: Mapping[str, Any], gpt: GPTConfig) -> AlignmentHeads:
    heads = content.get("heads")
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


# -- lengths of speech -----------------------------------------------------------------------------


def stored_lengths(assets: AssetFolder) -> LazyValue[SpeechLengths]:
    """Return the stored lengths of a checkpoint, or none, and the place of later ones.

    The bundled voice has them among its files.

    Raises:
        ConfigError: the file beside the checkpoint is damaged.
    """
    if assets.origin == "bundled" and assets.speech_lengths.is_file():
        return LazyValue(_parsed_lengths(read_json(assets.speech_lengths)))
    file = _File(
        assets,
        assets.speech_lengths,
        "lengths",
        "the lengths of speech",
        "delete the file, and the next call with a duration learns a new one",
        _parsed_lengths,
    )
    return LazyValue(file.read(), lambda lengths: file.write(lengths_content(lengths)))


def lengths_content(lengths: SpeechLengths) -> dict[str, Any]:
    """Return what the file of lengths has."""
    return {"version": _VERSION, **asdict(lengths)}


def _parsed_lengths(content: Mapping[str, Any]) -> SpeechLengths:
    seconds = {name: _number(name, content.get(name), 0.0, _LONGEST) for name in _LENGTHS}
    paces = content.get("paces")
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
