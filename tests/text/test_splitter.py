"""Split at the ends of sentences into pieces that can be spoken, and lose no character."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ChatTTS.errors import ConfigError
from ChatTTS.text import split_utterances
from ChatTTS.text.splitter import split_sentences
from ChatTTS.text.tags import TAG


def sentences(line: str) -> list[str]:
    return [sentence.strip() for sentence in split_sentences(line)]


@pytest.mark.parametrize(
    "line",
    [
        "It was late. | We went home! | Did you? | I did.",
        "Mr. Smith met Dr. Lee, e.g. in St. James Park. | It rained.",
        "It costs $5.20 at 3:30 p.m. today. | We left at 5 p.m. | He stayed.",
        "J. R. Smith lives in the U.S. and works. | So am I. | He knows.",
        "See No. 5 on p. 12 of vol. 3. | No. | I will not.",
        "Roe v. Wade was read. | We name it v. | Then it moves.",
        "Cats, dogs, etc. are here. | Dogs, cats, etc. | Then he left.",
        "Wait... what is it... | Then he left… | Now go on… please.",
        "Visit example.com or v2.0.1 now. | Thanks.",
        'She said: "Stop!" and left. | "I will." | (He did.) | Yes.',
        '"Really?" she asked. | ‘Yes.’ | “Good!” | He left.',
        "What?! | No!!! | Yes.",
        "i went home. | then i slept. | good.",
        " 12. First we go. | It was 12. | Then we ate.",
        "今天很好。|你好吗？|好！|他说：“走吧。”|他走了……|再见",
        "今天很好.|你好吗?|版本3.5很好",
        "Hello there. [laugh] | Next one. | [uv_break]Third one.| [uv_break]  Fourth [laugh]",
        "One.|[uv_break]  Two.|[a][b] [c]  [d]Three.",
        "One.[laugh] | Two.[a] [laugh] | [b] Three.[laugh]|Four. [laugh] [laugh] |[uv_break]",
    ],
)
def test_sentences_end_where_they_end(line: str) -> None:
    assert sentences(line.replace("|", "")) == [part.strip() for part in line.split("|")]


def test_a_line_is_an_utterance_of_its_own() -> None:
    assert split_utterances("Yes\nNo\r\n\n  \nWell, maybe. So") == ["Yes", "No", "Well, maybe. So"]


@pytest.mark.parametrize("text", ["", "  \n\t ", "...", "?! — “”\n。", "[]"])
def test_without_a_word_there_is_no_utterance(text: str) -> None:
    assert split_utterances(text) == []


def test_tags_alone_are_spoken_with_a_neighbour_or_by_themselves() -> None:
    assert split_utterances("[laugh]") == ["[laugh]"]
    assert split_utterances("[laugh]\nThis is a sentence.\n[uv_break]\n...\nHere is another.") == [
        "[laugh] This is a sentence.",
        "[uv_break] ... Here is another.",
    ]
    assert split_utterances("This is a sentence.\n...\n[laugh]\n[lbreak]") == [
        "This is a sentence. ... [laugh] [lbreak]",
    ]
    assert split_utterances("[uv_break] [lbreak]") == []


def test_very_short_sentences_join_a_neighbour() -> None:
    assert split_utterances("Oh no. We missed the last bus home. Really. What a pity it is.") == [
        "Oh no. We missed the last bus home. Really.",
        "What a pity it is.",
    ]
    assert split_utterances("好的。我们明天早上再来吧。走吧。") == [
        "好的。我们明天早上再来吧。走吧。"
    ]


def test_short_sentences_do_not_join_beyond_the_limit() -> None:
    assert split_utterances("Oh no. We missed the last bus.", max_characters=25) == [
        "Oh no.",
        "We missed the last bus.",
    ]


def test_long_sentences_are_divided_at_the_best_place_near_the_middle() -> None:
    text = (
        "The old man walked slowly down to the harbour, where the boats were coming in; "
        "nobody there, as far as he could see, had noticed him at all"
    )
    first, second = split_utterances(text, max_characters=100)
    assert first.endswith("coming in;")
    assert second.startswith("nobody")
    assert split_utterances("one two three four five six and seven eight nine ten eleven", 40) == [
        "one two three four five six",
        "and seven eight nine ten eleven",
    ]
    assert split_utterances("今天天气很好，我们一起去公园散步吧，好吗朋友", 16) == [
        "今天天气很好，",
        "我们一起去公园散步吧，好吗朋友",
    ]


def test_parts_are_balanced() -> None:
    parts = split_utterances(" ".join(["word"] * 63), max_characters=100)
    lengths = [len(part) for part in parts]
    assert len(parts) == 4
    assert max(lengths) - min(lengths) <= 10
    parts = split_utterances("天" * 210, max_characters=100)
    assert [len(part) for part in parts] == [70, 70, 70]


def test_a_word_or_tag_is_never_cut() -> None:
    word = "a" * 50
    assert split_utterances(f"{word} {word}", max_characters=20) == [word, word]
    assert split_utterances("天[天天天天天天]地", max_characters=4) == ["天[天天天天天天]地"]


def test_a_limit_below_one_is_an_error() -> None:
    with pytest.raises(ConfigError, match="max_characters"):
        split_utterances("text", max_characters=0)


@settings(max_examples=400, deadline=None)
@given(
    st.one_of(
        st.text(max_size=60),
        st.text(alphabet="ab A.!?…。！？，,;: \n\"”'1好[]_()—\r\u2028", max_size=80),
        st.lists(st.sampled_from(["[laugh]", "[b_1]", " ", "Mr.", "one", "好的", ". ", ", "])).map(
            "".join
        ),
    ),
    st.integers(1, 40),
)
@example("[a] [b]\n\nword [a]", 5)
def test_nothing_but_white_space_is_lost(text: str, limit: int) -> None:
    utterances = split_utterances(text, limit)
    assert all(part == part.strip() != "" for part in utterances)
    if utterances:
        assert "".join("".join(utterances).split()) == "".join(text.split())
    else:
        assert not re.search(r"[^\W_]", text)
    assert [tag for part in utterances for tag in TAG.findall(part)] == TAG.findall(text)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["one", "two,", "three.", "and", "forty-five;"]), min_size=1))
def test_utterances_fit_the_limit(words: list[str]) -> None:
    assert all(len(part) <= 20 for part in split_utterances(" ".join(words), 20))
