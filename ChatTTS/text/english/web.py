"""Read web addresses, mail addresses and names of files in English."""

from __future__ import annotations

import re

from ..number_words import english_digits

_ENDINGS = (
    "com|org|net|edu|gov|io|ai|dev|app|co|uk|de|fr|eu|cn|jp|me|tv|info|ca|au|nl|ru|us|xyz|"
    "md|txt|pdf|html?|css|jsx?|tsx?|py|json|ya?ml|toml|csv|xml|png|jpe?g|gif|svg|zip|gz|tar|mp3|"
    "mp4|wav|exe|docx?|xlsx?|pptx?|epub|srt|sh|rs|go|cpp|hpp|java|rb|sql|log|ini|cfg|conf|lock|so|dll|"
    "deb|iso|bin|bat|ipynb|tex|rst|env"
)
_ADDRESS = re.compile(
    r"(?:(?:https?|ftp|file)://|www\.)[^\s<>\[\]\"，。]*[^\s<>\[\]\"，。.,;:!?)'*_]"
    r"|(?<![\w.+-])[\w.+&-]+@[\w-]+(?:\.[A-Za-z][\w-]*)+(?:/[\w./-]*\w)?"
    rf"|(?<![\w.@-])[A-Za-z][\w-]*(?:\.[\w-]+)*\.(?:{_ENDINGS})\b(?!\()(?::\d+)?(?:/[\w./-]*\w)?"
    # A text of one word with a dot in it.
    r"|\A[A-Za-z]\w*\.[a-z]\w+\Z"
)
_SIGNS = {".": "dot", "/": "slash", "-": "dash", "_": "underscore", ":": "colon", "&": "and"}


def read_addresses(text: str) -> str:
    """Return ``text`` with addresses as they are spoken, without scheme and query."""
    return _ADDRESS.sub(_say, text)


def _say(match: re.Match[str]) -> str:
    said = re.sub(r"^(?:\w+:/+)?(?:www\.)?", "", re.split(r"[?#]", match[0])[0]).rstrip("/")
    said = re.sub(r"\d+", lambda digits: f" {english_digits(digits[0])} ", said)
    for sign, word in _SIGNS.items():
        said = said.replace(sign, f" {word} ")
    return said
