"""The normalizer: languages, registered functions, tags and markdown, from many threads."""

from __future__ import annotations

import logging
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ChatTTS.errors import TextError
from ChatTTS.languages import LANGUAGES
from ChatTTS.text import Normalizer
from ChatTTS.text.tags import TAG

TAGS = ["[laugh]", "[uv_break]", "[oral_2]"]
shared = Normalizer()
voice = Normalizer(characters="'?", known_tags=TAGS)


def test_each_sentence_is_read_in_its_language() -> None:
    text = "我买了3只猫。I bought 3 cats. 2024."
    assert shared(text) == "我买了三只猫。I bought three cats. twenty twenty four."
    assert shared("iPhone 15 很贵, 要¥5999") == "iPhone 十五 很贵，要五千九百九十九元"


def test_names_and_formulas_have_the_language_of_the_sentence_before_them() -> None:
    assert shared("最大的是。A. -3 B. 2") == "最大的是。A。负三 B。二"
    assert shared("他走了。We have 2 cats.") == "他走了。We have two cats."


def test_small_words_show_the_language() -> None:
    assert shared("List<String>和vector<int>都行") == "List String 和vector int 都行"


def test_a_text_without_letters_takes_the_language_of_the_rest() -> None:
    assert shared("3个人。\n5") == "三个人。五"
    assert shared("5") == "five"
    assert Normalizer(language="zh")("5") == "五"
    assert Normalizer(language="fr")("5") == "five"
    assert shared("5", lang="zh") == "五"


def test_chinese_characters_in_an_english_sentence_have_their_numbers() -> None:
    said = shared("Pod restart 3次 after OOM kill, 2个 node 用了12%, see PR #5 之前")
    assert (
        said
        == "Pod restart 三次 after OOM kill, 两个 node 用了百分之十二, see P R number five 之前"
    )


@pytest.mark.parametrize("lang", ["EN", "en-US", "en_GB", "English"])
def test_a_language_in_another_spelling(lang: str, caplog: pytest.LogCaptureFixture) -> None:
    assert shared("5", lang=lang) == "five"
    assert shared("5", lang="ZH-cn") == "五"
    assert caplog.records == []


@pytest.mark.parametrize("lang", ["", "auto", "AUTO", None])
def test_no_language_is_found_from_the_text(
    lang: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    assert shared("3个人", lang=lang) == "三个人"
    assert caplog.records == []


def test_an_unknown_language_is_found_from_the_text_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert shared("3个人", lang="ja") == "三个人"
    assert "'ja'" in caplog.text


def test_tags_stay_through_everything() -> None:
    text = "[laugh] It costs $5 [uv_break]or 10%[oral_2]. **So [laugh] what?**"
    assert voice(text) == (
        "[laugh] It costs five dollars [uv_break]or ten percent[oral_2]. So [laugh] what?"
    )


def test_unknown_tags_are_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert voice("one[1] two [laugh]\n[sic] three") == "one two, [laugh] three"
    assert [record.getMessage() for record in caplog.records] == [
        "the model does not know the control tags [1], [sic]; left out"
    ]
    assert shared("one[sic]") == "one[sic]"


def test_markdown_is_not_spoken() -> None:
    text = """# Title
- one *thin* item
* two **bold [laugh] words**
1. `code` and ~~gone~~
> quoted _words_ in snake_case
---
```python
see [the docs](https://example.com/a_b) and ![a picture](./x.png), [laugh](https://a.b)
"""
    assert voice.lines(text) == [
        "Title",
        "one thin item",
        "two bold [laugh] words",
        "one, code and gone",
        "quoted words in snake case",
        "see the docs and a picture, [laugh], a dot b,",
    ]
    assert shared("a [b[c](https://x.y)]") == "a b c"  # removing markdown must not create a tag
    assert voice("2 * 3 and 2*3") == "two times three and two times three"


def test_a_registered_function_replaces_the_built_in() -> None:
    normalize = Normalizer(characters="'?")
    heard: list[str] = []

    def say(text: str) -> str:
        heard.append(text)
        return "said 7é [laugh]\nnow"

    assert normalize.register("en", say) is True
    heard.clear()
    spoken = normalize(" it costs $5 [uv_break] don't. ")
    assert spoken == "said seven e laugh now [uv_break] said seven e laugh now"
    assert heard == ["it costs $5", "don't."]
    assert normalize("我有3只") == "我有三只"
    normalize.unregister("en")
    assert normalize("$5") == "five dollars"
    normalize.unregister("en")


def test_a_second_registration_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    normalize = Normalizer()
    assert normalize.register("en", normalizer=lambda text: "first")
    assert normalize.register("en", lambda text: "second") is False
    assert "'en'" in caplog.text
    assert normalize("x") == "first"
    assert list(normalize.normalizers) == ["en"]
    normalize.unregister("en")
    assert normalize.register("en", lambda text: "second")
    assert normalize("x") == "second"


def test_a_function_for_another_language_reads_texts_of_that_language() -> None:
    normalize = Normalizer()
    assert normalize.register("ja", lambda text: text.replace("x", "ka"))
    assert normalize("x 5", lang="ja") == "ka five"
    assert normalize("x 5") == "x five"


def test_another_voice_keeps_the_registered_functions() -> None:
    normalize = Normalizer()
    normalize.register("zh", lambda text: "好")
    other = Normalizer(characters="?", known_tags=TAGS, registered=normalize.normalizers)
    assert other("你们", lang="zh") == "好"
    assert other("is it? [sic]") == "is it?"
    assert normalize("is it? [sic]") == "is it. [sic]"


@pytest.mark.parametrize(
    ("name", "fn"),
    [
        ("en", lambda text: None),
        ("en", lambda text: text.encode()),
        ("en", lambda: "no argument"),
        ("zh", lambda text: text.nothing),
        ("en", "no function"),
    ],
)
def test_what_is_no_normalizer_is_refused(
    name: str, fn: Any, caplog: pytest.LogCaptureFixture
) -> None:
    normalize = Normalizer()
    with caplog.at_level(logging.WARNING):
        assert normalize.register(name, fn) is False
    assert len(caplog.records) == 1
    assert repr(name) in caplog.text
    assert normalize("$5") == "five dollars"


def test_a_registered_function_that_fails_later_is_named() -> None:
    normalize = Normalizer()
    normalize.register("en", lambda text: {"1 test. 测试2。": "fine"}[text])
    with pytest.raises(TextError, match=r"'en' failed on 'hello'.*KeyError"):
        normalize("hello")


def test_threads_share_a_normalizer() -> None:
    normalize = Normalizer(characters="'?")
    texts = ["It costs $5.20 on 2024-05-03.", "今天是2024年5月3日。", "3:30, the 21st [laugh]?"]
    alone = [Normalizer(characters="'?")(text) for text in texts]

    def work(index: int) -> bool:
        if index % 7 == 0:
            normalize.register("en" if index % 2 else "zh", lambda text: "other")
            normalize.unregister("en" if index % 2 else "zh")
        answer = normalize(texts[index % 3])
        return answer == alone[index % 3] or "other" in answer

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(120)))
    assert [normalize(text) for text in texts] == alone


PIECES = st.one_of(
    st.text(max_size=12),
    st.sampled_from([*TAGS, "[sic]", "**", "_", "`", "# ", "\n- ", "[a](http://x.y)", "[", "]"]),
    st.sampled_from(
        ["$5.20", " 10:05 p.m. ", "Mr. ", "你好", "3只", "don’t", "https://a.b/c", "50%"]
    ),
)
KNOWN = re.compile(r"[\u4e00-\u9fffA-Za-z，。、,. '?]*")


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=8).map("".join))
@example("[\u00b2] e\u0301[e\u0301] [½]")
@example("[[laugh](http://x)]")
@example("\ud800 5 \x00")
def test_any_text_comes_out_in_known_characters_with_its_tags(text: str) -> None:
    spoken = voice(text)
    assert [tag for tag in TAG.findall(text) if tag in TAGS] == TAG.findall(spoken)
    assert KNOWN.fullmatch(TAG.sub("", spoken))


def test_wrapped_lines_are_joined_and_lists_are_not() -> None:
    normalizer = Normalizer()
    wrapped = "On that cold morning he had to wait for\ntwenty minutes."
    assert normalizer.lines(wrapped) == [wrapped.replace("\n", " ")]
    assert len(normalizer.lines("one\ntwo")) == 2
    assert len(normalizer.lines("- apples\n- pears")) == 2
    assert len(normalizer.lines("a title\n\nthe text")) == 2


def test_ordinals_are_no_saints() -> None:
    normalizer = Normalizer()
    assert normalizer("It is the 21st.") == "It is the twenty first."
    assert normalizer("He came on the 21st. He left.").startswith("He came on the twenty first.")


@pytest.mark.parametrize("code", LANGUAGES)
def test_every_language_has_a_reader(code: str) -> None:
    assert Normalizer()("Hello 2.", lang=code)


# ---------------------------------------------------------------- texts that a program normalized


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("3 guests", "three guests"),
        ("It costs $5.", "It costs five dollars."),
        ("$5 million, 20%.", "five million dollars, twenty percent."),
        ("我有3个苹果。", "我有三个苹果。"),
        ("[speed_5]23[laugh]", "[speed_5]twenty three[laugh]"),
        ("Dr. Smith has ２", "Dr. Smith has two"),
        ("½ cup, x²", "one half cup, x squared"),
        ("tickets cost $ five .", "tickets cost five dollars ."),
        ("It is $ one, or £ twenty two", "It is one dollar, or twenty two pounds"),
        ("$ one , two hundred . fifty", "one , two hundred . fifty dollars"),
        ("about fifteen % more.", "about fifteen percent more."),
        ("5 % of 5 € and $ 7", "five percent of five euros and seven dollars"),
        ("A & B + C", "A and B plus C"),
    ],
)
def test_a_voice_of_phonemes_says_the_numbers_that_are_left(text: str, said: str) -> None:
    read = Normalizer(reads_phonemes=True).read_published(text)
    assert (read.lines, read.left_out) == ([said], ())


def test_only_what_has_no_reading_is_left_out() -> None:
    read = Normalizer(reads_phonemes=True).read_published("나라 3")
    assert read.left_out == ("나", "라")


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("一个⊕，两个⊕ ●", ("⊕",)),
        ("Acme™ ⊗ 5 😀", ("™",)),
        ("3 > 2, 5% ~", ()),
        ("a price* and c \\ d", ("*", "\\")),
        ("**图7-8**对吧，A/B", ()),
    ],
)
def test_symbols_that_no_reader_said_are_named(text: str, left_out: tuple[str, ...]) -> None:
    assert voice.read(text).left_out == left_out


def test_a_voice_of_letters_keeps_the_published_rule() -> None:
    read = Normalizer().read_published("3 guests")
    assert (read.lines, read.left_out) == ([" guests"], ("3",))
    assert Normalizer(reads_phonemes=True)("3 guests", do_text_normalization=False) == " guests"
