"""English texts to phonemes."""

from __future__ import annotations

from string import ascii_letters

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ChatTTS.text.pronunciation.english import pronounce_english
from ChatTTS.text.pronunciation.english.stress import SOUNDS
from ChatTTS.text.pronunciation.phonemes import MARKS, joined


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("The water is too hot.", "ðə wˈɔTəɹ ɪz tˈu hˈɑt."),
        # weak forms
        ("the apple, the pear, the hour", "ði ˈæpᵊl, ðə pˈɛɹ, ði ˈWəɹ"),
        ("to eat, to go, go to.", "tʊ ˈit, tə ɡˌO, ɡˌO tu."),
        ("an egg and a bun in it", "ɐn ˈɛɡ ænd ɐ bˈʌn ɪn ɪt"),
        ("I am. I am old.", "ˌI æm. ˌI ɐm ˈOld."),
        # letters, acronyms, capitals
        ("plan B, vitamin A", "plˈæn bˈi, vˈITəmən ˈA"),
        ("three p m, four a m", "θɹˈi pˈi ˈɛm, fˈɔɹ ˈA ˈɛm"),
        ("NASA, FBI, CDs, the FBI's", "nˈæsə, ˌɛfbˌiˈI, sˌidˈiz, ði ˌɛfbˌiˈIz"),
        ("an ID card in the US", "ɐn ˌIdˈi kˈɑɹd ɪn ðə jˌuˈɛs"),
        ("It IS hot", "ˌɪt ˈɪz hˈɑt"),
        ("HTML, NATO", "ˌAʧtˌiˌɛmˈɛl, nˈATO"),
        ("STOP THAT NOW OR ELSE", "stˈɑp ðæt nˈW ɔɹ ˈɛls"),
        # contractions and possessives
        ("the boss's dogs' bones", "ðə bˈɔsᵻz dˈɔɡz bˈOnz"),
        ("she'll, it's, can't, robot'd", "ʃil, ɪts, kˈænt, ɹˈObˌɑtᵻd"),
        ("YouTube's McGregor", "jˈutˌubz məkɡɹˈɛɡəɹ"),
        # hyphens, accents, repeated letters
        ("well-known face-to-face", "wˌɛlnˈOn fˈAstəfˈAs"),
        ("red-eyed co-workers", "ɹˈɛdˌId kˈOwˌɜɹkəɹz"),
        ("a naïve café", "ɐ nɑˈiv kæfˈA"),
        ("nooooo whyyyy", "nˈO wˌI"),
        # no words of English
        ("in 1999 xml", "ɪn wˈʌn θˈWzᵊnd nˈIn hˈʌndɹəd nˈIndi nˈIn ˌɛksˌɛmˈɛl"),
        ("你好", ""),
        ("", ""),
    ],
)
def test_a_text(text: str, said: str) -> None:
    assert joined(pronounce_english(text)) == said


def test_places_are_those_of_the_text() -> None:
    text = "It’s a “café”…"
    pieces = pronounce_english(text)
    assert [text[piece.start : piece.end] for piece in pieces] == ["It’s", "a", "café", "…"]


@settings(deadline=None)
@given(st.text(max_size=80) | st.text("aAbzI'’-. é1Ж我", max_size=40))
def test_any_text_is_said(text: str) -> None:
    pieces = pronounce_english(text)
    ends = [0, *(place for piece in pieces for place in (piece.start, piece.end)), len(text)]
    assert ends == sorted(ends)
    for piece in pieces:
        assert piece.phonemes in MARKS or set(piece.phonemes) <= SOUNDS | set("ˈˌɐᵊT ")
        assert piece.phonemes


@settings(deadline=None)
@given(st.text(ascii_letters + "éÀжЩω", min_size=1, max_size=60))
def test_no_word_is_lost(word: str) -> None:
    (piece,) = pronounce_english(word)
    assert (piece.start, piece.end) == (0, len(word))
    assert piece.phonemes not in MARKS


@pytest.mark.parametrize(
    "text",
    ["'s" * 1000, "a'" * 1000, "a-" * 1000, "aB" * 1000, "U." * 1000, "A" * 2_000, "'" * 2_000,
     "un" * 1000, "7" * 2_000, "é" * 2_000, "a\u0301" * 1000, ". " * 1000, "read " * 500],
)  # fmt: skip
def test_long_texts_of_one_kind_are_said(text: str) -> None:
    assert pronounce_english(text) is not None
