"""From the caller's text to the utterances that are spoken."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ChatTTS.errors import TextError
from ChatTTS.text import Normalizer, prepare

normalizer = Normalizer(characters="'?", known_tags=["[laugh]", "[uv_break]"])

TEXT = """It costs $5.20 at 3:30 p.m. today, Mr. Smith. Is that so? [laugh]
我有3只猫。你喜欢猫吗？
no stop here"""


def test_lines_are_read_out_and_then_split() -> None:
    assert prepare(TEXT, normalizer) == [
        "It costs five dollars and twenty cents at three thirty p m today, mister Smith.",
        "Is that so? [laugh]",
        "我有三只猫。",
        "你喜欢猫吗?",
        "no stop here.",
    ]


def test_the_limit_holds_for_what_is_spoken() -> None:
    text = "There were 1,234,567 people, 7,654,321 birds and 2,222,222 fish."
    assert len(text) < 90
    utterances = prepare(text, normalizer, max_characters=90)
    assert len(utterances) > 1
    assert all(len(utterance) <= 91 for utterance in utterances)
    assert all(utterance.endswith(".") and ",." not in utterance for utterance in utterances)


def test_without_splitting_there_is_one_utterance() -> None:
    (utterance,) = prepare(TEXT, normalizer, split_text=False, max_characters=10)
    assert utterance == (
        "It costs five dollars and twenty cents at three thirty p m today, mister Smith. Is that "
        "so? [laugh] 我有三只猫。你喜欢猫吗? no stop here."
    )
    assert prepare("one\ntwo", normalizer, split_text=False) == ["one, two."]


def test_without_normalisation_the_published_rule_follows_the_split() -> None:
    assert prepare(TEXT, normalizer, do_text_normalization=False) == [
        "It costs . at , p.m. today, Mr. Smith.",
        "Is that so [laugh]",
        "我有只猫。",
        "你喜欢猫吗",
        "no stop here",
    ]
    text = " one: two!\nthree? "
    assert prepare(text, normalizer, do_text_normalization=False, split_text=False) == [
        normalizer(text, do_text_normalization=False)
    ]


def test_homophones_are_replaced_unless_switched_off() -> None:
    voice = Normalizer(homophones={"粡": "同"})
    for normalisation in (True, False):
        for wanted, said in ((True, "同意了。"), (False, "粡意了。")):
            assert prepare(
                "粡意了。",
                voice,
                do_text_normalization=normalisation,
                do_homophone_replacement=wanted,
            ) == [said]


def test_the_end_goes_before_tags_only_where_it_stood() -> None:
    assert prepare("so it is. [laugh]", normalizer) == ["so it is. [laugh]"]
    assert prepare("so it is, [laugh]", normalizer) == ["so it is. [laugh]"]
    assert prepare("[laugh]", normalizer) == ["[laugh]"]


@pytest.mark.parametrize("text", ["", " \n", "?!...", "😀", "жук", "[unknown]", "---"])
@pytest.mark.parametrize("split_text", [True, False])
def test_nothing_to_speak_is_an_error_that_names_the_text(text: str, split_text: bool) -> None:
    with pytest.raises(TextError, match=re.escape(repr(text))):
        prepare(text, normalizer, split_text=split_text)


def test_the_error_names_only_the_beginning_of_a_long_text() -> None:
    with pytest.raises(TextError) as caught:
        prepare("?" * 1000, normalizer)
    assert len(str(caught.value)) < 120


def test_digits_alone_are_nothing_without_normalisation() -> None:
    assert prepare("12", normalizer) == ["twelve."]
    with pytest.raises(TextError):
        prepare("12", normalizer, do_text_normalization=False)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60), st.booleans(), st.booleans(), st.integers(1, 50))
def test_any_text_gives_utterances_or_a_text_error(
    text: str, normalisation: bool, split_text: bool, limit: int
) -> None:
    try:
        utterances = prepare(
            text,
            normalizer,
            do_text_normalization=normalisation,
            split_text=split_text,
            max_characters=limit,
        )
    except TextError:
        return
    assert utterances
    assert split_text or len(utterances) == 1
    assert all(re.search(r"[^\W_]", utterance) for utterance in utterances)


def test_letters_that_are_no_word_are_left_out_and_named(caplog: pytest.LogCaptureFixture) -> None:
    text = f"My key is {'A' * 9999}, I think. {'x' * 100} is a word. [{'b' * 200}]"
    raw = prepare(text, normalizer, do_text_normalization=False)
    assert raw[0] == "My key is  , I think."
    assert prepare(text, normalizer)[0] == "My key is, I think."
    assert caplog.text.count("has 9999 letters, which is not a word; left out") == 2
    assert caplog.text.count("which is not a word") == 2
    with pytest.raises(TextError, match="'AAAA"):
        prepare("A" * 9999, normalizer)
    assert prepare("天" * 180, normalizer) == ["天" * 180 + "。"]


def test_what_the_voice_does_not_know_is_left_out_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    voice = Normalizer(knows=str.isascii)
    assert prepare("Say 你好，now。 It is 好.", voice) == ["Say, now. It is."]
    assert "left out: 你好" in caplog.text
    with pytest.raises(TextError, match="words that the voice knows"):
        prepare("你好，很高兴认识你。", voice)
