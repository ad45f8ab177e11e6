"""``Chat.read``: order, pauses, resume, loudness, chapters, cues in time; with a fake model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ChatTTS.audio import read
from ChatTTS.audio.samples import SAMPLE_RATE, Samples
from ChatTTS.core import Chat
from ChatTTS.errors import AudioError, ConfigError
from ChatTTS.longform import line_speaker, line_store
from ChatTTS.longform.arrange import arrange
from ChatTTS.longform.files import parse_script
from ChatTTS.longform.line_speaker import InterruptedReadingError
from ChatTTS.longform.line_store import LineStore, SpokenLine, SpokenPart
from ChatTTS.longform.recording import Recording, SpokenPiece
from ChatTTS.longform.script import ScriptError
from ChatTTS.longform.settings import Loudness, Pauses, ReadSettings, Role, read_roles
from ChatTTS.pipeline.results import Word
from ChatTTS.text import Lexicon
from ChatTTS.utils.cache_files import atomic_write

from ..support.chat_tools import LIVELY
from ..support.longform_tools import Speaks, tone
from ..support.places import ROOT

SETTINGS = ReadSettings(parameters=LIVELY)


@pytest.fixture
def infer(standard: Chat, monkeypatch: pytest.MonkeyPatch) -> Speaks:
    fake = Speaks()
    monkeypatch.setattr(standard, "infer", fake)
    monkeypatch.setattr(standard, "find_alignment_heads", lambda **_: fake.searches.append(1))
    return fake


def sound_of(recording: Recording) -> Samples:
    parts: list[Samples] = []
    for piece in recording:
        parts += [np.zeros(piece.silence_before, np.float32), piece.samples]
        parts.append(np.zeros(piece.silence_after, np.float32))
    return np.concatenate(parts)


BOOK = """# One

Hello there. [pause:1.5s] Good day.

The second paragraph.

# Two

The end."""


# ---------------------------------------------------------------- order and places


def test_pieces_come_in_order_with_exact_pauses(standard: Chat, infer: Speaks) -> None:
    pauses = Pauses(paragraph=0.5, chapter=3.0)
    settings = replace(SETTINGS, pauses=pauses, word_times=True, side_by_side=3)
    script = parse_script(BOOK, "a.md", "markdown")
    with standard.read(script, settings) as recording:
        pieces = list(recording)
    assert [piece.line.text for piece in pieces] == [line.text for line in script.lines]
    seconds = [piece.silence_after / SAMPLE_RATE for piece in pieces]
    assert seconds == [0.5, 1.5, 0.5, 3.0, 0.5, 0.0]
    cursor = 0
    for piece in pieces:
        assert piece.position == cursor
        cursor = piece.end
        # Nothing is left of the silence that the model spoke, but 20 ms; edges are silent.
        assert piece.samples[0] == 0
        assert abs(piece.samples[-1]) < 1e-3
        assert piece.words[0].start_sample == piece.position + 480
        assert piece.words[0].text == piece.line.text


def test_lines_are_spoken_side_by_side_within_a_window(standard: Chat, infer: Speaks) -> None:
    script = parse_script("\n\n".join(f"Line number {n}." for n in range(40)))
    infer.together = threading.Barrier(4)
    settings = replace(SETTINGS, side_by_side=4)
    with standard.read(script, settings) as recording:
        pieces = iter(recording)
        next(pieces)
        time.sleep(0.2)  # for lines that should not begin
        # Two windows of 4: the first line, which was given out, and seven more.
        assert len(infer.said) <= 8
        assert len(list(pieces)) == 39
    assert infer.most == 4


def test_lines_of_many_utterances_wait_for_one_another(
    standard: Chat, infer: Speaks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_speaker, "_UTTERANCES", 2)
    sentences = " ".join(f"This is the sentence number {n} of a paragraph." for n in range(5))
    text = "\n\n".join(f"{sentences} It is {n}." for n in range(6))
    settings = replace(SETTINGS, side_by_side=3)
    with standard.read(text, settings) as recording:
        assert len(list(recording)) == 6
    assert infer.most == 1
    infer.most = 0
    short = "\n\n".join(f"It is {n}." for n in range(12))
    infer.together = threading.Barrier(3)
    with standard.read(short, settings) as recording:
        list(recording)
    assert infer.most == 3


def test_an_error_is_told_with_its_line_before_anything_is_spoken(
    standard: Chat, infer: Speaks
) -> None:
    lines = "".join(f"Anna: line {n}.\n" for n in range(899)) + "Zoe: hi.\n"
    settings = replace(SETTINGS, voices={"Anna": Role()})
    with pytest.raises(ScriptError, match=r"^script:900: there is no voice 'Zoe'"):
        standard.read(lines, settings)
    assert infer.said == []


def test_an_error_while_speaking_keeps_what_was_spoken(
    standard: Chat, infer: Speaks, tmp_path: Path
) -> None:
    infer.fails_at = "The second paragraph."
    script = parse_script(BOOK, "a.md", "markdown")
    recording = standard.read(script, SETTINGS, folder=tmp_path)
    with pytest.raises(ScriptError, match=r"^a\.md:5: no such thing"):
        list(recording)
    assert len(list(tmp_path.glob("*.line"))) >= 3


# ---------------------------------------------------------------- resume


def test_only_a_changed_line_is_spoken_again(standard: Chat, infer: Speaks, tmp_path: Path) -> None:
    script = parse_script(BOOK, "a.md", "markdown")
    first = sound_of(standard.read(script, SETTINGS, folder=tmp_path))
    said = list(infer.said)
    assert sorted(said) == sorted(line.text for line in script.lines)
    again = standard.read(script, SETTINGS, folder=tmp_path)
    assert again.lines_kept == len(script.lines)
    assert np.array_equal(sound_of(again), first)
    assert infer.said == said
    changed = parse_script(BOOK.replace("second", "third"), "a.md", "markdown")
    list(standard.read(changed, SETTINGS, folder=tmp_path))
    assert infer.said[len(said) :] == ["The third paragraph."]
    for other in (
        replace(SETTINGS, seed=5),
        replace(SETTINGS, parameters={**LIVELY, "manual_seed": 4, "temperature": 0.5}),
        replace(SETTINGS, guard="report"),
        replace(SETTINGS, word_times=True),
    ):
        assert standard.read(script, other, folder=tmp_path).lines_kept == 0, other
    # A lexicon changes the lines that have its words, and no others.
    lexicon = Lexicon.of({"second": "other"})
    with_lexicon = replace(SETTINGS, lexicon=lexicon)
    assert standard.read(script, with_lexicon, folder=tmp_path).lines_kept == len(script.lines) - 1
    assert len(infer.searches) == 2  # for the guard and for the words
    guarded = replace(SETTINGS, guard="report", seed=6)
    list(standard.read(script, guarded, folder=tmp_path))
    assert infer.seeds[-1] == 6
    assert standard.read(script, replace(guarded, guard="retry"), folder=tmp_path).lines_kept == 0


def test_a_damaged_line_is_spoken_again(standard: Chat, infer: Speaks, tmp_path: Path) -> None:
    script = parse_script("One line.\n\nAnother line.")
    first = sound_of(standard.read(script, SETTINGS, folder=tmp_path))
    for path, data in zip(sorted(tmp_path.glob("*.line")), (b"", b"\xff" * 90), strict=True):
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) - 400] + data)
    (tmp_path / "chattts-unfinished-1").write_bytes(b"half")
    assert np.array_equal(sound_of(standard.read(script, SETTINGS, folder=tmp_path)), first)
    assert len(infer.said) == 4


def test_a_full_disk_loses_nothing(
    standard: Chat, infer: Speaks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = atomic_write

    def full(path: Path) -> Any:
        if len(infer.said) > 2:
            raise OSError(28, "No space left on device")
        return write(path)

    monkeypatch.setattr(line_store, "atomic_write", full)
    script = parse_script(BOOK, "a.md", "markdown")
    with pytest.raises(AudioError, match=r"No space left.*not lost"):
        list(standard.read(script, SETTINGS, folder=tmp_path))
    monkeypatch.undo()
    monkeypatch.setattr(standard, "infer", infer)
    list(standard.read(script, SETTINGS, folder=tmp_path))
    assert sorted(infer.said).count("The second paragraph.") <= 2
    assert infer.said.count("One") == 1


def test_an_interrupt_ends_the_reading(standard: Chat, infer: Speaks) -> None:
    interrupt = threading.Event()
    with standard.read(BOOK, SETTINGS, interrupt=interrupt) as recording:
        pieces = iter(recording)
        next(pieces)
        infer.together = threading.Barrier(2)  # the next line does not end by itself
        interrupt.set()
        infer.together.abort()
        with pytest.raises((InterruptedReadingError, threading.BrokenBarrierError)):
            list(pieces)


def test_lines_are_kept_exactly(tmp_path: Path) -> None:
    kept = LineStore(tmp_path / "new" / "folder")
    word = Word("a", 0.1, 0.2, 2400, 4800, 0, 1, 0.5)
    spoken = SpokenLine(tone(300, 0.1), (SpokenPart("ä。", 2400),), (word,))
    kept.save("key", spoken)
    loaded = kept.load("key")
    assert loaded is not None
    assert np.array_equal(loaded.samples, spoken.samples)
    assert (loaded.parts, loaded.words) == (spoken.parts, spoken.words)
    assert kept.load("other") is None
    kept.remove()
    assert not (tmp_path / "new" / "folder").exists()


def test_edges_rise_and_fall_within_5_ms() -> None:
    sound = tone(300, 0.5) + np.float32(0.1)
    parts = (SpokenPart("One.", 6000), SpokenPart("two", 6000))
    samples = arrange(SpokenLine(sound, parts), Pauses(sentence=0.1)).samples
    first, silence, second = np.split(samples, [6000, 8400])
    assert not silence.any()
    for part, spoken in ((first, sound[:6000]), (second, sound[6000:])):
        assert part[0] == part[-1] == 0
        assert np.abs(np.diff(part[[0, 1, -2, -1]]))[[0, 2]].max() < 0.01
        assert np.array_equal(part[120:-120], spoken[120:-120])


# ---------------------------------------------------------------- cues


CUES = """1
00:00:01,000 --> 00:00:01,500
Much too long for it.

2
00:00:02,000 --> 00:00:04,000
It fits.
"""


@pytest.mark.parametrize(("seconds", "starts"), [(1.2, [1.0, 2.0]), (2.4, [1.0, 2.627])])
def test_cues_begin_at_their_times_with_a_bounded_tempo(
    seconds: float,
    starts: list[float],
    standard: Chat,
    infer: Speaks,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pytest.importorskip("av")
    infer.seconds = seconds
    with standard.read(parse_script(CUES, "a.srt", "cues"), SETTINGS) as recording:
        pieces = list(recording)
    found = [piece.position / SAMPLE_RATE for piece in pieces]
    assert found == pytest.approx(starts, abs=1e-3)
    # The room of the first cue is a second; at most 1.5 times as fast.
    assert len(pieces[0].samples) <= max(SAMPLE_RATE, (seconds + 0.04) / 1.5 * SAMPLE_RATE + 2)
    assert ("a.srt:6: it begins 0.63 s late" in caplog.text) == (seconds > 2)


def test_a_late_cue_is_told_once(
    standard: Chat, infer: Speaks, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("av")
    infer.seconds = 2.4
    with standard.read(parse_script(CUES, "a.srt", "cues"), SETTINGS) as recording:
        for _ in range(3):
            list(recording)
    assert caplog.text.count("late, since the cue") == 1


# ---------------------------------------------------------------- the finished work


def test_a_work_has_its_loudness_chapters_and_length(
    standard: Chat, infer: Speaks, tmp_path: Path
) -> None:
    av = pytest.importorskip("av")
    pyloudnorm = pytest.importorskip("pyloudnorm")
    script = replace(parse_script(BOOK, "a.md", "markdown"), author="Me", cover=PNG)
    heard: list[SpokenPiece] = []
    with standard.read(script, SETTINGS) as recording:
        target = recording.save(tmp_path / "a.flac", Loudness(-18.0), heard=heard.append)
        again = recording.save(tmp_path / "b.flac", Loudness(-18.0))
        plain = recording.save(tmp_path / "c.wav", None)
        length = sum(1 for _ in sound_of(recording))
    samples, _ = read(target)
    assert [piece.number for piece in heard] == list(range(6))
    assert len(samples) == length
    assert len(read(plain)[0]) == length
    loudness = pyloudnorm.Meter(SAMPLE_RATE).integrated_loudness(samples.astype(np.float64))
    assert loudness == pytest.approx(-18.0, abs=0.1)
    assert target.read_bytes() == again.read_bytes()
    with av.open(str(target)) as file:
        titles = [(c["metadata"]["title"], c["start"]) for c in file.chapters()]
        assert file.metadata["title"] == "One"
        assert file.metadata["artist"] == "Me"
        assert [stream.type for stream in file.streams] == ["audio", "video"]
    second = next(piece for piece in heard if piece.line.chapter == 1)
    assert titles == [("One", 0), ("Two", round(second.position / SAMPLE_RATE * 1000))]


# One black point.
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55"
    "0000000a49444154789c6360000000020001e221bc330000000049454e44ae426082"
)


@pytest.mark.parametrize("ending", ["m4b", "mp3", "opus"])
def test_every_format_has_title_chapters_and_cover(
    ending: str, standard: Chat, infer: Speaks, tmp_path: Path
) -> None:
    av = pytest.importorskip("av")
    script = replace(parse_script(BOOK, "a.md", "markdown"), cover=PNG)
    with standard.read(script, SETTINGS) as recording:
        target = recording.save(tmp_path / f"a.{ending}")
        assert target.read_bytes() == recording.save(tmp_path / f"b.{ending}").read_bytes()
    with av.open(str(target)) as file:
        assert [c["metadata"]["title"] for c in file.chapters()] == ["One", "Two"]
        assert {**file.metadata, **file.streams.audio[0].metadata}["title"] == "One"
        assert any(stream.type == "video" for stream in file.streams)


def test_a_cover_that_no_file_can_hold_is_left_out(
    standard: Chat, infer: Speaks, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    av = pytest.importorskip("av")
    cover = PNG[:16] + bytes(8) + PNG[24:]
    script = replace(parse_script(BOOK, "a.md", "markdown"), cover=cover)
    with standard.read(script, SETTINGS) as recording:
        target = recording.save(tmp_path / "a.m4b", None)
    assert "the cover is no JPEG or PNG" in caplog.text
    with av.open(str(target)) as file:
        assert [stream.type for stream in file.streams if stream.type == "video"] == []


def test_voices_are_levelled_in_streams_by_one_gain_each(standard: Chat, infer: Speaks) -> None:
    pyloudnorm = pytest.importorskip("pyloudnorm")
    settings = replace(SETTINGS, voices={"A": Role(), "B": Role()})
    text = "A: The first line.\nB: The other one.\nA: The third line."
    with standard.read(text, settings) as recording:
        plain, level = list(recording), list(recording.levelled())
    meter = pyloudnorm.Meter(SAMPLE_RATE)
    for piece in level[:2]:
        found = meter.integrated_loudness(piece.samples.astype(np.float64))
        assert found == pytest.approx(-16.0, abs=0.3)
    gains = [
        float(np.abs(after.samples).max() / np.abs(before.samples).max())
        for before, after in zip(plain, level, strict=True)
    ]
    assert gains[2] == pytest.approx(gains[0], rel=1e-3)
    assert recording.speakers == ("A", "B")


def test_a_first_line_too_short_to_measure_does_not_decide_the_gain(
    standard: Chat, infer: Speaks, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyloudnorm = pytest.importorskip("pyloudnorm")
    spoken = infer.spoken
    infer.seconds = 0.2
    short = spoken("Hi.")
    monkeypatch.setattr(infer, "spoken", lambda text: spoken(text) if text != "Hi." else short)
    infer.seconds = 1.5
    settings = replace(SETTINGS, voices={"A": Role()})
    with standard.read("A: Hi.\nA: The second line.", settings) as recording:
        last = list(recording.levelled())[-1]
    meter = pyloudnorm.Meter(SAMPLE_RATE)
    found = meter.integrated_loudness(last.samples.astype(np.float64))
    assert found == pytest.approx(-16.0, abs=0.3)


def test_subtitles_need_word_times_and_follow_the_sound(
    standard: Chat, infer: Speaks, tmp_path: Path
) -> None:
    with (
        standard.read("Hello there.\n\nGood day.", SETTINGS) as recording,
        pytest.raises(ConfigError, match="word_times"),
    ):
        recording.save(tmp_path / "a.wav", None, subtitles=tmp_path / "a.json")
    infer.seconds = 1.5
    settings = replace(SETTINGS, word_times=True)
    with standard.read("Hello there.\n\nGood day.", settings) as recording:
        recording.save(tmp_path / "a.wav", None, subtitles=tmp_path / "a.lrc")
        second = list(recording)[1]
    times = (tmp_path / "a.lrc").read_text().splitlines()
    assert len(times) >= 2
    assert f"{second.words[0].start:.2f}" in times[1]


# ---------------------------------------------------------------- roles


def test_roles_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "roles.toml"
    path.write_text('Anna = "edith"\n[Bob]\nvoice = "clara"\nspeed = 3\ntempo = 1.1\n')
    roles = read_roles(path)
    assert (roles["Anna"].voice, roles["Bob"].voice) == ("edith", "clara")
    assert (roles["Bob"].style.speed, roles["Bob"].style.tempo) == (3, 1.1)
    for wrong, message in (
        ("Anna = 3", "Anna must be a voice"),
        ("[Anna]\nspeed = 11", "Anna: speed"),
        ("[Anna]\ncolour = 1", "colour"),
        ("Anna = ", "not valid TOML"),
    ):
        path.write_text(wrong)
        with pytest.raises(ScriptError, match=message):
            read_roles(path)


# ---------------------------------------------------------------- a real model


@pytest.fixture(scope="module")
def velocity() -> Iterator[Chat]:
    chat = Chat()
    chat.load_or_raise("bundled", device="cpu", use_vllm=True, num_threads=1)
    yield chat
    chat.unload()


@pytest.mark.slow
def test_side_by_side_gives_the_samples_of_one_after_another(velocity: Chat) -> None:
    text = "A: Hello there.\nB: Good day to you.\nA: And a good night."
    roles = {"A": Role("edith"), "B": Role("miles")}
    sounds = []
    for count in (1, 4):
        settings = ReadSettings(voices=roles, side_by_side=count)
        with velocity.read(text, settings) as recording:
            sounds.append(sound_of(recording))
    assert np.array_equal(sounds[0], sounds[1])


KILLED = """
import sys
from ChatTTS.core import Chat
from ChatTTS.longform.settings import ReadSettings
chat = Chat()
chat.load_or_raise("bundled", device="cpu", use_vllm=True, num_threads=1)
text = "\\n\\n".join(f"This is line {n} of a book." for n in range(12))
chat.read(text, ReadSettings(), folder=sys.argv[1]).save(sys.argv[2])
"""


@pytest.mark.thorough
def test_a_killed_reading_goes_on_to_the_same_file(tmp_path: Path) -> None:
    pytest.importorskip("av")

    def start(name: str) -> subprocess.Popen[bytes]:
        arguments = [
            sys.executable,
            "-c",
            KILLED,
            str(tmp_path / name),
            str(tmp_path / f"{name}.m4b"),
        ]
        return subprocess.Popen(arguments, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)})

    assert start("undisturbed").wait(300) == 0
    for most in (1, 4, 9):
        child = start("killed")
        until = time.monotonic() + 300
        while len(list((tmp_path / "killed").glob("*.line"))) < most:
            assert child.poll() is None
            assert time.monotonic() < until
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert not (tmp_path / "killed.m4b").exists()
    assert start("killed").wait(300) == 0
    whole = (tmp_path / "undisturbed.m4b").read_bytes()
    assert (tmp_path / "killed.m4b").read_bytes() == whole


def test_a_kept_line_that_vanishes_is_an_error(
    standard: Chat, infer: Speaks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_speaker.LineSpeaker, "_speak", lambda *_: None)
    with pytest.raises(AudioError, match="run the command again"):
        list(standard.read("Hello there.", SETTINGS, folder=tmp_path))
