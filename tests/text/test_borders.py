"""Borders between the utterances of a text that comes in parts."""

from __future__ import annotations

import pytest

from ChatTTS.text.borders import Border, border_between
from ChatTTS.text.lexicon import Lexicon
from ChatTTS.text.pauses import paused_parts, total_pause

NONE, PARAGRAPH, BREAK = Border.NONE, Border.PARAGRAPH, Border.BREAK


@pytest.mark.parametrize(
    ("first", "second", "border"),
    [
        ("One.\n", "\nTwo", PARAGRAPH),
        ("One.\r\n", "\r\n", None),
        ("One.\r\n\t\r\n", "Two", PARAGRAPH),
        ("One.\u2029", "Two", PARAGRAPH),
        ("One.\n", "Two", NONE),
        ("One. ", "Two", NONE),
        ("One.\n====\n", "\nTwo", PARAGRAPH),
        ("One.\n", "***\n\n\U0001f600 2", PARAGRAPH),
        ("One.\n\n", "***", None),
        ("One.\n\n", "[uv_break] Two", PARAGRAPH),
        ("One.\n\n", "[pau", None),
        ("One.\n\n", "[pause:1.5", None),
        ("One.\n\n", "[pause:1s] Two", NONE),
        ("One. [pause:1s]\n\n", "Two", NONE),
        ("One. [pause:0s]\n\n", "Two", PARAGRAPH),
        ("One.\n[pause:0s]\n", "Two", NONE),
        ("One.\n\n", '<break time="1s"/>Two', BREAK),
        ("One.\n\n", '<break time="', None),
        ('One.<break strength="none"/>\n\n', "Two", PARAGRAPH),
        ('One.<break time="1s"/>\n\n', "Two", NONE),
        ("***\n\n", "Two", NONE),
        ("One.\n\n", "[pause:soon] Two", NONE),
    ],
)
def test_the_border_of_two_texts(first: str, second: str, border: Border | None) -> None:
    assert border_between(first, second) is border


def test_paragraphs_count_once_and_not_beside_a_pause() -> None:
    text = "\n\nOne.\n\n***\n\nTwo. [pause:10s]\n\nThree.\n\n\n\nFour.\n\n"
    assert total_pause(text) == 10
    assert total_pause(text, 60) == 130
    parts = paused_parts(text, Lexicon(), by_paragraphs=True)
    assert [part.text.strip() for part in parts] == [
        "",
        "One.",
        "***",
        "Two.",
        "",
        "Three.",
        "Four.",
        "",
    ]
    assert paused_parts(text, Lexicon())[0].text == text.partition("[")[0]
