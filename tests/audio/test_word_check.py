"""Skipped and repeated words are found in recordings of the bundled voice."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from ChatTTS.audio import SAMPLE_RATE, CheckedWord, WordCheck, check_words, read
from ChatTTS.audio.samples import Samples
from ChatTTS.audio.word_check import _runs
from ChatTTS.cli import main
from ChatTTS.errors import AudioError

from ..support.places import ROOT

pytest.importorskip("pocketsphinx")

KEPT = ROOT / "tests/pipeline/references/test_regression"
MORNING = KEPT / "test_the_same_sound-sentence.flac"
STATION = KEPT / "test_the_same_sound-codes.flac"
PETS = KEPT / "test_the_same_sound-two-utterances.flac"
TEXT = "Good morning, how are you today?"
PETS_TEXT = ("I have three cats and two dogs.", "They sleep in the kitchen all day long.")


def recording(path: Path) -> Samples:
    return read(path)[0]


def test_every_word_is_heard_once_and_in_order() -> None:
    found = check_words(MORNING, TEXT)
    assert found.good
    assert str(found) == "6 of 6 words heard"
    assert [word.text for word in found.words] == ["good", "morning", "how", "are", "you", "today"]
    borders = np.array([word.times[0] for word in found.words])  # [words, start and end]
    assert (np.diff(borders.ravel()) >= 0).all()
    assert borders[-1, 1] <= len(recording(MORNING)) / SAMPLE_RATE


@pytest.mark.slow
@pytest.mark.parametrize("place", range(1, 6))
def test_a_word_that_is_missing_in_the_sound(place: int) -> None:
    words = TEXT.split()
    found = check_words(MORNING, " ".join([*words[:place], "purple", *words[place:]]))
    assert (found.skipped, found.repeated) == ((place,), ())
    assert (
        f'skipped   "purple" after "{" ".join(_plain(words)[max(0, place - 3) : place])}"'
        in str(found)
    )


def _plain(words: list[str]) -> list[str]:
    return [word.lower().strip(",?") for word in words]


def test_words_that_are_spoken_again() -> None:
    sound = recording(MORNING)
    [start, _], [again, _] = (check_words(sound, TEXT).words[n].times[0] for n in (2, 4))
    one, other = round(start * SAMPLE_RATE), round(again * SAMPLE_RATE)
    found = check_words(np.concatenate([sound[:other], sound[one:]]), TEXT)
    assert (found.skipped, found.repeated) == ((), (2, 3))
    assert 'repeated  "how are" after "good morning", again at' in str(found)


def test_speech_that_ends_early_or_says_another_text() -> None:
    sound = recording(MORNING)
    [how, _] = check_words(sound, TEXT).words[2].times[0]
    assert check_words(sound[: round(how * SAMPLE_RATE)], TEXT).skipped == (2, 3, 4, 5)
    assert len(check_words(STATION, " ".join(PETS_TEXT)).skipped) > 2
    assert check_words(np.zeros(SAMPLE_RATE, np.float32), TEXT).skipped
    assert check_words(np.zeros(0, np.float32), TEXT).skipped == tuple(range(6))


def test_a_tail_is_told_as_repeated_words() -> None:
    assert check_words(np.concatenate([recording(MORNING), recording(STATION)]), TEXT).repeated


def test_unknown_words_are_named_and_are_no_fault() -> None:
    found = check_words(MORNING, "[uv_break] Good morning, how yoobleq you today?")
    assert found.good
    assert [word.known for word in found.words] == [True, True, True, False, True, True]
    assert str(found).endswith("not in the recogniser's dictionary: yoobleq")


def test_skips_may_be_wider_than_a_single_detour() -> None:
    before, behind = PETS_TEXT
    extra = " ".join(["purple monkeys rarely juggle"] * 12)
    found = check_words(PETS, f"{before} {extra} {behind}")
    assert set(found.skipped) >= set(range(7 + 2, 7 + 46))
    assert not {*range(6), *range(7 + 48 + 2, 7 + 48 + 9)} & set(found.skipped)


def test_samples_of_any_rate_and_type() -> None:
    import soxr

    slow = soxr.resample(recording(MORNING), SAMPLE_RATE, 16_000)
    for wav in (slow[None], (slow * 32767).astype(np.int16)):
        assert check_words(wav, TEXT, sample_rate=16_000).good


@pytest.mark.parametrize("text", ["", "你好", "[laugh] 12!"])
def test_a_text_without_english_words(text: str) -> None:
    with pytest.raises(AudioError, match="no English word"):
        check_words(MORNING, text)


def test_without_the_recogniser_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pocketsphinx", None)
    with pytest.raises(AudioError, match=r"pip install 'chattts-velocity\[check\]'"):
        check_words(MORNING, TEXT)


def test_runs_of_neighbouring_places() -> None:
    assert list(_runs(())) == []
    assert list(_runs((1, 2, 3, 7, 9, 10))) == [range(1, 4), range(7, 8), range(9, 11)]
    first = WordCheck((CheckedWord("a", ()), CheckedWord("b", ((0.5, 0.6),))))
    assert str(first) == '1 of 2 words heard\n  skipped   "a" at the beginning'


# ---------------------------------------------------------------- the command


@pytest.mark.usefixtures("empty_home")
def test_the_command_tells_what_was_heard(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["check", str(MORNING), "--text", TEXT]) == 0
    assert capsys.readouterr().out == "6 of 6 words heard\n"
    text = tmp_path / "text.txt"
    text.write_text("Good morning, 2 how are you today?")
    assert main(["check", str(MORNING), "-f", str(text)]) == 1
    assert 'skipped   "two" after "good morning"' in capsys.readouterr().out
    assert main(["check", str(MORNING), "-f", str(text), "--no-normalize"]) == 0
    assert main(["check", str(MORNING)]) == 2
    assert "there is no text" in capsys.readouterr().err


@pytest.mark.usefixtures("empty_home")
@pytest.mark.slow
def test_say_checks_what_it_spoke(capsys: pytest.CaptureFixture[str]) -> None:
    speak = ["say", "Good morning, how are you 2 day?", "--dtype", "float32", "--seed", "1"]
    assert main([*speak, "--check"]) == 0
    assert "checked: 7 of 7 words heard" in capsys.readouterr().err
