"""The published character rule, and the replacement of characters by normalisation before it."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from ChatTTS.errors import TextError
from ChatTTS.text import Normalizer, load_homophones
from ChatTTS.text.characters import language_of, published_characters

from ..support.places import DATA


@pytest.mark.parametrize("model", ["model-a", "model-b"])
def test_without_normalisation_the_published_rule_holds(model: str) -> None:
    expected = json.loads((DATA / model / "expected.json").read_text(encoding="utf-8"))
    normalize = Normalizer(characters="'?", known_tags={"[laugh]"})
    for text, published in expected["normalized"].items():
        assert normalize(text, do_text_normalization=False) == published


def test_every_character_follows_the_published_rule() -> None:
    commas = dict.fromkeys("：；（）【】『』「」《》－", "，") | dict.fromkeys(":;()<>-", ",")
    stops = {"！": "。", "!": "."}
    kept = {chr(code): chr(code) for code in range(0x4E00, 0xA000)}
    kept |= {char: char for char in "，。、,. "}
    kept |= {chr(code): chr(code) for code in (*range(65, 91), *range(97, 123))}
    rule = commas | stops | kept
    for code in range(0x10000):
        assert published_characters(chr(code)) == rule.get(chr(code), "")


@pytest.mark.parametrize(
    ("text", "chinese"),
    [
        ("你好世界，今天 is good", True),
        ("你好 hello world", False),  # as many words as characters
        ("mix 你好 and english text", False),
        ("我 [laugh] [uv_break]", True),  # tags are no words
        ("123 ?!", False),
        ("", False),
    ],
)
def test_a_text_with_more_chinese_characters_than_words_is_chinese(
    text: str, chinese: bool
) -> None:
    assert (language_of(text) == "zh") is chinese


@pytest.mark.parametrize(
    ("text", "published", "with_more"),
    [
        ("Is it? Yes!", "Is it. Yes.", "Is it? Yes."),
        ("wait… What—me?", "wait. What, me.", "wait. What, me?"),
        ("well... then", "well, then", "well, then"),
        ("Don’t say ‘no’, “please”.", "Do not say no, please.", "Don't say no, please."),
        ("We'll see, I'd go; can't you?", "We will see, I would go, cannot you.", None),
        ("It's John's.", "Its Johns.", "It's John's."),
        ("a\ttab\u00a0and\u3000space", "a tab and space", "a tab and space"),
        ("zero\u200bwidth, soft\u00adhyphen", "zerowidth, softhyphen", None),
        ("hi 😀👍🏽 there🇫🇷!", "hi, grinning face, thumbs up, there, flag F R.", None),
        ("thirty-three well-known", "thirty three well known", None),
        ("(so) he said (twice).", "so, he said, twice.", None),
        ("really!? Yes , really .", "really. Yes, really.", "really? Yes, really."),
        ("one (or two) - three", "one, or two, three", None),
        ("naïve café, ﬁne Ｇｏｏｄ, Straße", "naive cafe, fine Good, Strasse", None),
        ("你好!好吗?(是的)", "你好。好吗。是的，", "你好。好吗? 是的，"),
        ("他说：“走吧”……然后——走了", "他说，走吧。然后，走了", None),
        ("二〇二四年", "二零二四年", None),
        ("１－７月下降－", "一到七月下降，", None),
    ],
)
def test_normalisation_finds_a_character_that_stands_for_it(
    text: str, published: str, with_more: str | None
) -> None:
    assert Normalizer()(text) == published
    if with_more is not None:
        assert Normalizer(characters="'?")(text) == with_more


def test_the_wide_question_mark_is_kept_where_it_is_known() -> None:
    assert Normalizer(characters="？")("好吗?") == "好吗？"
    assert Normalizer(characters="？")("is it?") == "is it？"


def test_letters_that_no_rule_reaches_are_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert Normalizer()("say жук [laugh_0] now 😀") == "say [laugh_0] now, grinning face,"
    assert len(caplog.records) == 1
    assert "жку" in caplog.text


def test_homophones_replace_characters_outside_tags(tmp_path: Path) -> None:
    path = tmp_path / "homophones_map.json"
    path.write_text(json.dumps({"粡": "同", "a": "e"}), encoding="utf-8")
    normalize = Normalizer(homophones=load_homophones(path))
    for normalisation in (True, False):
        assert normalize("粡 a[laugh]。", normalisation) == "同 e[laugh]。"
        assert normalize("粡 a[laugh]。", normalisation, False) == "粡 a[laugh]。"


@pytest.mark.parametrize(
    "content", ["no json", '["a"]', '{"ab": "c"}', '{"a": "bc"}', '{"a": 1}', '{"": "a"}', None]
)
def test_a_malformed_table_is_named_by_its_file(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(TextError, match=r"table\.json"):
        load_homophones(path)
