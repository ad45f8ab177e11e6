"""Speech is made exactly as long as its time, by its pauses and then by its tempo."""

from __future__ import annotations

import numpy as np
import pytest

from ChatTTS.audio.samples import SAMPLE_RATE, Samples
from ChatTTS.pipeline.fitting.shaping import MOST_TEMPO, Part, shape
from ChatTTS.pipeline.fitting.take_pauses import find_pauses, pause_at, pause_between
from ChatTTS.pipeline.results import Word

from ...support.longform_tools import tone

SECOND = SAMPLE_RATE


def word(text: str, start: float, end: float, at: int) -> Word:
    first, last = round(start * SECOND), round(end * SECOND)
    return Word(text, start, end, first, last, at, at + len(text), 1.0)


def quiet(seconds: float) -> Samples:
    return np.zeros(round(seconds * SECOND), dtype=np.float32)


def spoken(pause: float = 0.2) -> Part:
    """A second of sound, a pause at a comma, and half a second of sound."""
    samples = np.concatenate([tone(200, 1.0), quiet(pause), tone(300, 0.5)])
    words = [word("one", 0.0, 1.0, 0), word("two", 1.0 + pause, 1.5 + pause, 5)]
    return Part(samples, find_pauses(samples, words, "one, two."))


def joined(part: Part, target: int) -> Samples:
    return np.concatenate([each.samples for each in shape([part], target).parts])


def test_the_silence_at_a_mark_is_a_pause() -> None:
    [pause] = spoken().pauses
    assert pause.start == pytest.approx(1.0 * SECOND, abs=240)
    assert pause.end == pytest.approx(1.2 * SECOND, abs=240)
    assert 0 < pause.least < pause.shorter < pause.usual < pause.longer < pause.most


@pytest.mark.parametrize(("length", "found"), [(0.1, 0), (0.2, 1)])
def test_a_short_silence_without_a_mark_is_a_consonant(length: float, found: int) -> None:
    samples = np.concatenate([tone(200, 1.0), quiet(length), tone(300, 0.5)])
    words = [word("one", 0.0, 1.0, 0), word("two", 1.0 + length, 1.5 + length, 4)]
    assert len(find_pauses(samples, words, "one two")) == found
    assert len(find_pauses(samples, words, "one, two")) == 1 if length > 0.15 else True


def test_silence_inside_of_a_word_is_no_pause() -> None:
    samples = np.concatenate([tone(200, 1.0), quiet(0.3), tone(300, 1.0)])
    words = [word("one", 0.0, 2.0, 0), word("two", 2.0, 2.3, 5)]
    assert find_pauses(samples, words, "one, two.") == ()


def test_speech_that_fits_already_keeps_its_samples() -> None:
    part = spoken()
    shaped = shape([part], len(part.samples))
    assert shaped.tempo == 1.0
    assert shaped.pauses == shaped.silence == 0
    inner = slice(240, -240)  # its edges rise and fall
    assert np.array_equal(shaped.parts[0].samples[inner], part.samples[inner])


def test_pauses_change_before_the_tempo_does() -> None:
    part = spoken()
    wanted = len(part.samples) + 1000
    shaped = shape([part], wanted)
    assert shaped.tempo == 1.0
    assert shaped.pauses == 1000
    assert sum(len(each.samples) for each in shaped.parts) == wanted
    sound = shaped.parts[0].samples
    assert np.array_equal(sound[240 : SECOND - 240], part.samples[240 : SECOND - 240])
    assert np.array_equal(sound[-SECOND // 4 : -240], part.samples[-SECOND // 4 : -240])


@pytest.mark.parametrize("change", [-3000, -2000, -1000, 1, 777, 4000, 5000])
def test_the_length_is_exact_to_the_sample(change: int) -> None:
    part = spoken()
    target = len(part.samples) + change
    assert part.shortest <= target <= part.longest
    shaped = shape([part], target)
    assert sum(len(each.samples) for each in shaped.parts) == target
    assert 1 / MOST_TEMPO - 1e-9 <= shaped.tempo <= MOST_TEMPO + 1e-9
    assert shaped.silence <= 3


def test_the_tempo_changes_before_pauses_are_unnatural() -> None:
    part = spoken()
    [pause] = part.pauses
    shaped = shape([part], len(part.samples) - (pause.usual - pause.shorter) - 500)
    assert 1.0 < shaped.tempo < MOST_TEMPO
    assert shaped.pauses == pytest.approx(pause.shorter - pause.usual, abs=20)


def test_what_is_too_long_is_as_short_as_it_can_be() -> None:
    part = spoken()
    shaped = shape([part], SECOND)
    assert shaped.tempo == pytest.approx(MOST_TEMPO)
    assert len(shaped.parts[0].samples) == pytest.approx(part.shortest, abs=4)
    assert shaped.silence == 0


def test_what_is_too_short_ends_in_silence() -> None:
    part = spoken()
    shaped = shape([part], 3 * SECOND)
    assert shaped.tempo == pytest.approx(1 / MOST_TEMPO)
    assert len(shaped.parts[0].samples) == 3 * SECOND
    assert shaped.silence == pytest.approx(3 * SECOND - part.longest, abs=4)
    assert not shaped.parts[0].samples[-shaped.silence :].any()


@pytest.mark.parametrize("seconds", [0.1, 3.0])
def test_pauses_that_are_fixed_are_part_of_every_length(seconds: float) -> None:
    part = spoken()
    fixed = Part(part.samples, part.pauses, 100, 200)
    parts = shape([fixed], round(seconds * SECOND)).parts
    assert (fixed.shortest, fixed.longest) == (part.shortest + 300, part.longest + 300)
    assert len(parts[0].samples) == pytest.approx(
        fixed.shortest if seconds < 1 else seconds * SECOND, abs=4
    )


def test_the_pause_between_two_utterances_changes_as_well() -> None:
    first, last = spoken(), spoken()
    border = pause_between(round(0.4 * SECOND))
    parts = [Part(first.samples, first.pauses, 100, 200, border), last]
    target = sum(part.usual for part in parts) + 2400
    shaped = shape(parts, target)
    assert shaped.tempo == 1.0
    assert [len(each.samples) for each in shaped.parts] == [
        pytest.approx(parts[0].usual + 2400 * 2 // 3, abs=700),
        pytest.approx(parts[1].usual + 2400 // 3, abs=700),
    ]
    assert sum(len(each.samples) for each in shaped.parts) == target
    assert not shaped.parts[0].samples[:100].any()
    assert not shaped.parts[0].samples[-200 - border.least :].any()


def test_places_move_with_the_sound() -> None:
    part = spoken()
    [shaped] = shape([part], len(part.samples) + 1000).parts
    assert shaped.moved(0) == 0
    assert shaped.moved(SECOND // 2) == SECOND // 2
    behind = part.pauses[0].end + 500
    assert shaped.moved(behind) == behind + 1000
    assert shaped.moved(len(part.samples)) == len(part.samples) + 1000
    assert shaped.moved(-50) == 0


def test_a_pause_is_cut_without_a_click() -> None:
    samples = np.concatenate([tone(200, 0.5), tone(50, 0.4, 0.001), tone(300, 0.5)])
    pause = pause_at(SECOND // 2, round(0.9 * SECOND), is_sentence_end=False)
    part = Part(samples, (pause,))
    sound = joined(part, len(samples) - 5000)
    steps = np.abs(np.diff(sound[SECOND // 2 + 10 : SECOND // 2 + 3000]))
    assert steps.max() < 1e-3


def test_speech_that_fades_is_heard_to_its_end() -> None:
    """A part whose ends turn out to be silent is made longer, and the silence is cut."""
    part = spoken()
    padded = np.concatenate([quiet(0.03), part.samples, quiet(0.04)])
    words = [word("one", 0.03, 1.03, 0), word("two", 1.23, 1.73, 5)]
    faded = Part(padded, find_pauses(padded, words, "one, two."))
    target = len(padded) - 1000
    [shaped] = shape([faded], target).parts
    assert len(shaped.samples) == target
    loud = np.flatnonzero(np.abs(shaped.samples) > 0.02)
    assert loud[0] <= 0.02 * SECOND
    assert loud[-1] >= target - 0.02 * SECOND
    assert shaped.moved(round(1.03 * SECOND)) == pytest.approx(1.005 * SECOND, abs=700)
