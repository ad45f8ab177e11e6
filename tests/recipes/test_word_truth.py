"""Word times against the teacher's."""

from __future__ import annotations

import numpy as np
import pytest

from recipes.voice.arrangement import Utterance
from recipes.voice.evaluation.subject import Subject
from recipes.voice.evaluation.taught import FOLDER, Taught, character_seconds
from recipes.voice.evaluation.word_truth import Placed, measure, place, table
from recipes.voice.export import ALIGNMENT_DELAY
from recipes.voice.lines import phonemes_of
from recipes.voice.styles import CAST


def test_figures_of_words() -> None:
    words = [
        Placed("a", "", i, found, truth, True)
        for i, (found, truth) in enumerate(((80, 80), (140, 119.5), (60, 100)))
    ]
    assert [word.error for word in words] == [0, 20.5, -40]
    _, line = table([("voice 5", words)])
    assert line.split() == ["voice", "5", "3", "20.5", "38.0", "-6.5"]


@pytest.mark.parametrize("text", ["We met, and so on.", "你好，我们走吧。"])
def test_characters_begin_with_their_first_phoneme(text: str) -> None:
    phonemes = phonemes_of(text)
    # Each phoneme lasts a second.
    starts = 24_000 * np.arange(len(phonemes))
    said = Utterance(tuple(phonemes), starts, np.zeros(512, np.float32))
    seconds = character_seconds(text, said)
    assert len(seconds) == len(text)
    assert (np.diff(seconds) >= 0).all()
    first, second = (text.index(mark) for mark in (",.", "，。")[text[0] == "你"])
    assert seconds[0] == 0
    # The sound is a little ahead of what the teacher says of it.
    for at, mark in ((first, ","), (second, ".")):
        assert seconds[at] == pytest.approx(phonemes.index(mark) - ALIGNMENT_DELAY)


@pytest.mark.slow
@pytest.mark.skipif(not (FOLDER / "teacher").is_dir(), reason=f"{FOLDER} has no teacher")
def test_words_are_where_the_teacher_speaks_them(capsys: pytest.CaptureFixture[str]) -> None:
    chat, teacher = Subject().load(use_vllm=False), Taught()
    line = "We went to the market, and then we had some bread."
    errors = [abs(word.error) for voice in CAST for word in place(chat, teacher, line, voice)]
    assert len(errors) == 11 * len(CAST)
    middle, most = np.percentile(errors, (50, 95))
    assert middle <= 40
    assert most <= 100
    measure(chat, teacher, [line], 1, [5])
    printed = capsys.readouterr().out
    assert f"all{len(errors):17}" in printed
    assert "\n0 words have no frame" in printed
