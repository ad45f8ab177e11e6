"""Words and marks of a text."""

from __future__ import annotations

import pytest

from ChatTTS.text.pronunciation.english.words import tokens_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, world!", ["Hello", ",", "world", "!"]),
        ("It's John’s, the dogs' and rock 'n' roll",
         ["It's", "John's", ",", "the", "dogs'", "and", "rock", "'n'", "roll"]),
        ("'quoted' “words” 'cause", ["quoted", "words", "'cause"]),
        ("well-known - yes--no", ["well-known", "—", "yes", "—", "no"]),
        ("so... yes…", ["so", "…", "yes", "…"]),
        ("the U.S. said, e.g. in the U.K.",
         ["the", "US", "said", ",", "EG", "in", "the", "UK", "."]),
        ("café Ångström cafe\u0301 ﬁne", ["cafe", "Angstrom", "cafe", "fine"]),
        ("Москва, Ψυχή", ["Moskva", ",", "Psihi"]),
        ("我love你， H2O", ["love", ",", "H", "2", "O"]),
        ("a_b@c.de", ["a", "b", "c", ".", "de"]),
        ("` ' -_ \u0301 ’", []),
    ],
)  # fmt: skip
def test_words_and_marks(text: str, words: list[str]) -> None:
    assert [token.text for token in tokens_of(text)] == words


def test_places_are_those_of_the_text() -> None:
    text = "“It’s” a 'café' – yes."
    spans = [text[token.start : token.end] for token in tokens_of(text)]
    assert spans == ["It’s", "a", "café", "–", "yes", "."]
    assert [token.is_word for token in tokens_of(text)] == [True, True, True, False, True, False]
