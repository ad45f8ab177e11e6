"""Control tags: no rule on text changes them."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ChatTTS.text.tags import (
    TAG,
    drop_unknown,
    map_plain,
    split_tags,
    without_border_breaks,
    without_tags,
)


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. [uv_break]", (0.0, "One.", 0.3)),
        (
            "[lbreak] [uv_break]One [uv_break] two.[v_break] ",
            (pytest.approx(0.9), "One [uv_break] two.", 0.3),
        ),
        ("One. [uv_break] [laugh]", (0.0, "One. [uv_break] [laugh]", 0.0)),
        ("One. [laugh] [lbreak]", (0.0, "One. [laugh]", 0.6)),
        ("[speed_3][uv_break] One. [speed_5]", (0.3, "[speed_3]One.", 0.0)),
        ("One [uv_break].", (0.0, "One [uv_break].", 0.0)),
        (" [uv_break] [llbreak] ", (pytest.approx(1.2), "", 0.0)),
        ("", (0.0, "", 0.0)),
    ],
)
def test_breaks_at_the_borders_are_silence(text: str, expected: tuple[float, str, float]) -> None:
    assert without_border_breaks(text) == expected
