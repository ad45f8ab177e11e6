"""A line of a plan: what is spoken, and the hash that names the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .script import Line


@dataclass(frozen=True, eq=False)
class Reference:
    """Utterances by which a voice shows how it is usually heard.

    Attributes:
        texts: normalised, as they go into the model.
    """

    texts: tuple[str, ...]


@dataclass(frozen=True)
class PlannedLine:
    """A line, and how it is spoken.

    Attributes:
        line: of the script.
        key: the hash of everything that decides its speech; ``None`` for silence.
        arguments: for what speaks it, such as those of ``Chat.infer`` without the text.
        tempo: factor of the tempo of its speech.
        texts: the parts that the model speaks in one go, normalised, as far as they are known.
        reference: of its voice; ``None`` where no comparison is wanted.
    """

    line: Line
    key: str | None
    arguments: Mapping[str, Any]
    tempo: float
    texts: tuple[str, ...] = ()
    reference: Reference | None = None
