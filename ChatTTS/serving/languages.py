"""The languages that are spoken, by the codes of clients."""

from __future__ import annotations

LANGUAGES = ("en", "zh")


def base_language(code: str) -> str:
    """Return the language of a code such as ``en-US`` or ``zh_cn``, in lower case."""
    return code.replace("_", "-").partition("-")[0].lower()


def known_language(code: str | None) -> str | None:
    """Return the language of a code; ``None``, for others too, detects it from the text."""
    base = base_language(code or "")
    return base if base in LANGUAGES else None
