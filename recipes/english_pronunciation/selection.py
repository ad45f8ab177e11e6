"""The entries that the package needs: those of misaki that no rule yields, and our own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ChatTTS.text.pronunciation.english.affixes import derived
from ChatTTS.text.pronunciation.english.dictionary import Entry

from .entries import Entries, Readings

_ADDITIONS = Path(__file__).with_name("additions.tsv")
_PARTS = {
    "NOUN": "noun",
    "VERB": "verb",
    "ADJ": "adjective",
    "ADV": "adverb",
    "VBD": "past",
    "VBN": "past",
    "VBP": "past",
    "None": "end",
    "DT": "that",
}


def entry_of(readings: Readings) -> Entry:
    """Return misaki's readings of a word as an entry."""
    default = readings["DEFAULT"]
    others = {_PARTS[key]: said for key, said in readings.items() if key != "DEFAULT"}
    return Entry(default, {part: said for part, said in others.items() if said != default})


def read_additions() -> dict[str, Entry]:
    """Read the words of our own: a word, its phonemes, and those of parts of speech."""
    found = {}
    for line in _ADDITIONS.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            word, phonemes, *others = line.split("\t")
            found[word] = Entry(phonemes, dict(other.split("=") for other in others))
    return found


def select(entries: Entries, additions: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return gold entries, additions, and silver entries that the rules do not yield.

    Short words are decided first: rules make a word of shorter ones, or of one as long that comes
    before it in the alphabet ("shady" of "shade"), so no later decision changes what they say.
    """
    kept = {word: entry_of(readings) for word, readings in entries.gold.items()} | dict(additions)
    silver = {word: entry_of(readings) for word, readings in entries.silver.items()}

    def known(word: str) -> Entry | None:
        return kept.get(word) or kept.get(word.capitalize())

    def is_yielded(word: str) -> bool:
        entry = known(word) or derived(word, known)
        return entry is not None and entry.phonemes == silver[word].phonemes

    in_order = sorted((word for word in silver if word not in kept), key=lambda w: (len(w), w))
    kept |= {word: silver[word] for word in in_order}
    for word in in_order:
        entry = kept.pop(word)
        if not is_yielded(word):
            kept[word] = entry
    return kept
