"""The share of held-out words that the front end says as the dictionary has them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping

from ChatTTS.text.pronunciation.english.affixes import derived
from ChatTTS.text.pronunciation.english.dictionary import Entry
from ChatTTS.text.pronunciation.english.letter_network import LetterNetwork
from ChatTTS.text.pronunciation.english.stress import unstressed

from .entries import Entries, is_held_out

_COMPARED: Mapping[str, Callable[[str], str]] = {
    "phonemes": unstressed,
    "phonemes and primary stress": lambda said: said.replace("ˌ", ""),
    "phonemes and all stress": lambda said: said,
}


def evaluate(entries: Entries, network: LetterNetwork) -> dict[str, float]:
    """Return shares of held-out words that are wrong, by letters alone and with the rules.

    The rules know every word that is not held out.
    """
    words = entries.defaults()
    known = {word: Entry(said) for word, said in words.items() if not is_held_out(word)}
    held_out = {
        word: said
        for word, said in sorted(words.items())
        if is_held_out(word) and re.fullmatch("[a-z]{2,}", word)
    }
    gold = {word.lower() for word in entries.gold}
    began = time.process_time()
    by_letters = {word: network.phonemes(word) for word in held_out}
    result = {"milliseconds a word": (time.process_time() - began) / len(held_out) * 1e3}
    answers = {
        "letters alone": by_letters,
        "rules and letters": {
            word: entry.phonemes if (entry := derived(word, known.get)) else by_letters[word]
            for word in held_out
        },
    }
    for name, said in answers.items():
        for kind, of_kind in (
            ("all", list(held_out)),
            ("gold", [word for word in held_out if word in gold]),
            ("silver", [word for word in held_out if word not in gold]),
        ):
            result[f"{name}, {kind}: words"] = len(of_kind)
            for what, form in _COMPARED.items():
                wrong = sum(form(said[word]) != form(held_out[word]) for word in of_kind)
                result[f"{name}, {kind}: wrong {what}"] = wrong / max(1, len(of_kind))
    return result
