"""The packed dictionary."""

from __future__ import annotations

import random

import pytest

from ChatTTS.text.pronunciation.english.dictionary import Dictionary, Entry, load_dictionary
from ChatTTS.text.pronunciation.english.stress import SOUNDS


def test_every_word_is_found_and_no_other() -> None:
    draws = random.Random(0)
    words = {"".join(draws.choices("ab'-AB", k=draws.randint(1, 5))) for _ in range(400)}
    entries = {word: Entry("æ" * (1 + i % 7)) for i, word in enumerate(sorted(words))}
    dictionary = Dictionary.of(entries)
    assert {word: dictionary.get(word) for word in words} == entries
    others = {word + letter for word in words for letter in "a-Z"} - words
    assert all(dictionary.get(word) is None for word in others)


@pytest.mark.parametrize("word", ["", " ", "a b", "a\nb", "ä", "\n", "a "])
def test_what_is_no_word_is_not_found(word: str) -> None:
    assert Dictionary.of({"a": Entry("ˈA"), "b": Entry("bˈi")}).get(word) is None


def test_an_empty_dictionary_has_no_word() -> None:
    assert Dictionary.of({}).get("a") is None


def test_readings_of_parts_of_speech_are_kept() -> None:
    entry = Entry("lˈId", {"noun": "lˈɛd", "verb": "", "past": "lˈAd"})
    assert Dictionary.of({"lead": entry, "leads": Entry("lˈidz")}).get("lead") == entry


def test_the_package_has_words_and_their_readings() -> None:
    dictionary = load_dictionary()
    assert dictionary.get("water") == Entry("wˈɔTəɹ")
    assert dictionary.get("NASA") == Entry("nˈæsə")
    assert dictionary.get("Polish") == Entry("pˈOlɪʃ")
    record = dictionary.get("record")
    assert record is not None
    assert record.others == {"verb": "ɹəkˈɔɹd"}
    assert set(record.phonemes) - {"ˈ", "ˌ"} <= SOUNDS
