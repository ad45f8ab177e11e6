"""The languages that texts are read in: an entry each, from which every interface lists them.

A new language is an entry here and a reader in ``text.normalizer``. A language that a program
registers with ``Normalizer.register`` needs no entry: its name is its code.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Language:
    """A language.

    Attributes:
        code: its name in requests, of ISO 639-1.
        name: for readers, in English.
        spellings: further names of it that scripts use, in lower case.
        letter: that every voice of the language knows.
        locale: its code with a region, as Riva lists it.
        family: the beginning of Riva's names of its voices.
        kokoro: its codes in Kokoro-FastAPI, the first letters of names of voices there.
    """

    code: str
    name: str
    spellings: tuple[str, ...]
    letter: str
    locale: str
    family: str
    kokoro: str


LANGUAGES = {
    each.code: each
    for each in (
        Language("en", "English", ("eng", "english"), "a", "en-US", "English-US", "ab"),
        Language("zh", "Chinese", ("zho", "cn", "chinese"), "的", "zh-CN", "Mandarin-CN", "z"),
    )
}
"""The built-in languages by their codes."""


def known_languages(registered: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the codes of the built-in languages and of the registered ones, each once."""
    return tuple(dict.fromkeys((*LANGUAGES, *registered)))


_SPELLINGS = {
    name: each.code for each in LANGUAGES.values() for name in (each.code, *each.spellings)
}
_NO_NAMES = ("auto", "none", "")


def spelled_language(name: object) -> str | None:
    """Return the built-in language that a script means by ``lang``, in any usual spelling.

    ``None`` is for no name, and for one that is not known.
    """
    return _SPELLINGS.get(re.split("[-_]", _plain(name))[0])


def is_no_language(name: object) -> bool:
    """Return whether ``lang`` leaves the language to the text."""
    return _plain(name) in _NO_NAMES


def _plain(name: object) -> str:
    return str(name or "auto").strip().casefold()


def find_language(name: str | None, known: Collection[str]) -> str | None:
    """Return the code that a name such as ``en_US`` or ``zh-Hans`` means; ``None`` for none."""
    if name is None:
        return None
    spelled = {code.lower().replace("_", "-"): code for code in known}
    whole = name.lower().replace("_", "-")
    return spelled.get(whole) or spelled.get(whole.partition("-")[0])


def language_name(code: str) -> str:
    """Return the English name of a language; its code for one without an entry."""
    return LANGUAGES[code].name if code in LANGUAGES else code


def locale_of(code: str) -> str:
    """Return the locale of a language; its code for one without an entry."""
    return LANGUAGES[code].locale if code in LANGUAGES else code


def language_choice(codes: Collection[str]) -> str:
    """Return the codes for a message: ``en or zh``."""
    return " or ".join(filter(None, (", ".join([*codes][:-1]), *[*codes][-1:])))
