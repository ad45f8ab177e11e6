"""Spans: what each class claims, which class has a place, and what becomes of a fault."""

from __future__ import annotations

import re

import pytest

from ChatTTS.text.spans import Span, SpanClass, find_spans, fixed, read_spans

NUMBER = SpanClass("numbers", re.compile(r"\d+"), lambda match: f"<{match[0]}>")
PAIR = SpanClass("pairs", re.compile(r"\d+-\d+"), fixed("pair"))


def test_the_class_of_the_higher_rank_has_the_place() -> None:
    assert find_spans("1-2 3", [PAIR, NUMBER]) == [Span(0, 3, "pair"), Span(4, 5, "<3>")]
    assert read_spans("1-2 3", [NUMBER, PAIR], " ") == "<1>-<2> <3>"


def test_a_match_that_is_none_after_all_leaves_its_place_to_others() -> None:
    never = SpanClass("nothing", re.compile(r"\d"), lambda match: None)
    assert read_spans("a 12", [never, NUMBER], " ") == "a <12>"


def test_the_words_of_a_span_do_not_touch_their_neighbours() -> None:
    two = SpanClass("two", re.compile("2"), fixed("two"))
    assert read_spans("a2b 2, 2", [two], " ") == "a two b two, two"
    assert read_spans("a2b", [two], "") == "atwob"


def test_a_class_that_raises_has_no_spans(caplog: pytest.LogCaptureFixture) -> None:
    broken = SpanClass("broken things", re.compile(r"\d"), lambda match: str(1 // 0))
    assert read_spans("a 12", [broken, NUMBER], " ") == "a <12>"
    assert "broken things" in caplog.text
