"""Spans: what each class claims, which class has a place, and what becomes of a fault."""

from __future__ import annotations

import csv
import re
from typing import Any

import pytest

from ChatTTS.text import chinese, english
from ChatTTS.text.readers import DIGIT, Reader, read_all
from ChatTTS.text.spans import Span, SpanClass, find_spans, read_spans, span

from ..support.places import DATA
from ..support.pumping import constants, parser

NUMBER = span("numbers", r"\d+", r"<\g<0>>")
PAIR = span("pairs", r"\d+-\d+", "pair")


def test_the_class_of_the_higher_rank_has_the_place() -> None:
    assert find_spans("1-2 3", [PAIR, NUMBER]) == [Span(0, 3, "pair"), Span(4, 5, "<3>")]
    assert read_spans("1-2 3", [NUMBER, PAIR], " ") == "<1>-<2> <3>"


def test_a_match_that_is_none_after_all_leaves_its_place_to_others() -> None:
    never = span("nothing", r"\d", lambda match: None)
    assert read_spans("a 12", [never, NUMBER], " ") == "a <12>"


def test_the_words_of_a_span_do_not_touch_their_neighbours() -> None:
    two = span("two", "2", "two")
    assert read_spans("a2b 2, 2", [two], " ") == "a two b two, two"
    assert read_spans("a2b", [two], "") == "atwob"


def test_a_class_that_raises_has_no_spans(caplog: pytest.LogCaptureFixture) -> None:
    broken = span("broken things", r"\d", lambda match: str(1 // 0))
    assert read_spans("a 12", [broken, NUMBER], " ") == "a <12>"
    assert "broken things" in caplog.text


# ---------------------------------------------------------------- texts without a digit


def is_digit(item: Any) -> bool:
    """Return whether a part of a set of characters has digits alone."""
    kind, argument = item
    if kind is constants.CATEGORY:
        return bool(argument is constants.CATEGORY_DIGIT)
    if kind is constants.RANGE:
        return all(DIGIT.match(chr(code)) for code in range(argument[0], argument[1] + 1))
    return kind is constants.LITERAL and DIGIT.match(chr(argument)) is not None


def needs_digit(parsed: Any) -> bool:
    """Return whether all that a parsed pattern matches has a digit, in it or beside it."""
    for kind, argument in parsed:
        if kind is constants.LITERAL:
            needs = is_digit((kind, argument))
        elif kind is constants.IN:
            needs = all(map(is_digit, argument))
        elif kind in (constants.MAX_REPEAT, constants.MIN_REPEAT):
            needs = argument[0] > 0 and needs_digit(argument[2])
        elif kind is constants.SUBPATTERN:
            needs = needs_digit(argument[3])
        elif kind is constants.BRANCH:
            needs = all(map(needs_digit, argument[1]))
        else:
            needs = kind is constants.ASSERT and needs_digit(argument[1])
        if needs:
            return True
    return False


@pytest.mark.parametrize(
    ("pattern", "needs"),
    [(r"a\d", True), (r"a\d?", False), (r"x(?=[1-3])", True), ("1|b", False), (r"[\da]", False)],
)
def test_patterns_that_need_a_digit(pattern: str, needs: bool) -> None:
    assert needs_digit(parser.parse(pattern)) == needs


@pytest.mark.parametrize(
    "classes", [english._SPANS, english._PLAIN, chinese._SPANS], ids=["en", "en plain", "zh"]
)
def test_exactly_the_classes_that_need_a_digit_are_not_looked_for_without_one(
    classes: tuple[SpanClass, ...],
) -> None:
    for each in classes:
        parsed = parser.parse(each.pattern.pattern, each.pattern.flags & ~re.UNICODE)
        assert each.without_digits != needs_digit(parsed), each.kind


@pytest.mark.parametrize(
    "reader",
    [each for each in english._READERS if each.needs_digits],
    ids=lambda reader: reader.kind,
)
def test_readers_that_need_digits_leave_other_texts(reader: Reader) -> None:
    with (DATA / "readings.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    for row in rows:
        for text in row:
            for other in ("", "x"):
                plain = DIGIT.sub(other, text)
                assert read_all(plain, [reader]) == plain
