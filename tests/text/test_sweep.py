"""Ordinary lines through every stage of text: none raises, hangs, or is lost in silence."""

from __future__ import annotations

import logging
import random
import re
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ChatTTS.errors import NothingToSpeakError
from ChatTTS.text import Normalizer, prepare
from ChatTTS.text.readers import Reader, read_all

from ..support.places import ROOT
from . import sweep

OWN = [ROOT / "docs", ROOT / "ChatTTS" / "text", ROOT / "tests" / "data"]
both = Normalizer(characters="'?")


@cache
def own_lines() -> list[str]:
    """Return the lines of this repository's documents, sources and tables."""
    return [*sweep.lines_of([folder for folder in OWN if folder.is_dir()])]


@cache
def pieces() -> list[str]:
    """Return the words of these lines, cut where letters, digits and marks meet."""
    found = re.findall(r"[A-Za-z]+|\d+|[\u4e00-\u9fff]{1,3}|[^\w\s]", "\n".join(own_lines()))
    return sorted({piece for piece in found if len(piece) < 12})


def test_lines_of_this_repository() -> None:
    pytest.importorskip("lxml")  # a stage reads SSML
    lines = random.Random(1).sample(own_lines(), 400)
    assert sweep.sweep(lines, limit=None).faults == 0


@pytest.mark.slow
def test_lines_of_this_machine() -> None:
    """A part of ``make sweep-text``."""
    pytest.importorskip("lxml")
    lines = [*sweep.lines_of(sweep.FOLDERS)]
    found = sweep.sweep(random.Random(2).sample(lines, min(4_000, len(lines))), limit=None)
    assert (found.raised, found.lost, found.warned) == ([], [], {})


# Would have found the empty numeral: a capitalised word beside an acronym is one of a few joins.
@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_pieces_of_lines_in_any_order(data: st.DataObject) -> None:
    words = data.draw(st.lists(st.sampled_from(pieces()), min_size=1, max_size=12))
    joins = data.draw(st.lists(st.sampled_from(["", " ", " ", "-", "."]), min_size=len(words)))
    text = "".join(word + join for word, join in zip(words, joins, strict=False))
    check(text, data.draw(st.sampled_from([None, "en", "zh"])))


# Capitals beside capitals beside digits: initials, numerals, codes, units, post codes.
@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.from_regex(r"\A[A-Z][a-z]{0,3}\Z|\A[IVXLCDM]{1,4}\Z|\A[A-Z]{2,4}\Z|\A\d{1,5}\Z"),
        min_size=1,
        max_size=6,
    ).map(" ".join)
)
def test_capitals_beside_digits(text: str) -> None:
    check(text, None)


def check(text: str, lang: str | None) -> None:
    """Check that no reader fails, that no digit is left, and that something is spoken."""
    with sweep.failed_readers() as failed:
        spoken = both(text, lang=lang)
    assert not failed
    assert not re.search(r"\d", spoken)
    try:
        assert all(prepare(text, both, lang=lang))
    except NothingToSpeakError:
        assert not re.search(r"[A-Za-z0-9\u4e00-\u9fff]", spoken)


def test_a_reader_that_fails_costs_one_notation(caplog: pytest.LogCaptureFixture) -> None:
    def fail(text: str) -> str:
        raise ValueError("no")

    readers = [Reader("shouts", str.upper), Reader("dates", fail), Reader("stars", "{}*".format)]
    with caplog.at_level(logging.WARNING):
        assert read_all("on 3/4", readers) == "ON 3/4*"
    assert "the reader of dates failed on 'ON 3/4'" in caplog.text


def test_a_sweep_finds_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(line: str) -> list[str]:
        raise KeyError(line)

    faulty = {"prepare": raises, "prepare in Chinese": lambda line: [], "split": lambda line: []}
    monkeypatch.setattr(sweep, "stages", lambda: faulty)
    found = sweep.sweep(["one line"])
    assert found.raised == [("prepare", "KeyError('one line')", "one line")]
    assert (found.lost, found.lines, found.faults) == (["one line"], 1, 2)
