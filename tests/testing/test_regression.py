"""What a comparison with a reference demands, and what its failure tells."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ChatTTS
from ChatTTS.audio import word_check
from ChatTTS.errors import AudioError, ConfigError
from ChatTTS.pipeline.results import Piece
from ChatTTS.testing import regression
from ChatTTS.testing.regression import SpeechDifferenceError, SpeechRegression
from ChatTTS.version import __version__

RATE = 24_000
TALK = np.random.default_rng(1).normal(0, 0.1, RATE).astype(np.float32)  # one second

Run = Callable[..., SpeechRegression]


@pytest.fixture
def drawn(tmp_path: Path) -> Run:
    """Makes the fixture's object, as for one run of a test."""

    def run(*, update: bool = False) -> SpeechRegression:
        return SpeechRegression(tmp_path / "kept", tmp_path / "failed", "talk", update=update)

    return run


@pytest.fixture
def run(drawn: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The same without pictures, which take a second each."""
    monkeypatch.setattr(regression, "_drawn", lambda *_: "both sounds are")
    return drawn


def failure(run: Run, *args: object, **rules: object) -> str:
    with pytest.raises(SpeechDifferenceError) as caught:
        run().check(*args, **rules)  # type: ignore[arg-type]
    return str(caught.value)


def with_noise(level: float, begin: int = 0) -> np.ndarray:
    noise = np.random.default_rng(2).normal(0, level, RATE).astype(np.float32)
    noise[:begin] = 0
    return TALK + noise


def test_equal_samples_are_exact(run: Run) -> None:
    run(update=True).check(TALK, exact=True)
    run().check(TALK, exact=True)


def test_the_least_change_breaks_exact_and_is_placed(run: Run) -> None:
    run(update=True).check(TALK, exact=True)
    changed = TALK.copy()
    changed[15_000] = np.nextafter(changed[15_000], np.float32(1))  # 0.625 s
    said = failure(run, changed, exact=True)
    assert "not equal from 0.60 s on: 24,000 samples (1.00 s)" in said
    assert "no difference is greater than a step of 16 bits" in said


def test_a_sound_that_ends_early_is_placed_at_its_end(run: Run) -> None:
    run(update=True).check(TALK, exact=True)
    assert "from 0.50 s on: 12,000 samples" in failure(run, TALK[:12_000], exact=True)


def test_a_hash_alone_says_where(run: Run, tmp_path: Path) -> None:
    run(update=True).check(TALK, exact=True, keep_sound=False)
    run().check(TALK, exact=True, keep_sound=False)
    assert not (tmp_path / "kept/talk.flac").exists()
    assert "not equal from 0.30 s on" in failure(
        run, with_noise(0.01, 7_300), exact=True, keep_sound=False
    )
    assert (tmp_path / "failed/talk/new.flac").exists()


def test_a_hash_cannot_give_a_distance(run: Run) -> None:
    with pytest.raises(ConfigError, match="only exact=True can compare"):
        run().check(TALK, snr=40, keep_sound=False)
    run(update=True).check(TALK, exact=True, keep_sound=False)
    with pytest.raises(AudioError, match=r"talk\.flac is missing.*--update-speech"):
        run().check(TALK, snr=40)


@pytest.mark.parametrize(("level", "good"), [(0.0005, True), (0.005, False)])
def test_snr_allows_so_much_noise(run: Run, level: float, good: bool) -> None:
    run(update=True).check(TALK, snr=40)
    if good:
        run().check(with_noise(level), snr=40)
    else:
        assert "SNR 26." in failure(run, with_noise(level), snr=40)


def test_snr_demands_the_same_length(run: Run) -> None:
    run(update=True).check(TALK, snr=40)
    said = failure(run, TALK[:-240], snr=40)
    assert "23,760 samples (0.99 s), and the reference has 24,000 samples (1.00 s)" in said
    assert "first at 0.98 s" in said


def test_spectral_forgives_a_turned_phase_but_not_a_missing_end(run: Run) -> None:
    run(update=True).check(TALK, spectral=1.0)
    run().check(-TALK, spectral=1.0)
    assert "log-spectral distance" in failure(run, TALK[:18_000], spectral=1.0)


def test_a_failure_names_first_and_worst_place_and_word(run: Run) -> None:
    words = [
        SimpleNamespace(text="good", start=0.0, end=0.45),
        SimpleNamespace(text="morning", start=0.5, end=1.0),
    ]
    spoken = SpokenTalk([TALK], words)
    run(update=True).check(spoken, snr=40)
    changed = with_noise(0.01, 6_000)
    changed[14_400:14_880] += 0.5  # 0.6 s
    said = failure(run, changed, snr=40)  # an array: the reference has the words
    assert 'first at 0.24 s ("good"), most at 0.60 s ("morning")' in said


class SpokenTalk(list):  # type: ignore[type-arg]
    """A result, as far as it is looked at."""

    def __init__(self, waveforms: list[np.ndarray], words: list[SimpleNamespace]) -> None:
        super().__init__(waveforms)
        self.rows = [SimpleNamespace(words=words)]


@pytest.mark.slow
def test_a_failure_leaves_both_sounds_and_a_picture(drawn: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    drawn(update=True).check(TALK, snr=40)
    said = failure(drawn, with_noise(0.01), snr=40)
    folder = tmp_path / "failed/talk"
    assert f"both sounds and a picture of them are in {folder}" in said
    assert "--update-speech" in said
    assert (folder / "difference.png").read_bytes().startswith(b"\x89PNG")
    old, new = (ChatTTS.read(folder / f"{name}.flac")[0] for name in ("old", "new"))
    assert ChatTTS.compare(TALK, old).snr_db > 60
    assert ChatTTS.compare(with_noise(0.01), new).snr_db > 60


def test_a_failure_without_matplotlib_says_what_to_install(
    drawn: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    drawn(update=True).check(TALK, snr=40)
    said = failure(drawn, with_noise(0.01), snr=40)
    assert "SNR 19.9 dB" in said
    assert "no picture (" in said
    assert "[plot]" in said


def test_without_a_reference_the_sound_is_left_and_nothing_of_a_failure_before(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "failed/talk").mkdir(parents=True)
    (tmp_path / "failed/talk/old.flac").touch()
    said = failure(run, TALK, snr=40)
    assert "there is no reference" in said
    assert str(tmp_path / "kept/talk.json") in said
    assert [path.name for path in (tmp_path / "failed/talk").iterdir()] == ["new.flac"]


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"voice": "lan"}, "the voice changed from clara to lan"),
        ({"seed": 3, "model": "b"}, "the model changed from a to b and the seed changed from 2"),
        ({}, "are the same: the code or the machine changed it"),
        ({"seed": None}, "whether the seed changed is not known"),
    ],
)
def test_a_changed_voice_and_changed_code_are_told_apart(
    run: Run, changed: dict[str, Any], cause: str
) -> None:
    origin: dict[str, Any] = {"model": "a", "voice": "clara", "seed": 2}
    run(update=True).check(TALK, snr=40, **origin)
    said = failure(run, with_noise(0.01), snr=40, **{**origin, **changed})
    assert f"reference: package {__version__}, model a, voice clara, seed 2" in said
    assert cause in said


def test_another_version_of_the_package_is_named(run: Run, tmp_path: Path) -> None:
    run(update=True).check(TALK, exact=True)
    file = tmp_path / "kept/talk.json"
    facts = json.loads(file.read_text())
    facts["origin"]["package"] = "0.0.1"
    file.write_text(json.dumps(facts))
    run().check(TALK, exact=True)
    assert "the package changed from 0.0.1 to" in failure(run, with_noise(0.01), exact=True)


def test_streams_and_files_are_the_same_sound(run: Run, tmp_path: Path) -> None:
    sixteen_bits = np.round(TALK * 2**15) / np.float32(2**15)
    run(update=True).check(sixteen_bits, exact=True)
    run().check((sixteen_bits[at : at + 5_000] for at in range(0, RATE, 5_000)), exact=True)
    run().check(iter([Piece(sixteen_bits, 0, 0, "", "stop")]), exact=True)
    run().check(ChatTTS.save(tmp_path / "talk.wav", sixteen_bits), exact=True)
    run().check(str(tmp_path / "talk.wav"), exact=True)
    assert "48000 samples a second" in failure_of_rate(run, sixteen_bits)


def failure_of_rate(run: Run, samples: np.ndarray) -> str:
    run(update=True).check(samples, snr=40)
    return failure(run, samples, snr=40, sample_rate=48_000)


def test_an_update_leaves_a_good_reference_untouched(run: Run, tmp_path: Path) -> None:
    run(update=True).check(TALK, snr=40, seed=1)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "kept").iterdir()}
    run(update=True).check(TALK, snr=40, seed=1)
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "kept").iterdir()}
    run(update=True).check(with_noise(0.01), snr=40, seed=2)
    run().check(with_noise(0.01), snr=40)


def test_words_need_no_reference_and_give_their_times(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = word_check.WordCheck((word_check.CheckedWord("hello", ((0.1, 0.4),)),))
    monkeypatch.setattr(word_check, "check_words", lambda *_args, **_options: heard)
    run(update=True).check(TALK, words="Hello!", snr=40)
    assert 'first at 0.20 s ("hello")' in failure(run, with_noise(0.01, 4_800), snr=40)
    run().check(TALK, "no-reference", words="Hello!")
    silent = word_check.WordCheck((word_check.CheckedWord("hello", ()),))
    monkeypatch.setattr(word_check, "check_words", lambda *_args, **_options: silent)
    assert 'skipped   "hello"' in failure(run, TALK, words="Hello!")


def test_a_sound_of_other_words_becomes_no_reference(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    silent = word_check.WordCheck((word_check.CheckedWord("hello", ()),))
    monkeypatch.setattr(word_check, "check_words", lambda *_args, **_options: silent)
    with pytest.raises(SpeechDifferenceError, match="other words are heard"):
        run(update=True).check(TALK, snr=40, words="Hello!")
    assert not (tmp_path / "kept").exists()


def test_checks_of_one_test_have_names_of_their_own(run: Run, tmp_path: Path) -> None:
    speech = run(update=True)
    speech.check(TALK, exact=True)
    speech.check(TALK, "first", exact=True)
    speech.check(TALK, "second", exact=True)
    kept = {file.stem for file in (tmp_path / "kept").iterdir()}
    assert kept == {"talk", "talk-first", "talk-second"}  # no other test has these
    for name in ("first", "", "../first", None):
        with pytest.raises(ConfigError, match="names no reference of its own"):
            speech.check(TALK, name, exact=True)


@pytest.mark.parametrize(
    ("rules", "remedy"),
    [
        ({}, "give a rule: exact=True"),
        ({"snr": -3}, "snr must be a number of dB above 0, not -3"),
        ({"spectral": float("nan")}, "spectral must be a number of dB above 0, not nan"),
    ],
)
def test_rules_that_demand_nothing_are_refused(
    run: Run, rules: dict[str, float], remedy: str
) -> None:
    with pytest.raises(ConfigError, match=remedy):
        run().check(TALK, **rules)  # type: ignore[arg-type]


@pytest.mark.parametrize("sound", [np.zeros(0, np.float32), iter([])])
def test_a_sound_without_samples_is_refused(run: Run, sound: object) -> None:
    with pytest.raises(AudioError, match="the sound is empty"):
        run(update=True).check(sound, exact=True)


def test_a_damaged_reference_is_named(run: Run, tmp_path: Path) -> None:
    run(update=True).check(TALK, exact=True)
    (tmp_path / "kept/talk.json").write_text("{}")
    with pytest.raises(AudioError, match=r"talk\.json is no reference"):
        run().check(TALK, exact=True)


def test_the_name_of_a_chat_has_what_decides_its_speech(
    run: Run, standard: ChatTTS.Chat, tmp_path: Path
) -> None:
    run(update=True).check(TALK, exact=True, model=standard)
    model = json.loads((tmp_path / "kept/talk.json").read_text())["origin"]["model"]
    assert model.split()[1:] == [type(standard._loaded.gpt.engine).__name__, "cpu", "float32"]
