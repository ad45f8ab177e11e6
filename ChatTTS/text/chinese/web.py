"""Read web addresses, mail addresses and names of files in Chinese."""

from __future__ import annotations

import re

from ..numbers import chinese_digits

_ADDRESS = re.compile(
    r"(?:https?://|www\.)[\w%&=/.?#:~+-]*[\w/]|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[A-Za-z][\w-]*)+"
    r"|(?<![\w.@-])[A-Za-z][\w-]*(?:\.[A-Za-z][\w-]*)*\.[a-z][a-z0-9]{1,5}(?!\w|\.\w)",
    re.ASCII,
)
_SIGNS = ((".", "点"), ("/", "斜杠"), ("-", "杠"), ("_", "下划线"))


def read_addresses(text: str) -> str:
    """Return ``text`` with addresses as they are spoken, without scheme and query."""
    return _ADDRESS.sub(_say, text)


def _say(match: re.Match[str]) -> str:
    said = re.sub(r"^(?:https?://)?(?:www\.)?", "", re.split(r"[?#]", match[0])[0]).rstrip("/")
    said = re.sub(r":(?=\d)", "端口", said)
    said = re.sub(r"\d+", lambda digits: chinese_digits(digits[0]), said)
    for sign, word in _SIGNS:
        said = said.replace(sign, word)
    return said
