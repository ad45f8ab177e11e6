"""What is asked of a refine pass that only adds to a text, and which of its answers are used."""

from __future__ import annotations

import pytest

from ChatTTS.pipeline.refine_pass import asks_for_nothing, keeps_words
from ChatTTS.pipeline.utterance import Utterance
from ChatTTS.pipeline.utterances import refined_texts

TEXT = "Well, maths homework was easier when I was your age, and it wasn't fun."


@pytest.mark.parametrize(
    ("prompt", "nothing"),
    [
        ("[oral_0][laugh_0][break_0]", True),
        ("[break_0]", True),
        ("[oral_0][laugh_1][break_0]", False),
        ("[oral_0][laugh_0][break_12]", False),
        ("", False),  # the model decides
        ("[oral_0] and more", False),
    ],
)
def test_a_pass_that_shall_add_nothing(prompt: str, nothing: bool) -> None:
    assert asks_for_nothing(prompt) is nothing


@pytest.mark.parametrize(
    ("refined", "oral", "good"),
    [
        (TEXT, 0, True),
        (TEXT.replace("age,", "age, [uv_break]").replace("fun.", "fun. [laugh]"), 0, True),
        (TEXT.upper(), 0, True),
        (TEXT.replace("homework", "um, homework"), 0, False),
        (TEXT.replace("homework", "um, homework"), 3, True),
        (TEXT.replace("maths", "you know, maths").replace("and", "and, well,"), 3, True),
        (TEXT.replace("homework ", ""), 9, False),
        (TEXT.replace("homework", "housework"), 9, False),
        (TEXT.replace("was easier", "easier was"), 9, False),
        (TEXT.replace("when", "when I was easier when"), 9, False),
        (TEXT.replace("fun", "fun " + "um " * 9), 3, False),
        ("", 0, False),
    ],
)
def test_answers_with_the_words_of_the_text(refined: str, oral: int, good: bool) -> None:
    assert keeps_words(TEXT, refined, f"[oral_{oral}][laugh_0][break_4]") is good


def test_breaks_may_stand_between_characters() -> None:
    assert keeps_words("今天天气很好", "今天天气[uv_break]很好", "[break_4]")
    assert not keeps_words("今天天气很好", "今天[uv_break]很好", "[break_4]")


def test_a_text_that_pauses_divide_stays_whole() -> None:
    parts = [Utterance(0, 0, "one"), Utterance(0, 1, "two"), Utterance(2, 0, "three")]
    assert refined_texts(parts, 3, split_text=False) == ["one two", "", "three"]
    assert refined_texts(parts, 3, split_text=True) == "one\ntwo\nthree"
