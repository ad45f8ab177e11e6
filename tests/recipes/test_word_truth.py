"""Word times against the teacher's."""

from __future__ import annotations

import numpy as np
import pytest

from ChatTTS.errors import EngineUnavailableError
from recipes.bundled_voice.flite import teacher
from recipes.bundled_voice.speech import speak
from recipes.bundled_voice.subject import Subject
from recipes.bundled_voice.types import DEFAULT_SPEED, VOICES
from recipes.bundled_voice.word_truth import FRAME_MS, Placed, measure, place, table


def test_figures_of_words() -> None:
    words = [Placed("a", "", found, truth) for found, truth in ((4, 4), (7, 6), (3, 5))]
    assert [word.error for word in words] == pytest.approx([0, FRAME_MS, -2 * FRAME_MS])
    _, line = table([("voice 5", words)])
    assert line.split()[:4] == ["voice", "5", "3", "21.3"]
    assert float(line.split()[-1]) == pytest.approx(-FRAME_MS / 3, abs=0.06)


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
        for word in place(chat, speak(line, voice, DEFAULT_SPEED))
    ]
    assert len(errors) == 11 * len(VOICES)
    middle, most = np.percentile(errors, (50, 95))
    assert middle <= 40
    assert most <= 100
    measure(chat, [line], 1, [DEFAULT_SPEED])
    assert f"all{len(errors):15}" in capsys.readouterr().out
