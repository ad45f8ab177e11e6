"""Pronunciations on their way through the rules for texts."""

from __future__ import annotations

import pytest

from ChatTTS.errors import TextError
from ChatTTS.text import Lexicon, Normalizer, prepare
from ChatTTS.text.pronunciation.alphabet import ALPHABET, as_tokens
from ChatTTS.text.pronunciation.front_end import PhonemeFrontEnd, spoken_form
from ChatTTS.text.pronunciation.inline import Pronunciation, spelled_out, without_symbols
from ChatTTS.text.pronunciation.phonemes import joined
from ChatTTS.text.pronunciation.placeholders import (
    PLACEHOLDERS,
    find_placeholders,
    map_between,
    with_placeholders,
    without_placeholders,
    words_shown,
)

TEXT = 'I [ipa:laɪk|like]d [x-sampa:t@"mA:toU|10 kg, "e.g."], [pinyin:ma1|妈][pinyin:ma5|妈] at 5?'


@pytest.fixture(scope="module")
def front_end() -> PhonemeFrontEnd:
    return PhonemeFrontEnd()


def test_marks_come_back_as_they_were() -> None:
    hidden = with_placeholders(TEXT)
    assert "[" not in hidden
    assert without_placeholders(hidden).replace(" ", "") == TEXT.replace(" ", "")
    assert words_shown(hidden) == 'I like d 10 kg, "e.g.", 妈 妈 at 5?'
    found = [pronunciation.phonemes for _, pronunciation in find_placeholders(hidden)]
    assert found == ["lˈIk", "təmˈɑtO", "ma→", "ma"]


@pytest.mark.parametrize("normalizes", [True, False])
@pytest.mark.parametrize("most", [200, 20])
def test_no_rule_changes_them(normalizes: bool, most: int) -> None:
    normalizer = Normalizer(characters="'?", reads_phonemes=True)
    spoken = prepare(
        with_placeholders(TEXT),
        normalizer,
        do_text_normalization=normalizes,
        max_characters=most,
    )
    found = [p.mark for part in spoken for _, p in find_placeholders(part)]
    assert found == [p.mark for _, p in find_placeholders(with_placeholders(TEXT))]


def test_letters_of_the_callers_are_left_out() -> None:
    normalizer = Normalizer(reads_phonemes=True)
    own = PLACEHOLDERS[3:6]
    assert normalizer.read(with_placeholders(f"say {own} now")).left_out == ("\U00017000",)
    assert PhonemeFrontEnd().spoken(own).text == ""  # of a transcript, which no rule has seen


def test_functions_of_the_callers_see_plain_text() -> None:
    text = with_placeholders("a [ipa:tiː|tea] b")
    assert without_placeholders(map_between(text, str.upper)) == "A [ipa:tiː|tea] B"
    assert map_between("", lambda part: part + "x") == "x"


def test_voices_of_letters_have_no_placeholders() -> None:
    assert Normalizer()(with_placeholders("a [ipa:tiː|tea] b")) == "a b"


@pytest.mark.parametrize(
    ("notation", "symbols", "error"),
    [
        ("ipa", "", "has no sound"),
        ("ipa", "t7", "no sound for '7'"),
        ("x-sampa", "§", "not a symbol of X-SAMPA"),
        ("pinyin", "ni3 hxo3", "is not pinyin"),
        ("arpabet", "T IY1", "the notation 'arpabet' is unknown; there are ipa, x-sampa, pinyin"),
        ("pinyin", "[ma1]", r"must not have the character \["),
    ],
)
def test_wrong_pronunciations_are_named(notation: str, symbols: str, error: str) -> None:
    with pytest.raises(TextError, match=error):
        Pronunciation(notation, symbols)


def test_ipa_may_stand_between_its_signs() -> None:
    assert Pronunciation("ipa", " /tiː/ ", "a [b|c]").mark == "[ipa:tiː|a b c]"
    assert Pronunciation("ipa", "[tiː]") == Pronunciation("ipa", "tiː")


def test_a_lexicon_leaves_marks_alone() -> None:
    lexicon = Lexicon.of({"tea": "/tiː/", "ipa": "x"})
    assert lexicon.apply("tea [ipa:t|tea] ipa").text == "[ipa:tiː|tea] [ipa:t|tea] x"


def test_marks_of_other_tools_are_pronunciations() -> None:
    text = "Say [phonemes](/fəˈnimz/), not [Docs](/en/), to [Kokoro](/kˈOkəɹO/)."
    pronunciations = [given.phonemes for _, given in find_placeholders(with_placeholders(text))]
    assert pronunciations == ["fənˈimz", "kˈOkəɹO"]
    assert spelled_out(text) == "Say phonemes, not [Docs](/en/), to Kokoro."
    assert without_symbols(text) == spelled_out(text)


def test_letters_for_voices_of_letters() -> None:
    assert spelled_out("[ipa:ˈtʃeɪndʒ|change] and [pinyin:ma1|mother]") == "chaynj and mother"
    assert without_symbols("[ipa:tiː|tea] [pinyin:ma1]") == "tea ma1"
    with pytest.raises(TextError, match="cannot be respelled: name the word"):
        spelled_out("[pinyin:ma1]")


@pytest.mark.parametrize(
    "text", ["hello, world! it is.", "我在重庆，用Python写。好吗？", "花儿 in the “park”… (so)", ""]
)
def test_the_spoken_form_is_the_line_of_phonemes(front_end: PhonemeFrontEnd, text: str) -> None:
    pieces = front_end._pronounce(text)
    form = spoken_form(pieces)
    assert form.text == as_tokens(joined(pieces))
    assert len(form.origins) == len(form.text)
    assert set(joined(pieces)) <= set(ALPHABET)


def test_no_space_stands_beside_a_tag(front_end: PhonemeFrontEnd) -> None:
    assert front_end.spoken("a. [laugh] I [uv_break], go").text == (
        "<ˈ><A><.>[laugh]<ˌ><I>[uv_break]<,>< ><ɡ><ˌ><O>"
    )


def test_a_character_is_known_if_it_has_a_sound(front_end: PhonemeFrontEnd) -> None:
    assert all(map(front_end.knows, "aé的龘"))
    assert not any(map(front_end.knows, "ば𘠀 "))
