"""Roman numerals, and the many acronyms that begin with the letters of numerals."""

from __future__ import annotations

from itertools import product

import pytest

from ChatTTS.text.chinese import read_chinese
from ChatTTS.text.roman import ROMAN
from ChatTTS.text.spans import read_spans

ACRONYMS = [*map("".join, product("IVXLCDM", "IVXLCDM", ("", "A", "P", "SO", "IL", "5")))]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Henry VIII and King George V", "Henry the eighth and King George the fifth"),
        ("World War II, Chapter IX", "World War two, Chapter nine"),
        ("the XIX century", "the nineteenth century"),
        ("Rocky IV", "Rocky four"),
        ("Your ID is here.", "Your ID is here."),
        ("The CIA said no.", "The CIA said no."),
        ("At MIT we work.", "At MIT we work."),
        ("Chicago IL", "Chicago IL"),
        ("Chapter ID and Henry LCD", "Chapter ID and Henry LCD"),
    ],
)
def test_numerals_are_read_and_acronyms_stay(text: str, words: str) -> None:
    assert read_spans(text, ROMAN, " ") == words


@pytest.mark.parametrize(
    "frame", ["Your {} is.", "King {} was", "Chapter {}", "Henry {}'s", "the {} century", "A {}"]
)
def test_no_acronym_stops_a_reading(frame: str) -> None:
    for acronym in ACRONYMS:
        assert read_spans(frame.format(acronym), ROMAN, " ").strip()


def test_in_chinese_no_acronym_stops_a_reading() -> None:
    assert read_chinese("第IV章，路易XIV") == "第四章，路易十四"
    for acronym in ACRONYMS:
        assert read_chinese(f"第{acronym}章").startswith("第")
