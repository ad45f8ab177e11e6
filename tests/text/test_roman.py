"""Roman numerals, and the many acronyms that begin with the letters of numerals."""

from __future__ import annotations

from itertools import product

import pytest

from ChatTTS.text.roman import read_chinese_roman, read_roman, with_ending

ACRONYMS = [*map("".join, product("IVXLCDM", "IVXLCDM", ("", "A", "P", "SO", "IL", "5")))]


def read(text: str) -> str:
    return read_roman(text, lambda ordinal: f"<{ordinal}>")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Henry VIII and King George V", "Henry the <8th> and King George the <5th>"),
        ("World War II, Chapter IX", "World War two, Chapter nine"),
        ("the XIX century", "the <19th> century"),
        ("Rocky IV", "Rocky four"),
        ("Your ID is here.", "Your ID is here."),
        ("The CIA said no.", "The CIA said no."),
        ("At MIT we work.", "At MIT we work."),
        ("Chicago IL", "Chicago IL"),
        ("Chapter ID and Henry LCD", "Chapter ID and Henry LCD"),
    ],
)
def test_numerals_are_read_and_acronyms_stay(text: str, words: str) -> None:
    assert read(text) == words


@pytest.mark.parametrize(
    "frame", ["Your {} is.", "King {} was", "Chapter {}", "Henry {}'s", "the {} century", "A {}"]
)
def test_no_acronym_stops_a_reading(frame: str) -> None:
    for acronym in ACRONYMS:
        assert read(frame.format(acronym)).strip()


def test_in_chinese_no_acronym_stops_a_reading() -> None:
    assert read_chinese_roman("第IV章，路易XIV") == "第四章，路易十四"
    for acronym in ACRONYMS:
        assert read_chinese_roman(f"第{acronym}章").startswith("第")


def test_ordinals_end_as_they_are_written() -> None:
    assert [*map(with_ending, (1, 2, 3, 4, 11, 13, 21, 112))] == [
        "1st", "2nd", "3rd", "4th", "11th", "13th", "21st", "112th",
    ]  # fmt: skip
