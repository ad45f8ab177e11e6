"""Settings of a pass: the control tags of its ``prompt``, such as ``[speed_5]`` or ``[oral_2]``."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection

logger = logging.getLogger(__name__)

_BRACKETS = re.compile(r"\[[^\[\]]*\]")
_LEVEL = re.compile(r"\[(\w+)_(-?)0*(\d+)\]", re.ASCII)


def known_settings(prompt: str, known: Collection[str]) -> str:
    """Return ``prompt`` with only tags that the model knows: others would be read as words.

    A level beyond the known ones becomes the nearest: ``[speed_10]`` is ``[speed_9]``. One warning
    names what was changed.

    Args:
        known: tags with their brackets, as a tokenizer lists its special tokens.
    """
    changed: dict[str, str] = {}

    def replaced(match: re.Match[str]) -> str:
        tag = match[0]
        if tag in known:
            return tag
        changed[tag] = _nearest(tag, known)
        return changed[tag]

    cleaned = _BRACKETS.sub(replaced, prompt)
    if changed:
        told = (f"{tag} -> {new}" if new else f"{tag} left out" for tag, new in changed.items())
        logger.warning("the model does not know these control tags of prompt: %s", ", ".join(told))
    return cleaned


def _nearest(tag: str, known: Collection[str]) -> str:
    """Return the tag with the lowest or highest level, if that of ``tag`` lies beyond; or nothing.

    Levels of known tags have one digit, from 0 on.
    """
    found = _LEVEL.fullmatch(tag)
    if found is None:
        return ""
    name, sign, level = found.groups()
    levels = [digit for digit in "0123456789" if f"[{name}_{digit}]" in known]
    if not levels:
        return ""
    if sign:
        return f"[{name}_{levels[0]}]"
    is_beyond = len(level) > 1 or level > levels[-1]
    return f"[{name}_{levels[-1]}]" if is_beyond else ""
