"""Clean up punctuation: one mark where several meet, and an end for each sentence."""

from __future__ import annotations

import re

from .tags import TAG

_STRONGEST_FIRST = "?？!！.。;；:：,，、"
_CLOSING = "?？!！.。"
_MARKS = re.compile(rf"\s?([{_STRONGEST_FIRST}](?:\s?[{_STRONGEST_FIRST}])*)(\s?)")
_TAG_AT_END = re.compile(rf"\s?{TAG.pattern}\s?$")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_FULL_WIDTH = {".": "。", ",": "，"}


def tidy(text: str) -> str:
    """Return ``text`` with single spaces, none before a mark, and one mark where several meet.

    The strongest of several marks stays. A mark at the beginning is dropped.
    """
    return _MARKS.sub(_one_mark, " ".join(text.split())).strip()


def join_lines(lines: list[str]) -> str:
    """Join lines to one, with a comma for a line end without a mark."""
    marked: list[str] = []
    for line in lines[:-1]:
        spoken, tags = _without_end_tags(line)
        marked.append(_marked(spoken, ",", _STRONGEST_FIRST) + tags)
    return tidy(" ".join([*marked, *lines[-1:]]))


def end_sentence(text: str) -> str:
    """Return ``text`` with a full stop at its end, unless a stop, ``?`` or ``!`` is there.

    It replaces a comma at the end. Tags after the end stay there.
    """
    spoken, tags = _without_end_tags(text)
    return _marked(spoken.rstrip(",，、;；:： "), ".", _CLOSING) + tags


def _without_end_tags(text: str) -> tuple[str, str]:
    """Split ``text`` into the part before the tags at its end, and these tags."""
    spoken, tags = text, ""
    while match := _TAG_AT_END.search(spoken):
        spoken, tags = spoken[: match.start()], match[0] + tags
    return spoken, tags


def _marked(text: str, mark: str, enough: str) -> str:
    if not text or text[-1] in enough:
        return text
    return text + (_FULL_WIDTH[mark] if _HAN.match(text[-1]) else mark)


def _one_mark(match: re.Match[str]) -> str:
    if match.start() == 0:
        return ""
    mark: str = min(set(match[1]) - {" "}, key=_STRONGEST_FIRST.index)
    following = match.string[match.end() : match.end() + 1]
    if mark.isascii() or following == "[":  # a tag's side of the space shows its sentence
        return mark + (" " if match[2] or following.isalnum() else "")
    return mark
