"""Pieces of a text become one line of phonemes."""

from __future__ import annotations

import pytest

from ChatTTS.text.pronunciation import Pronounced, joined


def line(*phonemes: str) -> str:
    """Return the line of words that each are two characters long; "+" joins one to the next."""
    return joined(
        Pronounced(2 * i, 2 * i + 2, one.rstrip("+"), one.endswith("+"))
        for i, one in enumerate(phonemes)
    )


@pytest.mark.parametrize(
    ("phonemes", "expected"),
    [
        ((), ""),
        (("a", "b"), "a b"),
        (("a+", "b", "c"), "ab c"),
        (("a", ",", "b", "!"), "a, b!"),
        (("a+", "b", "…", "c"), "ab… c"),
        (("“", "a", "”", "b"), "“a” b"),
        (("a", "(", "b", ")", ",", "c"), "a (b), c"),
        (("a", '"', "b", '"', "c"), 'a "b" c'),
        (("a", "", "b"), "a b"),
        (("a", "[uv_break]", "b"), "a [uv_break] b"),
    ],
)
def test_spaces_stand_between_words_and_behind_marks(
    phonemes: tuple[str, ...], expected: str
) -> None:
    assert line(*phonemes) == expected
