"""Tags before a text: only those that the model knows reach it."""

import logging

import pytest

from ChatTTS.core import Chat
from ChatTTS.text.setting_tags import known_settings

from ..support.chat_tools import Recording

KNOWN = {*(f"[speed_{n}]" for n in range(10)), *(f"[oral_{n}]" for n in range(3))}


@pytest.mark.parametrize(
    ("prompt", "cleaned", "told"),
    [
        ("[speed_10]", "[speed_9]", "[speed_10] -> [speed_9]"),
        ("[speed_-3]", "[speed_0]", "[speed_-3] -> [speed_0]"),
        ("[speed_" + "9" * 5000 + "]", "[speed_9]", "-> [speed_9]"),
        ("[speed_5][slow]", "[speed_5]", "[slow] left out"),
        ("[speed_05][oral_2]", "[oral_2]", "[speed_05] left out"),
        ("[oral_3][oral_12]", "[oral_2][oral_2]", "[oral_3] -> [oral_2], [oral_12] -> [oral_2]"),
        ("[laugh_3]", "", "[laugh_3] left out"),
        ("[a b][]x", "x", "[a b] left out, [] left out"),
    ],
)
def test_unknown_settings_are_limited_or_left_out(
    prompt: str, cleaned: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert known_settings(prompt, KNOWN) == cleaned
    assert len(caplog.records) == 1
    assert told in caplog.text


@pytest.mark.parametrize("prompt", ["", "[speed_0]", "[speed_9][oral_2]", "words"])
def test_known_settings_make_no_noise(prompt: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        assert known_settings(prompt, KNOWN) == prompt
    assert not caplog.records


def test_a_call_speaks_with_them(bundled: Chat, caplog: pytest.LogCaptureFixture) -> None:
    params = bundled.InferCodeParams(prompt="[speed_12][slow]", max_new_token=4, manual_seed=1)
    with Recording(bundled) as recording:
        bundled.infer("A pear.", skip_refine_text=True, params_infer_code=params)
    said = bundled.tokenizer.text(recording.requests[0].prompt.text)
    assert "[speed_9]" in said
    assert "slow" not in said
    assert params.prompt == "[speed_12][slow]"
    assert "[speed_12] -> [speed_9], [slow] left out" in caplog.text
