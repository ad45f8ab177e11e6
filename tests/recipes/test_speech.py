"""The recipe's speech: pauses, rates, times of characters, and a reproducible corpus."""

import ctypes
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ChatTTS.errors import ConfigError, EngineUnavailableError, TextError
from recipes.bundled_voice import data, flite
from recipes.bundled_voice.data import Corpus, in_processes
from recipes.bundled_voice.flite import Flite
from recipes.bundled_voice.speech import speak, stretch
from recipes.bundled_voice.texts import Shares
from recipes.bundled_voice.types import FRAME_SAMPLES, SAMPLE_RATE, SOUNDS, VOICES, Spoken

OWN = Shares(everyday=1.0, random=0.0)
TEXT = "the children are playing in the garden, and we are watching them."


def has_flite() -> bool:
    try:
        ctypes.CDLL("libflite.so.1")
    except OSError:
        return False
    return True


pytestmark = pytest.mark.skipif(not has_flite(), reason="flite is not installed")


def silences(spoken: Spoken) -> list[float]:
    """Return the lengths in seconds of the exact silences inside the speech."""
    sound = np.flatnonzero(np.abs(spoken.samples) > 1e-4)
    return [gap / SAMPLE_RATE for gap in np.diff(sound) if gap > 0.02 * SAMPLE_RATE]


def level(samples: NDArray[np.float32]) -> float:
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))


@pytest.mark.parametrize("voice", VOICES)
def test_a_wave_is_the_same_bytes_each_time(voice: str) -> None:
    first = speak(TEXT, voice)
    speak("something else that moves the synthesiser's state.", voice, 2)
    again = speak(TEXT, voice)
    assert first.samples.tobytes() == again.samples.tobytes()
    assert first.samples.dtype == np.float32
    assert first.starts.tobytes() == again.starts.tobytes()


@pytest.mark.parametrize("voice", VOICES)
def test_level_edges_and_length(voice: str) -> None:
    spoken = speak(TEXT, voice)
    assert len(spoken.samples) == spoken.frames * FRAME_SAMPLES
    sound = np.flatnonzero(np.abs(spoken.samples) > 0.01)
    assert sound[0] < 0.25 * SAMPLE_RATE
    assert 0.1 < (len(spoken.samples) - sound[-1]) / SAMPLE_RATE < 0.35
    assert 0.06 < level(spoken.samples) < 0.085
    assert np.abs(spoken.samples).max() <= 0.97
    assert 2.0 < spoken.seconds < 6.0


@pytest.mark.parametrize("voice", VOICES)
def test_rate_follows_the_speed(voice: str) -> None:
    lengths = [speak(TEXT, voice, n).seconds for n in range(10)]
    assert all(slow > fast for slow, fast in pairwise(lengths))
    assert lengths[0] / lengths[5] == pytest.approx(1.08**5, rel=0.06)
    assert lengths[9] / lengths[5] == pytest.approx(1.08**-4, rel=0.06)
    assert stretch(5) == 1.0


@pytest.mark.parametrize("voice", VOICES)
def test_breaks_are_true_silence(voice: str) -> None:
    assert max(silences(speak("we went home and they stayed.", voice)), default=0) < 0.15
    short = silences(speak("we went home [uv_break] and they stayed.", voice))
    assert 0.2 <= max(short) < 0.55
    two = silences(speak("we went, [uv_break] home and [uv_break] they stayed.", voice))
    assert sum(gap >= 0.2 for gap in two) == 2
    long = silences(speak("we went home. [lbreak] they stayed.", voice))
    assert 0.5 <= max(long) < 0.9


def test_a_break_at_the_end_lengthens_the_end() -> None:
    plain, ended = speak("we went home.", "rms"), speak("we went home. [lbreak]", "rms")
    assert 0.45 < ended.seconds - plain.seconds < 0.75
    assert level(ended.samples[-int(0.5 * SAMPLE_RATE) :]) == 0


@pytest.mark.parametrize("voice", VOICES)
def test_laughter_is_a_sound_of_its_own(voice: str) -> None:
    plain, laughing = speak("good.", voice), speak("good. [laugh]", voice)
    assert 0.4 < laughing.seconds - plain.seconds < 1.4
    assert 0.4 < speak("[laugh]", voice).seconds < 1.4


@pytest.mark.parametrize("voice", VOICES)
def test_characters_begin_where_their_word_is_spoken(voice: str) -> None:
    text = "stop, [uv_break] the bird is very small. [laugh] yes? [lbreak]"
    spoken = speak(text, voice)
    assert spoken.starts.dtype == np.int32
    assert len(spoken.starts) == len(text)
    assert (np.diff(spoken.starts) >= 0).all()
    assert spoken.starts[-1] < spoken.frames
    assert spoken.sounds.dtype == np.int8
    assert len(spoken.sounds) == spoken.frames
    words = [spoken.starts[text.index(word)] for word in text.split()]
    assert all(a < b for a, b in pairwise(words))
    # nothing sounds from the tag on, up to the word behind it
    begin = spoken.starts[text.index("[uv_break]") + 5] + 4
    quiet = spoken.samples[begin * FRAME_SAMPLES : (begin + 4) * FRAME_SAMPLES]
    assert level(quiet) < 0.002
    bird = slice(*(spoken.starts[text.index(word)] * FRAME_SAMPLES for word in ("bird", "is")))
    assert level(spoken.samples[bird]) > 0.03
    assert 0.1 < (bird.stop - bird.start) / SAMPLE_RATE < 0.6
    # letters of a word spread over its sounds
    small = spoken.starts[text.index("small") : text.index("small") + 5]
    assert len(set(small.tolist())) >= 3
    # and frames know which
    heard = [SOUNDS[sound] for sound, _ in groupby(spoken.sounds)]
    place = heard.index("b")
    assert heard[place : place + 3] == ["b", "er", "d"]
    assert {SOUNDS[sound] for sound in spoken.sounds[begin : begin + 4]} == {"pau"}


def test_the_letter_a_is_no_article() -> None:
    def spoken(text: str) -> bytes:
        return speak(text, "kal16").samples.tobytes()  # a voice without noise

    vowels = [p.name for p in flite.teacher().say("nine ay m.", "kal16").phones if p.token == 1]
    assert vowels == ["ey"]
    assert spoken("nine a m.") == spoken("nine ay m.")
    assert spoken("nine a man.") != spoken("nine ay man.")


@pytest.mark.parametrize(
    "text", ["", "  ", "[lbreak]", "[uv_break] ,", "Hello.", "a 4.", "[music] hi."]
)
def test_what_cannot_be_spoken_is_named(text: str) -> None:
    with pytest.raises(TextError, match=r"nothing to speak|cannot speak"):
        speak(text, "rms")


@pytest.mark.smoke
def test_unknown_voices_and_speeds_are_named() -> None:
    with pytest.raises(TextError, match="'bob'"):
        speak("hello.", "bob")
    with pytest.raises(TextError, match="speed 10"):
        speak("hello.", "rms", 10)


def test_a_missing_synthesiser_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flite, "_LIBRARIES", ("libflite.so.none",))
    with pytest.raises(EngineUnavailableError, match="apt install flite"):
        Flite()


def test_a_corpus_is_a_function_of_seed_and_index() -> None:
    corpus = Corpus(1, 40, shares=OWN)
    turns = [corpus.request(i).voice for i in range(10)]
    assert [turns.count(voice) for voice in VOICES] == [4, 2, 2, 2]
    assert corpus.request(7) == Corpus(1, 1000, shares=OWN).request(7)
    assert corpus.request(7) != Corpus(2, 40, shares=OWN).request(7)
    assert len({corpus.request(i).speed for i in range(40)}) > 5
    assert len({corpus.request(i).text for i in range(40)}) == 40
    with pytest.raises(IndexError):
        corpus[40]
    with pytest.raises(ConfigError):
        Corpus(1, -1)


def test_shards_hold_what_would_be_spoken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "SHARD", 4)
    monkeypatch.setattr(data, "_SHARDS_IN_MEMORY", 1)
    corpus = Corpus(3, 6, tmp_path / "data", OWN)
    with pytest.raises(ConfigError, match="folder"):
        Corpus(3, 6).prepare()
    corpus.prepare(workers=0)
    files = sorted((tmp_path / "data").iterdir())
    assert len(files) == 2
    times = [path.stat().st_mtime_ns for path in files]
    corpus.prepare(workers=0)  # all is there
    assert [path.stat().st_mtime_ns for path in files] == times

    def fail(*_: object) -> Spoken:
        raise AssertionError("spoken anew")

    anew = Corpus(3, 6, shares=OWN)
    expected = [anew[i] for i in range(6)]
    monkeypatch.setattr(data, "speak", fail)
    for i in (5, 0, 3, 4):
        assert corpus[i].text == expected[i].text
        assert (corpus[i].voice, corpus[i].speed) == (expected[i].voice, expected[i].speed)
        assert corpus[i].samples.tobytes() == expected[i].samples.tobytes()
        assert corpus[i].starts.tolist() == expected[i].starts.tolist()
        assert corpus[i].sounds.tolist() == expected[i].sounds.tolist()


def test_worker_processes_speak_the_same() -> None:
    corpus = Corpus(4, 5, shares=OWN)
    spoken = list(corpus.spoken(1, 4, workers=1))
    assert len(spoken) == 3
    for i, one in enumerate(spoken, 1):
        assert one.samples.tobytes() == corpus[i].samples.tobytes()


def test_a_reader_may_stop_and_a_failure_arrives() -> None:
    results = in_processes(abs, range(1000), workers=1)
    assert [next(results), next(results)] == [0, 1]
    results.close()
    with pytest.raises(ValueError, match="text"):
        list(in_processes(int, ["text"], workers=1))
