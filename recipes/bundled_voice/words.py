"""Word lists by kind, with their inflections; words of a dictionary; invented words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ChatTTS.errors import AssetError

from . import words_common as common
from .counter_rng import CounterRng
from .words_heldout import SMALL, UNSEEN


def _split(words: str) -> list[str]:
    return [word.replace("_", " ") for word in words.split()]


DICTIONARIES = (Path("/usr/share/dict/american-english"), Path("/usr/share/dict/words"))

_IRREGULAR_PLURALS = {
    "child": "children", "man": "men", "woman": "women", "foot": "feet", "goose": "geese",
    "mouse": "mice", "knife": "knives", "leaf": "leaves", "shelf": "shelves", "wolf": "wolves",
    "calf": "calves", "half": "halves", "wife": "wives", "fish": "fish", "sheep": "sheep",
    "deer": "deer", "policeman": "policemen", "person": "people", "photograph": "photographs",
    "radio": "radios", "piano": "pianos", "studio": "studios", "zoo": "zoos", "roof": "roofs",
}  # fmt: skip
_DOUBLED = frozenset(_split("stop plan drop hit cut get win shop run sit swim put wrap"))
# Words that the teacher spells out or expands, and that no real sentence needs.
_MISREAD = frozenset(_split("advt avdp sadr tzar xmas yacc mkay dr st ndjamena jr"))
_UNSPEAKABLE = re.compile(r"[^aeiouy]+|[aeiou]?[^aeiouy]{2,}(?:'s)?|.*(.)\1\1.*")


@dataclass(frozen=True)
class Vocabulary:
    """Words by kind, for the slots of the grammar."""

    slots: dict[str, tuple[str, ...]]
    all: tuple[str, ...]  # each once


@lru_cache(maxsize=1)
def everyday() -> Vocabulary:
    """Return the recipe's own words, without those that are held out."""
    slots: dict[str, list[str]] = {}
    for kind in ("thing", "food", "place", "person", "animal", "idea"):
        slots[kind] = _split(getattr(common, kind.upper()))
        slots[f"{kind}s"] = [plural(word) for word in slots[kind]]
    for kind in ("adjective", "adverb", "name", "surname", "city", "small", "frequent"):
        slots[kind] = _split(getattr(common, kind.upper()))
    slots |= {kind: [] for kind in ("base", "past", "participle", "ing", "third")}
    for entry in _split(common.VERB):
        forms = entry.split("/")
        base, past, participle = forms if len(forms) == 3 else (entry, past_of(entry), "")
        slots["base"].append(base)
        slots["past"].append(past)
        slots["participle"].append(participle or past)
        slots["ing"].append(ing_of(base))
        slots["third"].append({"do": "does", "go": "goes"}.get(base, plural(base)))
    kept = {
        kind: tuple(word for word in words if not any(map(is_held_out, word.split())))
        for kind, words in slots.items()
    }
    words = {part for group in kept.values() for word in group for part in word.split()}
    return Vocabulary(kept, tuple(sorted(words)))


def dictionary_file() -> Path | None:
    """Return the path of the system's list of English words, if it has one."""
    return next((path for path in DICTIONARIES if path.is_file()), None)


@lru_cache(maxsize=1)
def dictionary() -> tuple[str, ...]:
    """Return the dictionary's words in lower case, without those that are held out.

    Raises:
        AssetError: the dictionary is not installed.
    """
    path = dictionary_file()
    if path is None:
        raise AssetError(
            f"no word list at {DICTIONARIES[0]}: install it with `apt install wamerican`"
        )
    lines = path.read_text(encoding="utf-8").split()
    spoken = [line.lower() for line in lines if re.fullmatch(r"[A-Za-z][a-z]*(?:'[a-z]+)?", line)]
    # One possessive in six is kept: they make up a quarter of the list.
    kept = {
        word
        for i, word in enumerate(spoken)
        if 3 <= len(word) <= 15 and (i % 6 == 0 or not word.endswith("'s"))
    }
    return tuple(
        word
        for word in sorted(kept)
        if not _UNSPEAKABLE.fullmatch(word) and word not in _MISREAD and not is_held_out(word)
    )


@lru_cache(maxsize=1)
def unseen() -> frozenset[str]:
    """Return the words that training never contains."""
    return frozenset(re.findall(r"[a-z']+", UNSEEN)) - frozenset(SMALL.split())


def is_held_out(word: str) -> bool:
    """Return whether ``word`` is an unseen word, or begins with the stem of one."""
    stems = _stems()
    return word in unseen() or any(word[:n] in stems for n in range(4, len(word) + 1))


@lru_cache(maxsize=1)
def _stems() -> frozenset[str]:
    stems = {re.sub(r"(?:ies|es|ing|ed|e|s|y)$", "", word) for word in unseen()}
    return frozenset(stem for stem in stems if len(stem) >= 4)


_ONSETS = [
    *_split("b c d f g h j k l m n p qu r s t v w y z bl br ch cl cr dr fl fr gl gr pl pr sc sh"),
    *_split("sk sl sm sn sp st str sw th thr tr tw wh"),
    "",
]
_NUCLEI = _split("a e i o u a e i o ai ay ea ee ie oa oi oo ou ow au")
_CODAS = [
    *_split("b ck d f g l ll m n ng nk nt p r rd rk rm rn rt s sh sk ss st t tch th x nd mp lt"),
    *[""] * 12,
]


def invented(rng: CounterRng) -> str:
    """Return a word of one to four syllables that looks English."""
    while True:
        parts = [
            rng.pick(_ONSETS) + rng.pick(_NUCLEI) + rng.pick(_CODAS)
            for _ in range(rng.pick((1, 2, 2, 2, 3, 3, 4)))
        ]
        word = "".join(parts) + rng.pick(("", "", "", "e", "y", "er", "ed", "ing", "ly", "tion"))
        speakable = 3 <= len(word) <= 14 and not re.search(r"(.)\1\1|[aeiouy]{4}", word)
        if speakable and not _UNSPEAKABLE.fullmatch(word) and not is_held_out(word):
            return word


def plural(noun: str) -> str:
    """Return the plural of a noun; equal rules give the third person of a verb."""
    if noun in _IRREGULAR_PLURALS:
        return _IRREGULAR_PLURALS[noun]
    if re.search(r"[^aeiou]y$", noun):
        return noun[:-1] + "ies"
    return noun + ("es" if re.search(r"(?:s|x|z|ch|sh|[^aeiou]o)$", noun) else "s")


def past_of(verb: str) -> str:
    """Return the past of a regular verb."""
    if verb.endswith("e"):
        return verb + "d"
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ied"
    return verb + (verb[-1] if verb in _DOUBLED else "") + "ed"


def ing_of(verb: str) -> str:
    """Return the present participle of a verb."""
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if re.search(r"[^eoy]e$", verb) and verb != "be":
        return verb[:-1] + "ing"
    return verb + (verb[-1] if verb in _DOUBLED else "") + "ing"
