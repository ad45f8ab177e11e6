"""A line of a plan: what is spoken, and the hash that names the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .script import Line


@dataclass(frozen=True)
class PlannedLine:
    """A line, and how it is spoken.

    Attributes:
        line: of the script.
        key: the hash of everything that decides its speech; ``None`` for silence.
        arguments: for what speaks it, such as those of ``Chat.infer`` without the text.
        tempo: factor of the tempo of its speech.
        utterances: the number of parts that the model speaks in one go, as far as it is known.
    """

    line: Line
    key: str | None
    arguments: Mapping[str, Any]
    tempo: float
    utterances: int = 0
