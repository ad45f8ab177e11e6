"""Control tags stand apart from every rule on text."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ChatTTS.text.tags import TAG, drop_unknown, map_plain, split_tags, without_tags


def test_a_text_alternates_between_plain_pieces_and_tags() -> None:
    assert split_tags("a [uv_break]b[laugh]") == ["a ", "[uv_break]", "b", "[laugh]", ""]
    assert split_tags("none [of these] [] [a-b]") == ["none [of these] [] [a-b]"]


def test_only_plain_pieces_are_changed() -> None:
    assert map_plain("one [laugh_0]two[uv_break]", str.upper) == "ONE [laugh_0]TWO[uv_break]"


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab [](_)1笑\n", max_size=30))
def test_dropping_all_plain_text_leaves_the_tags(text: str) -> None:
    assert map_plain(text, lambda plain: "") == "".join(TAG.findall(text))
    assert not TAG.search(without_tags(text))


def test_unknown_tags_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        kept = drop_unknown("[a] one [laugh]two [b][a]", {"[laugh]"})
    assert kept == "  one [laugh]two   "
    assert len(caplog.records) == 1
    assert "[a], [b]" in caplog.text
    assert "[laugh]" not in caplog.text


def test_known_tags_make_no_noise(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        assert drop_unknown("ha [laugh]", {"[laugh]"}) == "ha [laugh]"
    assert not caplog.records
