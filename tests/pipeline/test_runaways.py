"""The length of a text bounds its speech, and breaks at its borders are silence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ChatTTS.core import Chat
from ChatTTS.pipeline.results import Waveforms
from ChatTTS.text.duration import longest_seconds

from ..support.chat_tools import FindsNoEnd, equal

FRAMES = 12
SETTINGS: dict[str, Any] = {"temperature": 1.0, "manual_seed": 3, "min_new_token": FRAMES}
LENGTH = (2 * FRAMES - 1) * 256


@pytest.fixture(autouse=True)
def _short_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "ChatTTS.pipeline.speech_pass.longest_seconds", lambda text, settings: FRAMES / 46.875
    )


def speak(chat: Chat, text: str | list[str] = "hello world.", **changes: Any) -> Waveforms:
    params = chat.InferCodeParams(**{**SETTINGS, **changes})
    spoken: Waveforms = chat.infer(text, skip_refine_text=True, params_infer_code=params)
    return spoken


def test_a_runaway_is_tried_again(small: Chat, caplog: pytest.LogCaptureFixture) -> None:
    with FindsNoEnd(small, times=0) as engine:
        first = speak(small)
    assert [r.key.attempt for r in engine.requests] == [0]
    with FindsNoEnd(small, times=2) as engine:
        waveforms = speak(small)
    assert [r.key.attempt for r in engine.requests] == [0, 1, 2]
    assert waveforms.finish_reasons == ["stop"]
    assert [len(w) for w in waveforms] == [LENGTH]
    assert not equal(waveforms, first), "the attempt is part of what is drawn by"
    assert not caplog.records


def test_one_that_finds_no_end_is_cut_and_told(
    small: Chat, caplog: pytest.LogCaptureFixture
) -> None:
    with FindsNoEnd(small, times=9) as engine:
        waveforms = speak(small, ["hello world.", "come to the water."])
    assert [r.key.attempt for r in engine.requests] == [0, 0, 1, 2, 1, 2]
    assert waveforms.finish_reasons == ["length", "length"]
    assert [len(w) for w in waveforms] == [LENGTH, LENGTH]
    assert caplog.text.count("found no end and was cut after 0 s") == 2


def test_without_retries_it_is_cut_at_once(small: Chat) -> None:
    for settings in ({"ensure_non_empty": False}, {"temperature": 0}):
        with FindsNoEnd(small, times=9) as engine:
            waveforms = speak(small, **settings)
        assert [r.key.attempt for r in engine.requests] == [0]
        assert waveforms.finish_reasons == ["length"]
        assert [len(w) for w in waveforms] == [LENGTH]


def test_a_stream_is_cut_since_it_was_heard(small: Chat, caplog: pytest.LogCaptureFixture) -> None:
    params = small.InferCodeParams(**SETTINGS)
    with FindsNoEnd(small, times=9):
        stream = small.stream("hello world.", skip_refine_text=True, params_infer_code=params)
        heard = np.concatenate([piece.samples for piece in stream])
    assert stream.finish_reason == "length"
    assert "found no end" in caplog.text
    with FindsNoEnd(small, times=9):
        whole = speak(small, ensure_non_empty=False)
    np.testing.assert_allclose(heard, whole[0], atol=1e-5)


def test_frames_that_the_caller_wants_are_no_runaway(
    small: Chat, caplog: pytest.LogCaptureFixture
) -> None:
    with FindsNoEnd(small, times=9) as engine:
        more = speak(small, min_new_token=20, max_new_token=20)
        less = speak(small, min_new_token=0, max_new_token=8)
    assert [r.key.attempt for r in engine.requests] == [0, 0]
    assert [len(w) for w in (*more, *less)] == [39 * 256, 15 * 256]
    assert more.finish_reasons == less.finish_reasons == ["length"]
    assert not caplog.records


def test_breaks_at_the_borders_are_exact_silence(small: Chat) -> None:
    with FindsNoEnd(small, times=0) as engine:
        plain = speak(small)[0]
        broken = speak(small, "[uv_break] hello world. [lbreak] [uv_break]")[0]
        stream = small.stream(
            "[uv_break] hello world. [lbreak] [uv_break]",
            skip_refine_text=True,
            params_infer_code=small.InferCodeParams(**SETTINGS),
        )
        pieces = list(stream)
    texts = {small.tokenizer.decode(request.prompt.text) for request in engine.requests}
    assert len(texts) == 1, "the model is never told of them"
    before, after = 7200, 21_600
    assert len(broken) == before + len(plain) + after
    assert not broken[:before].any()
    assert not broken[-after:].any()
    np.testing.assert_array_equal(broken[before:-after], plain)
    heard = np.concatenate([piece.samples for piece in pieces])
    np.testing.assert_allclose(heard, broken, atol=1e-5)
    assert stream.utterances[0].samples == len(broken)
    assert [p.position for p in pieces] == [
        sum(len(q.samples) for q in pieces[:i]) for i in range(len(pieces))
    ]


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("hi.", 3, 4),
        ("The lighthouse had been dark for eleven years.", 8, 15),
        ("你好，很高兴认识你。", 8, 12),
        ("so. [laugh]", 6, 8),
        ("", 3, 3),
    ],
)
def test_the_bound_follows_the_text(text: str, least: float, most: float) -> None:
    assert least <= longest_seconds(text) <= most
    assert longest_seconds(text, "[speed_9]") == longest_seconds(text)
    assert longest_seconds(text + "a", "[speed_0]") > 1.5 * longest_seconds(text) - 3
