"""Small files that unpack to, or announce, a lot of data: sounds, speakers, samples, voices."""

from __future__ import annotations

import json
import lzma
import os
import pickle
import struct
import sys
import zipfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from ChatTTS.audio import read, reference_audio, save
from ChatTTS.config import Config
from ChatTTS.errors import AudioError, TextError, VoiceError
from ChatTTS.model.legacy_speaker import read_legacy_speaker
from ChatTTS.model.speaker import Speaker, decode_sample, encode_sample
from ChatTTS.text.characters import load_homophones
from ChatTTS.utils import base16384
from ChatTTS.voices import SavedVoice, VoiceLibrary, find_voice, read_voice

from ..support.capped_child import in_child

WIDTH = 64
CPU = torch.device("cpu")
linux = pytest.mark.skipif(sys.platform != "linux", reason="caps the memory as Linux does")


def silence(path: Path, seconds: int, rate: int, channels: int) -> Path:
    """Write a small file of many samples, whose silence compresses well, and return its path."""
    block = np.zeros((rate // 10, channels), np.int16)
    with soundfile.SoundFile(path, "w", rate, channels, "PCM_16", format="FLAC") as sound:
        for _ in range(10 * seconds):
            sound.write(block)
    return path


# ---------------------------------------------------------------- sounds

_READ = """
import soundfile, soxr
from ChatTTS.audio import read, reference_audio
from ChatTTS.errors import AudioError
cap(100)
samples, rate = read(sys.argv[1], 24_000)
print(len(samples), rate)
for path in sys.argv[1:]:
    try:
        reference_audio(path)
    except AudioError as error:
        print(error)
"""


@pytest.mark.slow
@linux
def test_a_small_file_of_many_samples_takes_little_memory(tmp_path: Path) -> None:
    wide = silence(tmp_path / "wide.flac", 6, 655_350, 8)  # 126 MB of float32
    slow = silence(tmp_path / "slow.flac", 31 * 8, 8_000, 2)
    assert wide.stat().st_size < 2**18
    lines = in_child(_READ, wide, slow)
    assert lines[0] == "144000 24000"
    assert "8 channels and 655350 samples a second" in lines[1]
    assert "248.00 s, which is too long" in lines[2]


def test_what_is_decoded_is_counted(tmp_path: Path) -> None:
    path = silence(tmp_path / "long.flac", 31, 8_000, 1)
    with pytest.raises(AudioError, match="lasts longer than 30 s"):
        read(path, longest=30)
    assert len(read(path, longest=31)[0]) == 31 * 8_000


def test_blocks_are_the_whole_file(tmp_path: Path) -> None:
    sound = np.random.default_rng(0).uniform(-0.5, 0.5, (300_000, 8)).astype(np.float32)
    path = tmp_path / "a.wav"
    soundfile.write(path, sound, 24_000, subtype="FLOAT")
    np.testing.assert_array_equal(read(path, mono=False)[0], sound.T)
    mean = np.ascontiguousarray(sound.T).mean(axis=0)
    np.testing.assert_array_equal(read(path)[0], mean)


def test_a_header_alone_is_no_sound(tmp_path: Path) -> None:
    path = save(tmp_path / "a.wav", np.zeros(100, np.float32))
    data = bytearray(path.read_bytes()[:44])
    data[40:44] = struct.pack("<I", 2**32 - 2)
    path.write_bytes(bytes(data))
    with pytest.raises(AudioError):
        reference_audio(path)


# ---------------------------------------------------------------- .pt files


def repack(path: Path, method: int, pickled: bytes | None = None) -> None:
    """Write the archive again, optionally compressed or with another pickle."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", method, compresslevel=1) as archive:
        for name, data in content.items():
            is_other = name.endswith("data.pkl")
            archive.writestr(name, pickled if is_other and pickled is not None else data)


_READ_PT = """
from pathlib import Path
from ChatTTS.model.legacy_speaker import read_legacy_speaker
from ChatTTS.errors import VoiceError
cap(100)
for path in sys.argv[1:]:
    try:
        read_legacy_speaker(Path(path))
    except VoiceError as error:
        print("refused" if len(str(error)) < 400 else error)
"""


class Hungry:
    """An object whose unpickling allocates a gigabyte, through a call that torch allows."""

    def __reduce__(self) -> tuple[type[bytearray], tuple[int]]:
        return (bytearray, (2**30,))


@pytest.mark.slow
@linux
def test_speakers_of_old_versions_take_no_more_than_they_have(tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.pt" for name in ("packed", "expanded", "called", "old")]
    torch.save(torch.zeros(1 << 26, dtype=torch.float16), files[0])
    repack(files[0], zipfile.ZIP_DEFLATED)
    torch.save(torch.ones(1).expand(10**12), files[1])
    torch.save(torch.ones(4), files[2])
    repack(files[2], zipfile.ZIP_STORED, pickle.dumps(Hungry(), protocol=2))
    torch.save(torch.ones(4), files[3], _use_new_zipfile_serialization=False)
    assert all(file.stat().st_size < 2**20 for file in files)
    assert in_child(_READ_PT, *files) == ["refused"] * len(files)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(WIDTH),
        torch.randn(1, WIDTH).half(),
        torch.randn(WIDTH).bfloat16(),
        torch.randn(WIDTH).double(),
        torch.nn.Parameter(torch.randn(WIDTH)),
        torch.randn(3, WIDTH)[1],
        torch.randn((3 << 20) // (4 * WIDTH), WIDTH)[5],  # a view, saved with its whole storage
    ],
)
@pytest.mark.parametrize("protocol", [2, 4])
def test_speakers_of_old_versions_are_read(
    tmp_path: Path, tensor: torch.Tensor, protocol: int
) -> None:
    torch.save(tensor, tmp_path / "a.pt", pickle_protocol=protocol)
    found = read_legacy_speaker(tmp_path / "a.pt")
    assert found.dtype == tensor.dtype
    assert torch.equal(found, tensor.detach())


def test_every_cut_and_every_flipped_byte_is_a_speaker_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save(torch.arange(4.0), path)
    whole = path.read_bytes()
    random = np.random.default_rng(0)
    for place in random.integers(0, len(whole), 150):
        for data in (whole[:place], whole[:place] + b"\xff" + whole[place + 1 :]):
            path.write_bytes(data)
            with suppress(VoiceError):
                assert read_legacy_speaker(path).numel() <= 4


def test_a_compressed_speaker_is_refused(tmp_path: Path) -> None:
    """A short file may unpack to one that fills the memory."""
    torch.save(torch.ones(4), tmp_path / "a.pt")
    repack(tmp_path / "a.pt", zipfile.ZIP_DEFLATED)
    with pytest.raises(VoiceError, match="is compressed"):
        read_legacy_speaker(tmp_path / "a.pt")


@pytest.mark.parametrize("tensor", [torch.arange(4), {"a": torch.ones(2)}, [1.0], torch.empty(0)])
def test_what_is_no_speaker_is_refused(tmp_path: Path, tensor: object) -> None:
    torch.save(tensor, tmp_path / "a.pt")
    with pytest.raises(VoiceError, match="not a saved speaker tensor"):
        read_legacy_speaker(tmp_path / "a.pt")
    with pytest.raises(VoiceError, match="cannot be read"):
        read_legacy_speaker(tmp_path / "none.pt")


# ---------------------------------------------------------------- strings


def bomb(megabytes: int) -> bytes:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0}]
    return lzma.compress(bytes(megabytes << 20), lzma.FORMAT_RAW, filters=filters)


_UNPACK = """
from ChatTTS.errors import VoiceError
from ChatTTS.model.speaker import Speaker, decode_sample
import torch
speaker = Speaker(64, "", torch.device("cpu"))
cap(150)  # 64 of them are the window of the packer
for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        string = file.read()
    for work in (lambda: speaker.vector(string), lambda: decode_sample(string, 4, 625)):
        try:
            work()
        except VoiceError as error:
            print("refused")
"""


@linux
@pytest.mark.slow
def test_strings_that_unpack_to_a_great_deal(tmp_path: Path) -> None:
    packed = bomb(200)
    paths = []
    for number, data in enumerate((packed, struct.pack("<HH", 4, 60_000) + packed)):
        paths.append(tmp_path / f"{number}.txt")
        paths[-1].write_text(base16384.encode(data), "utf-8")
        assert paths[-1].stat().st_size < 2**20
    assert in_child(_UNPACK, *paths) == ["refused"] * 4


@pytest.mark.parametrize(
    "text", ["", "\u3d06", "\u3d01\u3d06", "\u4e00\u3d06\u3d06", "\ud800", "a" * (5 << 20), 5, None]
)
def test_malformed_strings_are_refused(text: str) -> None:
    speaker = Speaker(WIDTH, "", CPU)
    for work in (lambda: speaker.vector(text), lambda: decode_sample(text, 4, 625)):
        with pytest.raises(VoiceError) as caught:
            work()
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize("statistics", ["\u3d06", "abc", "\u4e00" * 9, "\ud800"])
def test_malformed_statistics_are_refused(statistics: str) -> None:
    with pytest.raises(VoiceError, match="spk_stat"):
        Speaker(WIDTH, statistics, CPU)


def test_statistics_that_are_not_finite() -> None:
    values = np.full(2 * WIDTH, np.inf, "<f2")
    with pytest.raises(VoiceError, match="not finite"):
        Speaker(WIDTH, base16384.encode(values.tobytes()), CPU)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (6e4, torch.float16),
        (6e-8, torch.float16),
        (1e38, torch.float32),
        (1e-44, torch.float32),
        (1e308, torch.float64),
        (3e38, torch.bfloat16),
    ],
)
def test_a_norm_that_its_type_cannot_hold(value: float, dtype: torch.dtype) -> None:
    vector = torch.full((WIDTH,), value, dtype=dtype)
    found = Speaker(WIDTH, "", CPU).vector(vector)
    np.testing.assert_allclose(found, np.full(WIDTH, WIDTH**-0.5), rtol=1e-6)


# ---------------------------------------------------------------- voices and tables

VOICE = SavedVoice("anna", WIDTH, "a model", sample=encode_sample(np.ones((4, 9))), transcript="a")


@pytest.mark.parametrize("field", ["name", "model", "transcript", "consent", "sample"])
def test_halves_of_characters_are_not_kept(tmp_path: Path, field: str) -> None:
    library = VoiceLibrary(tmp_path)
    changes: dict[str, Any] = {field: "\ud800"}
    with pytest.raises(VoiceError):
        library.save(replace(VOICE, **changes))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [5, None, b"anna", ["anna"]])
def test_names_that_are_no_text(tmp_path: Path, name: str) -> None:
    library = VoiceLibrary(tmp_path)
    assert name not in library
    for work in (
        lambda: library.save(replace(VOICE, name=name)),
        lambda: library.load(name),
        lambda: library.remove(name),
        lambda: find_voice(name, Config(), library) if name is not None else library.load(name),
    ):
        with pytest.raises(VoiceError):
            work()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_pipes_are_no_voices(tmp_path: Path) -> None:
    for name in ("a.json", "a.txt", "a.pt"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(VoiceError, match="it is a pipe, and must be a regular file"):
        read_voice(tmp_path / "a.json")
    with pytest.raises(VoiceError, match="it is a pipe, and must be a regular file"):
        read_legacy_speaker(tmp_path / "a.pt")
    with pytest.raises(TextError, match="it is a pipe, and must be a regular file"):
        load_homophones(tmp_path / "a.json")


def test_voices_that_nest_without_end(tmp_path: Path) -> None:
    for data in (b"[" * 10**5, b'{"a":' * 10**5, b"1" * 5000, b" " * (2 << 20)):
        (tmp_path / "a.json").write_bytes(data)
        with pytest.raises(VoiceError):
            read_voice(tmp_path / "a.json")
    (tmp_path / "a.json").write_bytes(b"[" * 10**5)
    with pytest.raises(TextError):
        load_homophones(tmp_path / "a.json")
    (tmp_path / "a.json").write_text(json.dumps({"a": "b"}))
    assert load_homophones(tmp_path / "a.json") == {"a": "b"}
