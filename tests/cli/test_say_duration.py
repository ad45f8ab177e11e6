"""``chattts say --duration``, with a fake Chat that records its calls."""

from __future__ import annotations

import pytest

from ChatTTS.cli import main
from ChatTTS.model.generation import FinishReason
from ChatTTS.pipeline.results import Fit, SpokenText, SpokenUtterance, Waveforms

from ..support.cli_tools import TONE, FakeChat

pytestmark = pytest.mark.usefixtures("empty_home")
COMMAND = ("say", "Hello.", "-o", "a.wav")


def test_a_duration_reaches_the_library(chat: FakeChat) -> None:
    assert main([*COMMAND, "--duration", "2.5"]) == 0
    assert chat.asked["duration"] == 2.5
    assert main([*COMMAND]) == 0
    assert "duration" not in chat.asked


@pytest.mark.parametrize("seconds", ["0", "-1", "601", "nan"])
def test_a_duration_that_is_none_is_told(
    seconds: str, chat: FakeChat, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*COMMAND, f"--duration={seconds}"]) == 2
    assert "--duration takes seconds above 0 and at most 600" in capsys.readouterr().err
    assert not chat.asked


def test_how_speech_was_fitted_is_told(
    chat: FakeChat, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fit = Fit(2.5, 0.0, 0.0, 2.0, 3.0, 1.012, 0.12, ("[speed_3]",))
    row = SpokenText([SpokenUtterance("hello.", 48_000, FinishReason.STOP, attempts=8)], fit=fit)
    monkeypatch.setattr(chat, "infer", lambda *_, **__: Waveforms([TONE], [row]))
    main([*COMMAND, "--duration", "2.5"])
    error = capsys.readouterr().err
    assert "in 2.5 s: [speed_3], tempo 1.012, pauses +0.12 s" in error
    assert "8 attempts" not in error
