"""Names with dots, such as releases of programs and parts of documents, in Chinese."""

from __future__ import annotations

import re

from ..dotted import DOTTED, is_name, say_name
from ..number_words import chinese_digits, chinese_number
from ..spans import span

_BESIDE_HAN = re.compile(r"(?<=[^\x00-\x7f]) | (?=[^\x00-\x7f])")


def _number(written: str) -> str:
    return chinese_digits(written) if len(written) > 5 else chinese_number(written)


def _say(match: re.Match[str]) -> str | None:
    if not is_name(match[0]):
        return None
    bare = re.sub(r"\Av(?=\d)", "", match[0])
    return _BESIDE_HAN.sub("", say_name(bare, _number, "点", "点", "杠", " "))


VERSIONS = (span("names with dots", DOTTED, _say),)
