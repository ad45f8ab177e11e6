"""Words and their phonemes, as misaki's dictionaries have them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

Readings = Mapping[str, str]  # phonemes by a part of speech, or by DEFAULT

# Kokoro learned the flap of "water" as T, and a glottal stop as t: misaki writes both so before
# they reach the model.
_AS_TRAINED = str.maketrans({"ɾ": "T", "ʔ": "t"})
_HELD_OUT = 20  # one word of so many


@dataclass(frozen=True)
class Entries:
    """The two American dictionaries of misaki.

    Attributes:
        gold: checked entries. Case counts in their words.
        silver: entries that were derived from other dictionaries, in lower case.
    """

    gold: Mapping[str, Readings]
    silver: Mapping[str, Readings]

    def defaults(self) -> dict[str, str]:
        """Phonemes of every word in lower case, those of gold before those of silver."""
        found: dict[str, str] = {}
        for entries in (self.silver, self.gold):
            for word, readings in sorted(entries.items()):  # capitals sort before lower case
                if readings.get("DEFAULT") and not word[1:].isupper():
                    found[word.lower()] = readings["DEFAULT"]
        return found


def read_entries(folder: Path) -> Entries:
    """Read ``us_gold.json`` and ``us_silver.json`` of misaki's folder ``data``."""
    gold, silver = (_read(folder / f"us_{name}.json") for name in ("gold", "silver"))
    return Entries(gold, silver)


def is_held_out(word: str) -> bool:
    """Tell whether ``word`` is kept from training: one of twenty, by its hash."""
    return zlib.crc32(word.lower().encode()) % _HELD_OUT == 0


def _read(path: Path) -> dict[str, Readings]:
    def readings(value: str | dict[str, str | None]) -> Readings:
        parts = {"DEFAULT": value} if isinstance(value, str) else value
        # A missing reading says that the word is spelled out.
        return {key: (text or "").translate(_AS_TRAINED) for key, text in parts.items()}

    return {word: readings(value) for word, value in json.loads(path.read_text("utf-8")).items()}
