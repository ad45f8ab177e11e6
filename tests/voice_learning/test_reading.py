"""Folders of recordings: both layouts, what is left out and why, and folders that are refused."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest

from ChatTTS.audio import save
from ChatTTS.core import Chat
from ChatTTS.errors import VoiceError
from ChatTTS.voice_learning.coded import FRAME_SAMPLES, encode_recordings
from ChatTTS.voice_learning.recordings import Recordings, read_recordings
from ChatTTS.voice_learning.transcripts import find_transcribed
from ChatTTS.voices import learn

from ..support.bundled_voice import UNKNOWN

RATE = 24_000


def voice(seconds: float = 2.0, level: float = 0.5) -> np.ndarray:
    """Gliding tones in bursts, which pass for speech."""
    time = np.arange(int(seconds * RATE)) / RATE
    glide = 2 * np.pi * (140 * time + 60 * np.sin(2 * np.pi * 1.7 * time))
    tone = sum(np.sin(k * glide) / k for k in range(1, 12))
    loud = 0.02 + np.clip(np.sin(2 * np.pi * 2.5 * time), 0, 1)
    noise = np.random.default_rng(0).standard_normal(len(time))
    wave = loud * (tone + 0.2 * noise)
    scaled: np.ndarray = (level * wave / np.abs(wave).max()).astype(np.float32)
    return scaled


def put(folder: Path, name: str, text: str | None = "hello there.", **changes: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    save(folder / f"{name}.wav", voice(**changes))
    if text is not None:
        (folder / f"{name}.txt").write_text(text, "utf-8")


def reasons(found: Recordings) -> dict[str, str]:
    return {each.name: each.reason for each in found.left_out}


def test_texts_beside_sound_files(tmp_path: Path) -> None:
    put(tmp_path, "b", "second.")
    put(tmp_path, "a", "first.\n")
    put(tmp_path, "c", None)
    put(tmp_path, "d", seconds=0.5)
    found = read_recordings(tmp_path)
    assert [(each.name, each.text) for each in found.kept] == [
        ("a.wav", "first."),
        ("b.wav", "second."),
    ]
    assert "no transcript" in reasons(found)["c.wav"]
    assert "d.wav" in reasons(found)
    assert 1.0 < found.kept[0].seconds < 2.2


def test_the_table_of_ljspeech(tmp_path: Path) -> None:
    put(tmp_path / "wavs", "x", None)
    put(tmp_path, "y", None)
    table = tmp_path / "metadata.csv"
    table.write_text("x|Dr. X|doctor X\ny.wav|why\n", "utf-8")
    assert [(t.name, t.text) for t in find_transcribed(tmp_path)] == [
        ("x", "doctor X"),
        ("y.wav", "why"),
    ]
    for line, reason in (
        ("../y|out", "leads out"),
        ("/etc/passwd|out", "leads out"),
        ("z|none", "no sound file"),
        ("x", "is not `name|text`"),
        ("x|a\nx|b", "twice"),
    ):
        table.write_text(line + "\n", "utf-8")
        with pytest.raises(VoiceError, match=reason.replace("|", r"\|")):
            find_transcribed(tmp_path)


def test_what_cannot_be_learned_from(tmp_path: Path) -> None:
    with pytest.raises(VoiceError, match="neither a folder"):
        read_recordings(tmp_path / "missing")
    with pytest.raises(VoiceError, match="no sound files"):
        read_recordings(tmp_path)
    put(tmp_path, "a", None)
    with pytest.raises(VoiceError, match="no transcripts"):
        read_recordings(tmp_path)
    one = read_recordings(tmp_path / "a.wav", "given here.")
    assert one.kept[0].text == "given here."
    save(tmp_path / "a.wav", np.clip(3 * voice(), -0.9, 0.9))
    with pytest.raises(VoiceError, match="clipped"):
        read_recordings(tmp_path / "a.wav", "loud.")
    save(tmp_path / "a.wav", np.zeros(2 * RATE, np.float32))
    with pytest.raises(VoiceError, match="silent"):
        read_recordings(tmp_path / "a.wav", "nothing.")


def test_links_do_not_lead_out(tmp_path: Path) -> None:
    put(tmp_path / "other", "a")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "a.wav").symlink_to(tmp_path / "other" / "a.wav")
    with pytest.raises(VoiceError, match="leads out"):
        find_transcribed(tmp_path / "own")


def test_codes_of_the_checkpoint(tmp_path: Path, bundled: Chat) -> None:
    put(tmp_path, "a", "hello there.")
    put(tmp_path, "b", UNKNOWN * 3)
    model = bundled._loaded
    coded, found = encode_recordings(
        read_recordings(tmp_path),
        dvae=model.dvae,
        normalizer=bundled.normalizer,
        tokenizer=model.tokenizer,
    )
    (only,) = coded
    assert "does not speak this language" in reasons(found)["b.wav"]
    assert only.codes.shape == (-(-len(found.kept[0].samples) // FRAME_SAMPLES), 4)
    assert 0 <= only.codes.min() <= only.codes.max() < 625


def test_names_are_printable(tmp_path: Path) -> None:
    put(tmp_path, "a\nb\x1b[31m", "hello there.")
    put(tmp_path, "c", None)
    try:
        (tmp_path / "c.wav").rename(tmp_path / "\udcff.wav")
    except (OSError, UnicodeError):
        pytest.skip("this file system takes no such name")
    found = read_recordings(tmp_path)
    assert [row[0] for row in found.rows()] == ["a\\nb\\x1b[31m.wav", "\\udcff.wav"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_pipes_and_links_to_themselves_are_told(tmp_path: Path) -> None:
    put(tmp_path, "a")
    (tmp_path / "b.txt").write_text("hello there.", "utf-8")
    os.mkfifo(tmp_path / "b.wav")
    assert "pipe" in reasons(read_recordings(tmp_path))["b.wav"]
    (tmp_path / "c.wav").symlink_to("c.wav")
    with pytest.raises(VoiceError, match=r"c\.wav|cannot be read"):
        read_recordings(tmp_path)
    with pytest.raises(VoiceError, match="cannot be read"):
        read_recordings("a" * 5000, "hello.")


def test_a_table_has_lines_and_no_other_marks(tmp_path: Path) -> None:
    put(tmp_path, "a", None)
    (tmp_path / "metadata.csv").write_bytes("a|hello\u2028there\x0c.\r\n".encode())
    assert [each.text for each in find_transcribed(tmp_path)] == ["hello\u2028there\x0c."]


def test_more_words_than_fit_into_the_sound(tmp_path: Path) -> None:
    put(tmp_path, "a", "hello there. " * 20, seconds=2.0)
    put(tmp_path, "b", "hello there. " * 8, seconds=2.0)
    found = read_recordings(tmp_path)
    assert [each.name for each in found.kept] == ["b.wav"]
    assert "259 characters" in reasons(found)["a.wav"]


@pytest.mark.parametrize(
    ("rate", "channels", "reason"),
    [(500_000_000, 1, "500000000 samples a second"), (48_000, 32, "32 channels")],
)
def test_seconds_that_are_gigabytes_are_not_read(
    tmp_path: Path, rate: int, channels: int, reason: str
) -> None:
    put(tmp_path, "good")
    put(tmp_path, "huge")
    head = bytearray((tmp_path / "huge.wav").read_bytes()[:44])
    size = 2 * rate * 2 * channels  # two seconds
    head[22:36] = struct.pack("<HIIHH", channels, rate, 2 * rate * channels, 2 * channels, 16)
    head[40:44] = struct.pack("<I", size)
    with (tmp_path / "huge.wav").open("wb") as file:
        file.write(head)
        file.truncate(44 + size)  # takes no room on the disk
    assert reason in reasons(read_recordings(tmp_path))["huge.wav"]


def test_a_table_of_millions_of_lines_or_fields(tmp_path: Path) -> None:
    put(tmp_path, "a", None)
    table = tmp_path / "metadata.csv"
    for text, reason in (
        ("\n" * 100_001, "100002 lines, more than"),
        ("a|" * 17, "more than 16 f"),
    ):
        table.write_text(text, "utf-8")
        with pytest.raises(VoiceError, match=reason):
            find_transcribed(tmp_path)


def test_a_transcript_that_is_far_longer_when_it_is_read_out(tmp_path: Path, bundled: Chat) -> None:
    put(tmp_path, "a", "9876543210 " * 150, seconds=29.0)
    with pytest.raises(
        VoiceError, match=r"a\.wav: its transcript, read out, .* the model has 4096"
    ):
        learn(bundled, tmp_path, show_tqdm=False)
