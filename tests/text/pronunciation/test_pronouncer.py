"""A text of two languages: each run goes to its own reader."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ChatTTS.text.pronunciation import Pronounced, Pronouncer, from_pinyin, joined


def shouted(text: str) -> list[Pronounced]:
    """Stand in for English: words in upper case."""
    return [
        Pronounced(match.start(), match.end(), match[0].upper())
        for match in re.finditer(r"[^\W_]+(?:'\w+)?|[^\w\s]|_", text)
    ]


PRONOUNCER = Pronouncer(shouted)


def line(text: str) -> str:
    return joined(PRONOUNCER(text))


@pytest.mark.parametrize(
    ("text", "phonemes"),
    [
        ("你好", "ni↗xau↓"),
        ("it's fine.", "IT'S FINE."),
        ("我爱 New York！", "wo↓ ai↘ NEW YORK!"),
        ("Hello, world，你好", "HELLO, WORLD, ni↗xau↓"),
        ("“你好”，hi “a”", "“ni↗xau↓”, HI “A”"),
        ("买T恤", "mai↓ T ɕy↘"),
        ("", ""),
        ("……", "…"),
    ],
)
def test_each_script_is_read_by_its_language(text: str, phonemes: str) -> None:
    assert line(text) == phonemes


def test_letter_a_beside_characters_is_its_name() -> None:
    assert line("买A股") == "mai↓ ˈA ku↓"
    assert line("a 你") == "A ni↓"


def test_tags_are_pieces() -> None:
    assert line("好[uv_break]的 ok[laugh]") == "xau↓ [uv_break] tɤ OK [laugh]"
    assert PRONOUNCER("好[laugh]")[1] == Pronounced(1, 8, "[laugh]")


def test_given_pronunciations_take_the_place_of_their_characters() -> None:
    text = "我叫单雄信。"
    said = [Pronounced(2, 5, from_pinyin("shan4 xiong2 xin4"))]
    assert joined(PRONOUNCER(text, said)) == "wo↓ ʨjau↘ ʂa↘nɕjʊ↗ŋɕi↘n."


def test_given_pronunciation_may_be_of_a_tag() -> None:
    assert PRONOUNCER("[laugh]", [Pronounced(1, 6, "x")])[1] == Pronounced(1, 6, "x")


@pytest.mark.parametrize("places", [[(0, 2), (1, 3)], [(2, 4)], [(2, 1)]])
def test_given_pronunciations_must_fit_the_text(places: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="overlaps another piece"):
        PRONOUNCER("你好吗", [Pronounced(start, end, "x") for start, end in places])


@given(st.text(st.characters(codec="utf-8") | st.sampled_from("你好ab [laugh],。A")))
def test_any_text_is_read_and_nothing_is_lost(text: str) -> None:
    pieces = PRONOUNCER(text)
    covered = "".join(text[piece.start : piece.end] for piece in pieces)
    assert "".join(covered.split()) == "".join(text.split())
