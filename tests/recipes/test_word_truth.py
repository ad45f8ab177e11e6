"""Word times against the teacher's."""

from __future__ import annotations

import numpy as np
import pytest

from ChatTTS.errors import EngineUnavailableError
from recipes.bundled_voice.flite import teacher
from recipes.bundled_voice.speech import speak_with_times
from recipes.bundled_voice.subject import Subject
from recipes.bundled_voice.types import DEFAULT_SPEED, VOICES
from recipes.bundled_voice.word_truth import Placed, measure, place, table


def test_figures_of_words() -> None:
    words = [
        Placed("a", "", i, found, truth, True)
        for i, (found, truth) in enumerate(((80, 80), (140, 119.5), (60, 100)))
    ]
    assert [word.error for word in words] == [0, 20.5, -40]
    _, line = table([("voice 5", words)])
    assert line.split() == ["voice", "5", "3", "20.5", "38.0", "-6.5"]


@pytest.fixture
def _with_teacher() -> None:
    try:
        teacher()
    except EngineUnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.slow
@pytest.mark.usefixtures("_with_teacher")
def test_words_are_where_the_teacher_speaks_them(capsys: pytest.CaptureFixture[str]) -> None:
    chat = Subject().load(use_vllm=False)
    line = "we went to the market, and then we had some bread."
    errors = [
        abs(word.error)
        for voice in VOICES
        for word in place(chat, *speak_with_times(line, voice, DEFAULT_SPEED))
    ]
    assert len(errors) == 11 * len(VOICES)
    middle, most = np.percentile(errors, (50, 95))
    assert middle <= 40
    assert most <= 100
    measure(chat, [line], 1, [DEFAULT_SPEED])
    printed = capsys.readouterr().out
    assert f"all{len(errors):17}" in printed
    assert "\n0 words have no frame" in printed
