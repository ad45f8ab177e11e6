"""Names of control tags for readers, such as "laughter" for ``[laugh]``."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from .tags import BREAK_SECONDS, LAUGH, TAG

TagKind = Literal["pause", "sound", "setting"]
"""A pause, a sound between words, or a setting: how the speech is, such as its pace."""
_KINDS: tuple[TagKind, ...] = ("pause", "sound", "setting")

# Prompts are built of these, and tokenizers of BERT's kind have them; in a text they mean nothing.
_STRUCTURE = re.compile(r"\[(?:[A-Z]\w*|spk_emb|empty_spk|unused\d+)\]")
_STEP = re.compile(r"\[(\w+?)_(\d+)\]")
_NAMES = {
    "[uv_break]": "short pause",
    "[v_break]": "short pause",
    "[lbreak]": "long pause",
    "[llbreak]": "longer pause",
    LAUGH: "laughter",
    "[music]": "music",
    "[pure]": "clean speech",
    "[undefine]": "other sound",
}
_SCALES = {"speed": "pace", "oral": "casual", "laugh": "laughter", "break": "pauses"}
# They label the recordings that a model learned from.
_LABELS = frozenset({"[music]", "[pure]", "[undefine]"})


@dataclass(frozen=True)
class NamedTag:
    """A control tag that a text may have.

    Attributes:
        tag: as it is written, with its brackets.
        name: in English, in lower case.
        kind: what it is to a reader.
    """

    tag: str
    name: str
    kind: TagKind


def named_tags(control_tokens: Collection[str]) -> list[NamedTag]:
    """Return the tags that a text may have, with their names: pauses, sounds, settings.

    A tag that this package does not know has the words of the tag as its name, because other
    checkpoints have tags of their own.

    Args:
        control_tokens: those of the checkpoint, as ``Tokenizer.control_tokens`` lists them.
    """
    tags = {tag for tag in control_tokens if TAG.fullmatch(tag) and not _STRUCTURE.fullmatch(tag)}
    steps = {tag: (found[1], int(found[2])) for tag in tags if (found := _STEP.fullmatch(tag))}
    highest: dict[str, int] = {}
    for scale, step in steps.values():
        highest[scale] = max(step, highest.get(scale, step))

    def named(tag: str) -> NamedTag:
        if tag not in steps:
            return NamedTag(tag, _NAMES.get(tag) or _words(tag[1:-1]), _kind(tag))
        scale, step = steps[tag]
        name = _SCALES.get(scale) or _words(scale)
        return NamedTag(tag, f"{name} {step} of {highest[scale]}", "setting")

    def sort_key(tag: NamedTag) -> tuple[int, float, str, int]:
        seconds = BREAK_SECONDS.get(tag.tag, 0.0)
        return _KINDS.index(tag.kind), seconds, *steps.get(tag.tag, (tag.tag, -1))

    return sorted(map(named, tags), key=sort_key)


def _kind(tag: str) -> TagKind:
    """Return the kind of a tag that is no step of a scale."""
    if tag in BREAK_SECONDS:
        return "pause"
    return "setting" if tag in _LABELS else "sound"


def _words(name: str) -> str:
    return name.replace("_", " ").strip() or name
