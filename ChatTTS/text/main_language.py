"""The language of which a text has most: it chooses the voice where the caller names none."""

from __future__ import annotations

from ..languages import spelled_language
from .characters import language_of
from .markup import strip_markup
from .pauses import blank_marks
from .pronunciation.inline import without_symbols


def main_language(text: str, lang: object = None) -> str | None:
    """Return the language that ``lang`` means, else that of most of a text's words.

    A Chinese character or mark counts as a word; tags do not count. ``None`` is for a text
    without words.
    """
    named = spelled_language(lang)
    return named or language_of(strip_markup(without_symbols(blank_marks(text))))
