"""Words made of known words: endings and beginnings.

Each rule says what is cut off, how the rest may be spelled as a word of its own, and how the
phonemes of that word go on. They were counted in the dictionary: an ending or beginning that the
letters alone say as well is not here, nor are compounds: letters say more of them right than a rule
that takes "acetic" for "ace" and "tic".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .dictionary import Entry
from .stress import with_ending

Find = Callable[[str], "Entry | None"]
_Join = Callable[[str], str]
_SHORTEST_STEM = 2
_LONGEST = 40  # letters; no longer word is taken apart
_DOUBLED = frozenset("bcdgklmnprstvxz")
_VOICELESS = frozenset("ptkfθ")
_SIBILANTS = frozenset("szʃʒʧʤ")


def plural(stem: str) -> str:
    """Return ``stem`` with -s, as of plurals, possessives and verbs."""
    if stem[-1:] in _SIBILANTS:
        return stem + "ᵻz"
    return stem + ("s" if stem[-1:] in _VOICELESS else "z")


def past(stem: str) -> str:
    """Return ``stem`` with -ed."""
    if stem[-1:] in ("t", "d"):
        return with_ending(stem, "ᵻd")
    return stem + ("t" if stem[-1:] in _VOICELESS or stem[-1:] in ("s", "ʃ", "ʧ") else "d")


def _vowel_ending(ending: str) -> _Join:
    def join(stem: str) -> str:
        # "handle" has a syllable more than its stem in "handler".
        if stem.endswith("ᵊl") and stem[-3:-2] in _BEFORE_LOST_SCHWA:
            stem = stem[:-2] + "l"
        return with_ending(stem, ending)

    return join


_BEFORE_LOST_SCHWA = frozenset("bdfɡkpstTzʃʧʤ")


def _plain_ending(ending: str) -> _Join:
    return lambda stem: stem + ending


def _adverb(stem: str) -> str:
    if stem.endswith("ᵊl"):  # "possible", "typical"
        return stem[:-2] + "li"
    if stem.endswith("l"):
        return stem + "i"
    return stem[:-1] + "əli" if stem.endswith("i") else stem + "li"


@dataclass(frozen=True)
class _Ending:
    letters: str
    join: _Join
    from_verb: bool = False  # "used" is of the verb "use"


def _endings(join: _Join, *letters: str, verb: bool = False) -> list[_Ending]:
    return [_Ending(each, join, verb) for each in letters]


# Inflections come first, then what makes new words; longer endings before those they end in.
_ENDINGS = (
    *_endings(_vowel_ending("ɪŋ"), "ing", verb=True),
    *_endings(_vowel_ending("ɪn"), "in'", verb=True),
    *_endings(past, "ed", verb=True),
    *_endings(plural, "s", "es"),
    *_endings(_plain_ending("nəs"), "ness"),
    *_endings(_plain_ending("ləs"), "less"),
    *_endings(_plain_ending("mənt"), "ment", verb=True),
    *_endings(_plain_ending("ʃˌɪp"), "ship"),
    *_endings(_plain_ending("hˌʊd"), "hood"),
    *_endings(_plain_ending("dəm"), "dom"),
    *_endings(_plain_ending("wəɹd"), "ward"),
    *_endings(_plain_ending("wəɹdz"), "wards"),
    *_endings(_plain_ending("mən"), "man"),
    *_endings(_adverb, "ly"),
    *_endings(_vowel_ending("əbᵊl"), "able", verb=True),
    *_endings(_vowel_ending("ɪʃ"), "ish"),
    *_endings(_vowel_ending("ᵻst"), "est"),
    *_endings(_vowel_ending("əɹ"), "er", verb=True),
    *_endings(_vowel_ending("i"), "y"),
)
_BEGINNINGS = (
    ("counter", "kˌWntəɹ"),
    ("thermo", "θˌɜɹmO"),
    ("under", "ˌʌndəɹ"),
    ("super", "sˌupəɹ"),
    ("inter", "ˌɪntəɹ"),
    ("micro", "mˌIkɹO"),
    ("multi", "mˌʌlti"),
    ("ultra", "ˌʌltɹə"),
    ("cyber", "sˌIbəɹ"),
    ("over", "ˌOvəɹ"),
    ("auto", "ˌɔTO"),
    ("nano", "nˌænO"),
    ("post", "pˌOst"),
    ("out", "Wt"),
    ("mis", "mɪs"),
    ("bio", "bˌIO"),
    ("neo", "nˌiO"),
    ("geo", "ʤˌiO"),
    ("un", "ʌn"),
    ("re", "ɹˌi"),
    ("de", "dˌi"),
)
_SHORTEST_BASE = 4  # letters behind a beginning
_CUT_BEFORE_OTHERS = ("s", "es", "ly", "ness")  # "thoughtlessness"


def derived(word: str, find: Find) -> Entry | None:
    """Return the phonemes of ``word``, in lower case, from those of known words.

    Args:
        word: one that is not known as a whole.
        find: returns the entry of a known word.
    """
    if len(word) > _LONGEST:
        return None
    return _by_ending(word, find, 2) or _by_beginning(word, find)


def inflected(word: str, find: Find) -> Entry | None:
    """Return the phonemes of a known word with one ending, such as "-ed" of "red-eyed"."""
    return _by_ending(word, find, 1)


def _by_ending(word: str, find: Find, depth: int) -> Entry | None:
    """Cut off an ending, or ``depth`` of them."""
    for ending in _ENDINGS:
        if word.endswith(ending.letters):
            rest = word[: -len(ending.letters)]
            for stem in _stems(rest, ending.letters):
                entry = find(stem)
                if entry is None and depth > 1 and ending.letters in _CUT_BEFORE_OTHERS:
                    entry = _by_ending(stem, find, depth - 1) or _by_beginning(stem, find)
                if entry is not None and entry.phonemes:
                    verb = entry.others.get("verb") if ending.from_verb else None
                    return Entry(ending.join(verb or entry.phonemes))
    return None


def _stems(rest: str, ending: str) -> Iterator[str]:
    """Yield the words that ``rest`` may be of, such as "make" for "mak" before "ing"."""
    if len(rest) < _SHORTEST_STEM:
        return
    before_vowel = ending[0] in "aeiouy"
    if ending == "es":
        if rest.endswith("i") and len(rest) > _SHORTEST_STEM:
            yield rest[:-1] + "y"
        elif rest.endswith(("s", "x", "z", "ch", "sh", "o")):
            yield rest
        return
    if ending == "s" and rest.endswith(("s", "i", "u")):
        return  # "glass", "basis" and "virus" are no plurals
    if before_vowel and len(rest) > 3 and rest[-1] == rest[-2] and rest[-1] in _DOUBLED:
        yield rest  # "tell" before "tel"
        yield rest[:-1]
        return
    if before_vowel and ending != "y" and rest.endswith("i"):
        yield rest[:-1] + "y"
    if not before_vowel and ending != "s" and rest.endswith("i"):
        yield rest[:-1] + "y"
    if before_vowel and _has_short_syllable(rest):
        yield rest + "e"
        yield rest
    else:
        yield rest
        if before_vowel:
            yield rest + "e"
    if before_vowel and rest.endswith("ck"):
        yield rest[:-1]  # "panicking"
    if ending == "ly" and rest.endswith("b"):
        yield rest + "le"
    if ending == "ly" and rest.endswith("al"):
        yield rest[:-2]  # "basically"


def _has_short_syllable(rest: str) -> bool:
    """Tell whether ``rest`` ends like "hop" in "hoping": the word had an e, or a double letter."""
    vowels = "aeiou"
    return rest[-1] not in vowels + "wxy" and rest[-2] in vowels and rest[-3:-2] not in vowels


def _by_beginning(word: str, find: Find) -> Entry | None:
    for letters, phonemes in _BEGINNINGS:
        rest = word[len(letters) :]
        if word.startswith(letters) and len(rest) >= _SHORTEST_BASE:
            entry = find(rest) or _by_ending(rest, find, 1)
            if entry is not None and "ˈ" in entry.phonemes:
                if phonemes.endswith("n") and entry.phonemes[0] in "kɡ":
                    phonemes = phonemes[:-1] + "ŋ"
                return Entry(phonemes + entry.phonemes)
    return None
