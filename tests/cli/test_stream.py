"""``chattts say --stream`` and ``--play``, with a fake Chat that records its calls."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from ChatTTS.audio import read
from ChatTTS.pipeline.results import EmptySpeechError

from ..support.cli_tools import RATE, TONE, FakeChat, Run, pcm, pipe_in
from ..support.sound_tools import FakeLibrary, hide_portaudio

pytestmark = pytest.mark.usefixtures("empty_home")


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    return FakeLibrary.installed(monkeypatch)


def wavs() -> list[str]:
    return sorted(path.name for path in Path().glob("*.wav"))


def assert_played(device: FakeLibrary) -> None:
    np.testing.assert_array_equal(device.stream.heard, TONE)


# ---------------------------------------------------------------- a file or a pipe


@pytest.mark.parametrize(
    "arguments",
    [
        ["--stream", "hello"],
        ["--stream", "-", "hello"],
        ["hello", "--stream", "-"],
        ["--stream", "hello", "-o", "-"],
        ["--stream", "-f", "hello.txt"],
        ["--stream", "-", "-f", "hello.txt"],
    ],
)
def test_raw_sound_on_standard_output(arguments: list[str], chat: FakeChat, run: Run) -> None:
    Path("hello.txt").write_text("hello", encoding="utf-8")
    status, out, err = run("say", *arguments)
    assert status == 0
    assert out == pcm(TONE)
    assert chat.asked["text"] == "hello"
    assert "standard output: 1.00 s of speech, the first sound after 0." in err
    assert list(Path().glob("*.wav")) == []


def test_stream_dash_alone_is_a_pipe_on_both_sides(
    chat: FakeChat, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe_in(monkeypatch, "hello")
    status, out, _ = run("say", "--stream", "-")
    assert status == 0
    assert out == pcm(TONE)
    assert chat.asked["text"] == "hello"


def test_a_terminal_gets_no_raw_sound(
    chat: FakeChat, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    status, _, err = run("say", "--stream", "hello")
    assert status == 2
    assert "aplay" in err


def test_a_stream_into_a_file(chat: FakeChat, run: Run) -> None:
    assert run("say", "--stream", "hello", "-o", "a.wav")[0] == 0
    np.testing.assert_allclose(read("a.wav")[0], TONE, atol=1 / 32768)


def test_what_is_said_of_a_stream_into_a_file(chat: FakeChat, run: Run) -> None:
    _, _, err = run("say", "--stream", "hello", "-o", "a.wav")
    assert re.search(
        r"^a\.wav: 1\.00 s of speech in \d\.\d\d s \(real-time factor \d\.\d\d\), "
        r"the first sound after \d\.\d\d s$",
        err,
        re.MULTILINE,
    )


@pytest.mark.parametrize("asked", [False, True])
def test_low_latency_reaches_the_library(asked: bool, chat: FakeChat, run: Run) -> None:
    more = ["--low-latency"] if asked else []
    assert run("say", "--stream", "hello", "--seed", "3", "-o", "a.wav", *more)[0] == 0
    assert chat.asked["low_latency"] is asked
    assert chat.asked["skip_refine_text"] is True
    assert chat.asked["params_infer_code"]["manual_seed"] == 3
    assert chat.streamed is not None
    assert chat.streamed.is_left


# ---------------------------------------------------------------- the sound device


def test_playing_makes_no_file(chat: FakeChat, run: Run, device: FakeLibrary) -> None:
    status, out, err = run("say", "--play", "hello")
    assert (status, out) == (0, b"")
    assert_played(device)
    assert re.search(
        r"^played: 1\.00 s of speech, the first sound after \d\.\d\d s$", err, re.MULTILINE
    )
    assert wavs() == []


def test_playing_goes_with_low_latency_and_standard_input(
    chat: FakeChat, run: Run, device: FakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe_in(monkeypatch, "hello")
    assert run("say", "--play", "--low-latency", "-")[0] == 0
    assert (chat.asked["text"], chat.asked["low_latency"]) == ("hello", True)
    assert_played(device)


@pytest.mark.parametrize("more", [[], ["--stream"]])
def test_playing_and_a_growing_file(
    more: list[str], chat: FakeChat, run: Run, device: FakeLibrary
) -> None:
    status, out, err = run("say", "--play", "hello", "-o", "a.wav", *more)
    assert (status, out) == (0, b"")
    assert_played(device)
    np.testing.assert_allclose(read("a.wav")[0], TONE, atol=1 / 32768)
    assert "a.wav, played: 1.00 s of speech, the first" in err


def test_playing_and_a_pipe(chat: FakeChat, run: Run, device: FakeLibrary) -> None:
    status, out, err = run("say", "--play", "hello", "-o", "-")
    assert status == 0
    assert out == pcm(TONE)
    assert_played(device)
    assert "standard output, played: 1.00 s" in err


def test_what_is_played_can_be_drawn(chat: FakeChat, run: Run, device: FakeLibrary) -> None:
    pytest.importorskip("matplotlib")
    assert run("say", "--play", "hello", "--plot", "a.png")[0] == 0
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    assert_played(device)


@pytest.mark.parametrize(
    ("flags", "said"), [([], None), ([0, 1], "1 underrun "), ([1, 1], "2 underruns ")]
)
def test_underruns_are_said(
    flags: list[bool], said: str | None, chat: FakeChat, run: Run, device: FakeLibrary
) -> None:
    device.underflows = flags
    _, _, err = run("say", "--play", "hello")
    assert ("underrun" in err) == (said is not None)
    assert said is None or f", {said}" in err


@pytest.mark.parametrize("mending", ["play", "libportaudio2", "no audio output device"])
def test_without_a_player_nothing_is_loaded(
    mending: str, chat: FakeChat, run: Run, device: FakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mending == "play":
        monkeypatch.setitem(sys.modules, "sounddevice", None)
    elif mending == "libportaudio2":
        hide_portaudio(monkeypatch)
    device.has_device = False
    status, _, err = run("say", "--play", "hello", "-o", "a.wav")
    assert status == 1
    assert err.startswith("chattts: error: ")
    assert err.count("\n") == 1
    assert mending in err
    assert not chat.loaded
    assert wavs() == []


# ---------------------------------------------------------------- how it ends


def test_ctrl_c_stops_the_sound_before_anything_else(
    chat: FakeChat, run: Run, device: FakeLibrary
) -> None:
    device.ctrl_c_after = 2400
    status, _, err = run("say", "--play", "hello", "-o", "a.wav")
    assert status == 130
    lines = err.splitlines()
    # Samples that waited for the device are included.
    assert re.search(r"^a\.wav, played: 0\.(3[89]|4[0-2]) s of speech, ", err, re.MULTILINE)
    assert "stopped in 'hello'" in lines
    assert lines[-1] == "chattts: interrupted"
    assert chat.streamed is not None
    assert chat.streamed.is_left
    assert chat.streamed.events == ["start", "abort", "close"]
    # The file holds at least the samples that were played, and is a valid file.
    assert len(read("a.wav")[0]) == 2 * RATE // 3


def test_ctrl_c_while_more_is_spoken(chat: FakeChat, run: Run, device: FakeLibrary) -> None:
    chat.failure = KeyboardInterrupt()
    status, _, err = run("say", "--play", "hello")
    assert status == 130
    assert "played: 1.00 s" in err
    assert device.stream.events == ["start", "abort", "close"]


def test_what_was_spoken_is_heard_though_a_sentence_is_missing(
    chat: FakeChat, run: Run, device: FakeLibrary
) -> None:
    chat.failure = EmptySpeechError(["hm"], None)
    status, _, err = run("say", "--play", "hello")
    assert status == 1
    assert_played(device)
    assert "played: 1.00 s" in err
    assert "stopped in" not in err
    assert "nothing was spoken for 'hm'" in err


def test_an_unexpected_error_stops_the_sound(chat: FakeChat, run: Run, device: FakeLibrary) -> None:
    chat.failure = RuntimeError("out of luck")
    status, _, err = run("say", "--play", "hello")
    assert status == 1
    assert err.splitlines()[-1] == "chattts: error: RuntimeError: out of luck (-vv shows where)"
    assert device.stream.events == ["start", "abort", "close"]
