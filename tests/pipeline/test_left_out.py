"""Texts that a voice cannot speak: refused where nothing is left, named where a part is."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from ChatTTS.core import Chat
from ChatTTS.errors import NothingToSpeakError, TextError

from ..support.bundled_voice import UNKNOWN

QUICK: dict[str, Any] = {"max_new_token": 4, "min_new_token": 4, "manual_seed": 1}
PARTLY = f"{UNKNOWN} 1 apples"


def spoken(chat: Chat, text: str | list[str], **changes: Any) -> Any:
    code = QUICK | changes.pop("code", {})
    return chat.infer(text, skip_refine_text=True, params_infer_code=code, **changes)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


@pytest.mark.parametrize(
    ("text", "left_out"), [(UNKNOWN, UNKNOWN), ("привет", "привет"), ("...", "")]
)
@pytest.mark.parametrize("changes", [{}, {"stream": True}, {"refine_text_only": True}])
def test_a_text_of_which_nothing_can_be_spoken_is_refused(
    bundled: Chat, text: str, left_out: str, changes: dict[str, Any]
) -> None:
    with pytest.raises(TextError, match="nothing to speak is left") as caught:
        spoken(bundled, text, **changes)
    assert isinstance(caught.value, NothingToSpeakError)
    assert set(caught.value.left_out) == set(left_out)
    assert caught.value.languages == ("en", "zh")
    named = f"it speaks English and Chinese, and cannot speak {''.join(caught.value.left_out)}"
    assert (named in str(caught.value)) == bool(left_out)


@pytest.mark.parametrize("changes", [{}, {"stream": True}, {"refine_text_only": True}])
def test_a_number_is_named_as_it_is_read(standard: Chat, changes: dict[str, Any]) -> None:
    with pytest.raises(NothingToSpeakError, match="it speaks English, and cannot") as caught:
        spoken(standard, "1次", **changes)
    assert set(caught.value.left_out) == set("一次")
    assert caught.value.languages == ("en",)


def test_without_normalization_it_is_refused_as_well(bundled: Chat) -> None:
    with pytest.raises(NothingToSpeakError, match=f"cannot speak {UNKNOWN}"):
        spoken(bundled, UNKNOWN, do_text_normalization=False)
    rows = spoken(bundled, [f"{UNKNOWN} a 1"], do_text_normalization=False)
    assert rows.left_out == [tuple(UNKNOWN)]
    assert [u.text.strip() for u in rows.rows[0].utterances] == ["a one"]


def test_a_call_may_allow_it(bundled: Chat, caplog: pytest.LogCaptureFixture) -> None:
    [row] = spoken(bundled, UNKNOWN, code={"ensure_non_empty": False})
    assert row.size == 0
    assert len(warnings(caplog)) == 1
    assert f"cannot speak {UNKNOWN}" in caplog.text


def test_a_row_does_not_take_the_others_with_it(
    bundled: Chat, caplog: pytest.LogCaptureFixture
) -> None:
    rows = spoken(bundled, [UNKNOWN, "a pear", PARTLY])
    assert [row.size > 0 for row in rows] == [False, True, True]
    assert rows.left_out == [tuple(UNKNOWN), (), tuple(UNKNOWN)]
    empty, partly = warnings(caplog)
    assert empty.startswith("text 0 stays empty")
    assert f"cannot speak {UNKNOWN}" in empty
    assert set(UNKNOWN) < set(partly)


@pytest.mark.parametrize("text", [PARTLY, f"{UNKNOWN}[pause:10ms]1 apples. {UNKNOWN}"])
def test_streams_tell_it_with_one_warning(
    bundled: Chat, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with bundled.stream(text, skip_refine_text=True, params_infer_code=QUICK) as stream:
        assert set(UNKNOWN) <= set(stream.left_out)
    assert len(warnings(caplog)) == 1
    chunks = spoken(bundled, [text], stream=True)
    assert chunks.rows[0].left_out == stream.left_out
    chunks.close()

    async def left_out() -> tuple[str, ...]:
        async with bundled.stream(text, params_infer_code=QUICK) as live:
            return live.left_out

    assert asyncio.run(left_out()) == stream.left_out


def test_a_word_that_is_too_long_is_told_by_its_beginning(bundled: Chat) -> None:
    assert spoken(bundled, ["a key " + "x" * 200]).left_out == [("x" * 40 + "...",)]


def test_the_times_of_words_repeat_no_warning(
    bundled: Chat, caplog: pytest.LogCaptureFixture
) -> None:
    spoken(bundled, [PARTLY], word_times=True)
    assert len([w for w in warnings(caplog) if "left out" in w]) == 1
