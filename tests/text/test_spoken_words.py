"""Which of the caller's words each spoken word belongs to."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ChatTTS.text import Normalizer, prepare
from ChatTTS.text.alignment import text_columns
from ChatTTS.text.spoken_words import (
    assign_words,
    caller_words,
    match_words,
    spoken_spans,
)

NORMALIZER = Normalizer(characters="'?", language="en")


def told(text: str, spoken: str) -> list[str]:
    """The caller's word of each spoken word."""
    words = caller_words(text)
    units = [spoken[start:end].casefold() for start, end in spoken_spans(spoken)]
    units = [unit.replace("'", "") for unit in units]
    return [words[i].text if i >= 0 else "" for i in match_words(words, units, NORMALIZER)]


def test_words_are_those_of_the_caller() -> None:
    text = "It's $5, (really) well-known [laugh] - 你好 “x”!"
    found = caller_words(text)
    assert [word.text for word in found] == ["It's", "$5", "really", "well-known", "你", "好", "x"]
    assert [text[word.start : word.end] for word in found] == [word.text for word in found]


@pytest.mark.parametrize(
    ("text", "spoken", "wanted"),
    [
        ("It costs $5 now.", "it costs five dollars now.", "It costs $5 $5 now"),
        ("A well-known dog", "a well known dog", "A well-known well-known dog"),
        ("25 % of it", "twenty five percent of it", "25 25 % of it"),
        ("one two three", "one um two [laugh] three", "one  two three"),
        ("one two three four", "two three four", "two three four"),
        ("one two three", "one nothing equal", "one two three"),
        ("", "more words", " "),
    ],
)
def test_spoken_words_find_theirs(text: str, spoken: str, wanted: str) -> None:
    assert told(text, spoken) == wanted.split(" ")


def test_each_utterance_gets_its_words_once() -> None:
    text = (
        "Dr. Smith owes us $5 and 30 cents today. It is 10:30 now, we go home. The end of it all."
    )
    words = caller_words(text)
    pieces = prepare(text, NORMALIZER, lang="en", max_characters=50)
    assert len(pieces) > 2
    assigned = assign_words(words, pieces, NORMALIZER)
    assert [word for own in assigned for word in own] == list(words)
    assert [assigned[0][0].text, assigned[-1][0].text] == ["Dr", "The"]


def test_a_long_text_without_likeness_is_quick() -> None:
    """The search ahead is bounded."""
    words = caller_words("some words " * 2000)
    owners: Sequence[int] = match_words(words, ["other"] * 3000, str)
    known = [owner for owner in owners if owner >= 0]
    assert known == sorted(known)


def test_columns_are_the_words_of_the_tokens() -> None:
    words = caller_words("It's $5.")
    spoken = "it's five dollars."
    offsets = [(0, 2), (2, 4), (5, 9), (10, 14), (14, 17), (17, 18)]
    columns = text_columns(spoken, offsets, words, NORMALIZER)
    assert columns.owners.tolist() == [0, 0, 1, 1, 1, -1, -1]
