"""``chattts`` from text to sound, with the bundled voice."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ChatTTS.audio import read, trim_silence
from ChatTTS.cli import main
from ChatTTS.model.speaker import decode_sample
from ChatTTS.voices import VoiceLibrary

from ..support.bundled_voice import UNKNOWN, WIDTH
from ..support.sound_tools import FakeLibrary

TEXT = "This is a small voice."

Run = Callable[..., tuple[bytes, str]]


pytestmark = pytest.mark.usefixtures("empty_home")


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run a command that must succeed; return its standard output and standard error."""

    def command(*arguments: str) -> tuple[bytes, str]:
        status = main(arguments)
        captured = capfdbinary.readouterr()
        assert status == 0, captured.err.decode()
        return captured.out, captured.err.decode()

    return command


def test_a_text_becomes_a_file(run: Run) -> None:
    _, err = run("say", TEXT, "--seed", "3")
    samples, rate = read("speech.wav")
    assert rate == 24_000
    assert (len(samples) // 256) % 2 == 1  # (2T - 1) frames of 256 samples
    assert len(samples) % 256 == 0
    assert 0.7 < len(samples) / rate < 4
    assert 0.05 < np.abs(samples).max() <= 1
    seconds = re.search(r"speech\.wav: ([\d.]+) s of speech in ([\d.]+) s \(real-time", err)
    assert seconds is not None
    assert abs(float(seconds[1]) - len(samples) / rate) < 0.01
    assert "model bundled (velocity engine, cpu), voice clara, seed 3" in err
    assert "Warning" not in err


@pytest.mark.slow
def test_the_same_seed_the_same_file_and_the_same_stream(run: Run) -> None:
    common = ("say", TEXT, "--dtype", "float32", "-q", "--seed")
    for seed, name in (("3", "a.wav"), ("3", "b.wav"), ("4", "c.wav")):
        run(*common, seed, "-o", name)
    assert Path("a.wav").read_bytes() == Path("b.wav").read_bytes()
    assert Path("a.wav").read_bytes() != Path("c.wav").read_bytes()

    offline = np.rint(read("a.wav")[0] * 32768).astype(np.int64)
    out, err = run(*common, "3", "--stream")
    assert err == ""
    streamed = np.frombuffer(out, dtype="<i2").astype(np.int64)
    assert len(streamed) == len(offline)
    assert np.abs(streamed - offline).max() <= 1
    run(*common, "3", "--stream", "-o", "d.wav")
    np.testing.assert_array_equal(np.rint(read("d.wav")[0] * 32768), streamed)


@pytest.mark.slow
def test_what_is_played_is_what_a_file_holds(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    device = FakeLibrary.installed(monkeypatch)
    text = f"{TEXT} We went home."
    common = ("say", text, "--dtype", "float32", "--seed", "3", "-q")
    run(*common, "-o", "a.wav")
    offline = read("a.wav")[0]
    run(*common, "--play")
    np.testing.assert_allclose(device.stream.heard, offline, atol=1 / 32768)

    device.streams.clear()
    run(*common, "--play", "--low-latency", "-o", "b.wav")
    early = device.stream.heard
    assert early.shape == offline.shape
    np.testing.assert_allclose(read("b.wav")[0], early, atol=1 / 32768)
    # The beginnings differ, and the ends are equal.
    assert np.abs(early - offline)[:12_000].max() > 1 / 32768
    np.testing.assert_allclose(early[-12_000:], offline[-12_000:], atol=1 / 32768)


@pytest.mark.slow
def test_voices_that_were_kept_speak(run: Run) -> None:
    common = ("say", TEXT, "-q", "--seed", "3", "--dtype", "float32", "-o")
    string, _ = run("voice", "new", "--seed", "1", "--name", "anna")
    Path("anna.txt").write_bytes(string)
    run(*common, "name.wav", "--voice", "anna")
    run(*common, "file.wav", "--voice", "anna.txt")
    run(*common, "text.wav", "--voice", string.decode().strip())
    run(*common, "other.wav", "--voice", "clara")
    assert Path("name.wav").read_bytes() == Path("file.wav").read_bytes()
    assert Path("name.wav").read_bytes() == Path("text.wav").read_bytes()
    assert Path("name.wav").read_bytes() != Path("other.wav").read_bytes()


def test_a_recording_is_kept_as_its_codes(run: Run) -> None:
    run("say", TEXT, "-q", "--seed", "3", "-o", "me.wav")
    _, err = run("voice", "from-audio", "me.wav", "--transcript", TEXT, "--name", "me")
    assert "--voice me" in err
    voice = VoiceLibrary().load("me")
    assert (voice.transcript, voice.width, voice.model) == (TEXT, WIDTH, "bundled")
    codes = decode_sample(voice.string, 4, 625)
    samples = trim_silence(read("me.wav")[0], margin_s=0.05)
    assert abs(len(codes) - len(samples) / 512) <= 1


@pytest.mark.slow
def test_both_engines_say_the_same(run: Run) -> None:
    for engine in ("velocity", "standard"):
        run(
            "say",
            TEXT,
            "-q",
            "--seed",
            "3",
            "--dtype",
            "float32",
            "--engine",
            engine,
            "-o",
            f"{engine}.wav",
        )
    first, second = (read(f"{engine}.wav")[0] for engine in ("velocity", "standard"))
    assert len(first) == len(second)
    np.testing.assert_allclose(first, second, atol=1e-3)


def test_an_engine_that_cannot_do_it_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["say", TEXT, "--engine", "standard", "--dtype", "int8", "-q"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("chattts: error: ")
    assert "velocity" in err
    assert err.count("\n") == 1
    assert list(Path().glob("*.wav")) == []


def test_what_the_voice_cannot_say_is_told(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["say", UNKNOWN]) == 1
    told = capfdbinary.readouterr().err.decode()
    said = f"nothing to speak is left of the text {UNKNOWN!r}; it needs words that the voice knows"
    assert said in told
    assert not Path("speech.wav").exists()


def test_the_voice_adds_to_a_text_and_keeps_its_words(run: Run) -> None:
    text = "It was late, and nothing had been packed."
    out, _ = run("refine", text, "--laugh", "2", "--break", "7", "--seed", "1")
    assert re.sub(r" ?\[[a-z_]+\]", "", out.decode().strip()) == text
    assert b"[" in out
    assert run("refine", text)[0].decode() == f"{text}\n"


@pytest.mark.parametrize("how", [[], ["--stream"]])
def test_what_is_left_out_is_told(
    how: list[str], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["say", f"{UNKNOWN} a pear", "-o", "a.wav", *how]) == 0
    told = capfdbinary.readouterr().err.decode()
    assert told.count(f"the voice does not know these characters; left out: {UNKNOWN}") == 1
    assert main(["say", UNKNOWN, "-o", "b.wav", *how]) == 1
    assert f"cannot speak {UNKNOWN}" in capfdbinary.readouterr().err.decode()
    assert not Path("b.wav").exists()


@pytest.mark.slow
def test_subtitles_beside_the_sound(run: Run) -> None:
    common = ("say", "Good morning, how are you today?", "--dtype", "float32", "--seed", "1")
    run(*common, "-o", "a.wav", "--subtitles", "a.srt")
    assert "Good morning, how are you today?" in Path("a.srt").read_text()
    run(*common, "--stream", "-o", "b.wav", "--subtitles", "b.srt")
    assert Path("a.srt").read_text() == Path("b.srt").read_text()
