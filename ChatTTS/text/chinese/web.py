"""Web addresses, mail addresses and names of files in Chinese."""

from __future__ import annotations

import re

from ..number_words import chinese_digits
from ..spans import span
from .numbers import numbers_said

_ADDRESS = re.compile(
    r"(?:https?://|www\.)[\w%&=/.?#:~+-]*[\w/]|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[A-Za-z][\w-]*)+"
    r"|(?<![\w.@-])[A-Za-z][\w-]*(?:\.[A-Za-z][\w-]*)*\.[a-z][a-z0-9]{1,5}(?!\w|\.\w)",
    re.ASCII,
)
_SIGNS = (("@", "艾特"), (".", "点"), ("/", "斜杠"), ("-", "杠"), ("_", "下划线"))


def _say(match: re.Match[str]) -> str:
    """Return an address as it is spoken, without scheme and query."""
    said = re.sub(r"^(?:https?://)?(?:www\.)?", "", re.split(r"[?#]", match[0])[0]).rstrip("/")
    said = re.sub(r":(?=\d)", "端口", said)
    said = numbers_said(said, chinese_digits)
    for sign, word in _SIGNS:
        said = said.replace(sign, word)
    return said


ADDRESSES = (span("addresses", _ADDRESS, _say),)
