"""Pronunciations that callers write, in three notations."""

from __future__ import annotations

import pytest

from ChatTTS.errors import TextError
from ChatTTS.text.pronunciation import from_ipa, from_pinyin, from_x_sampa


@pytest.mark.parametrize(
    ("ipa", "phonemes"),
    [
        ("həˈloʊ", "həlˈO"),
        ("/həˈləʊ/", "həlˈO"),
        ("[tʃɜːtʃ]", "ʧˈɜɹʧ"),
        ("t͡ʃɜːt͡ʃ", "ʧˈɜɹʧ"),
        ("dʒʌdʒ", "ʤˈʌʤ"),
        ("kæt", "kˈæt"),
        ("ˈbʌtn̩", "bˈʌtᵊn"),
        ("ˈwɔɾɚ", "wˈɔTəɹ"),
        ("ˌɪntəˈnæʃənəl", "ˌɪntənˈæʃənəl"),
        ("ˈkæ.tə", "kˈætə"),
        ("skweə", "skwˈɛɹ"),
        ("ˈʃtraːsə", "ʃtɹˈɑsə"),
        ("ˈfaɪə", "fˈIə"),
        ("bɔ̃ˈʒuʁ", "bɔnʒˈuɹ"),
        ("ˈɡuːɡəl mæps", "ɡˈuɡəl mˈæps"),
        ("ni˧˥xɑʊ̯˨˩˦", "ni↗xau↓"),
        ("pei²¹t͡ɕiŋ⁵⁵", "pei↓ʨi→ŋ"),
        ("ʈʂʊŋ˥kuo˧˥", "ꭧʊ→ŋkwo↗"),
        ("tʰa˥˩", "tʰa↘"),
    ],
)
def test_ipa_becomes_the_nearest_sounds(ipa: str, phonemes: str) -> None:
    assert from_ipa(ipa) == phonemes


@pytest.mark.parametrize(
    ("ipa", "named"),
    [("ǃa", "'ǃ' (latin letter retroflex click)"), ("a5", "'5'"), ("日", "'日'"), ("", "no sound")],
)
def test_ipa_that_no_voice_can_say_is_refused(ipa: str, named: str) -> None:
    with pytest.raises(TextError) as refused:
        from_ipa(ipa)
    assert named in str(refused.value)
    assert "həˈloʊ" in str(refused.value)


@pytest.mark.parametrize(
    ("x_sampa", "ipa"),
    [
        ('h@"loU', "həˈloʊ"),
        ('"tS3:tS', "ˈtʃɜːtʃ"),
        ('"b{t@`', "ˈbætɚ"),
        ("k_h{t", "kʰæt"),
        ('%Int@"n{S@n@l', "ˌɪntəˈnæʃənəl"),
        ("r\\Ed", "ɹɛd"),
        ("ma_T", "ma˥"),
    ],
)
def test_x_sampa_is_ipa_in_ascii(x_sampa: str, ipa: str) -> None:
    assert from_x_sampa(x_sampa) == from_ipa(ipa)


@pytest.mark.parametrize("x_sampa", ["!\\a", "ə", "", " "])
def test_x_sampa_that_is_none_is_refused(x_sampa: str) -> None:
    with pytest.raises(TextError, match="X-SAMPA"):
        from_x_sampa(x_sampa)


@pytest.mark.parametrize(
    ("pinyin", "phonemes"),
    [
        ("ni3 hao3", "ni↓xau↓"),
        ("ni3hao3", "ni↓xau↓"),
        ("nǐ hǎo", "ni↓xau↓"),
        ("nǐhǎo", "ni↓xau↓"),
        ("nĭ hăo", "ni↓xau↓"),  # with the sign of a short vowel, as some keyboards write it
        ("Běijīng", "pei↓ʨi→ŋ"),
        ("xī'ān", "ɕi→a→n"),
        ("xian1", "ɕjɛ→n"),
        ("lv4 se4", "ly↘sɤ↘"),
        ("lǜsè", "ly↘sɤ↘"),
        ("lu:4", "ly↘"),
        ("ma5", "ma"),
        ("ma0", "ma"),
        ("de", "tɤ"),
        ("huar1", "xwa→ɚ"),
        ("wánr", "wa↗ɚ"),
        ("er2", "ɚ↗"),
        ("fǎngǎn", "fa↓nka↓n"),
    ],
)
def test_pinyin_is_exact(pinyin: str, phonemes: str) -> None:
    assert from_pinyin(pinyin) == phonemes


@pytest.mark.parametrize(
    ("pinyin", "named"),
    [("fi4", "'fi4'"), ("ni3 x", "'x'"), ("你3", "'你'"), ("ni6", "'6'"), ("", "empty")],
)
def test_pinyin_that_is_none_is_refused(pinyin: str, named: str) -> None:
    with pytest.raises(TextError) as refused:
        from_pinyin(pinyin)
    assert named in str(refused.value)
    assert "ni3 hao3" in str(refused.value)
