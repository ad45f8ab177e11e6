"""Saving and reading sound files."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from ChatTTS.audio import FORMATS, encode, read, save, to_int16
from ChatTTS.errors import AudioError


def chirp(rate: int = 24_000, seconds: float = 1.3) -> np.ndarray:
    t = np.arange(round(seconds * rate)) / rate
    return (0.5 * np.sin(2 * np.pi * (150 + 400 * t) * t)).astype(np.float32)


@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 24_000, 44_100, 48_000])
@pytest.mark.parametrize(("ending", "bound"), [("wav", 2**-16), ("flac", 2**-16)])
def test_lossless_formats_come_back_within_half_a_step(
    tmp_path: Path, rate: int, ending: str, bound: float
) -> None:
    wav = chirp(rate)
    back, found = read(save(tmp_path / f"a.{ending}", wav, rate))
    assert found == rate
    assert back.dtype == np.float32
    assert back.shape == wav.shape
    assert np.abs(back - wav).max() <= bound


@pytest.mark.slow
@pytest.mark.parametrize("rate", [8_000, 16_000, 24_000, 48_000])
@pytest.mark.parametrize("ending", ["mp3", "ogg", "opus"])
def test_compressed_formats_keep_length_and_shape(tmp_path: Path, rate: int, ending: str) -> None:
    wav = chirp(rate)
    back, found = read(save(tmp_path / f"a.{ending}", wav, rate))
    assert found == rate
    assert len(back) == len(wav)
    assert np.corrcoef(back, wav)[0, 1] > 0.99


def test_float_wav_is_exact_even_beyond_full_scale(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wav = chirp() * 3
    back, _ = read(save(tmp_path / "a.wav", wav, subtype="float"))
    assert np.array_equal(back, wav)
    assert not caplog.records


def test_int16_is_written_unchanged(tmp_path: Path) -> None:
    wav = np.array([0, 1, -1, 12345, 32767, -32768], dtype=np.int16)
    for ending in ("wav", "flac"):
        path = save(tmp_path / f"a.{ending}", wav)
        assert np.array_equal(soundfile.read(path, dtype="int16")[0], wav)
        assert soundfile.info(path).subtype == "PCM_16"


def test_whatever_holds_one_waveform_is_saved(tmp_path: Path) -> None:
    wav = chirp()
    expected = encode(wav, "wav")
    given = [
        wav[None],
        wav[:, None],
        [wav],
        [wav[None]],
        wav.tolist(),
        wav.astype(np.float64),
        torch.from_numpy(wav),
        torch.from_numpy(wav).requires_grad_(),
        [torch.from_numpy(wav)[None]],
    ]
    for value in given:
        assert save(tmp_path / "a.wav", value).read_bytes() == expected
    half = torch.from_numpy(wav).to(torch.bfloat16)
    assert encode(half, "wav") == encode(half.float(), "wav")


def test_format_overrides_the_ending(tmp_path: Path) -> None:
    path = save(tmp_path / "a.part", chirp(), format="flac")
    assert path == tmp_path / "a.part"
    assert soundfile.info(path).format == "FLAC"
    assert soundfile.info(save(tmp_path / "B.OGG", chirp())).subtype == "VORBIS"


def test_clipping_is_counted_once_and_never_wraps(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wav = np.array([0.5, 1.5, -2.0, 1.0, -1.0], dtype=np.float32)
    with caplog.at_level(logging.WARNING, logger="ChatTTS"):
        back, _ = read(save(tmp_path / "a.wav", wav))
    assert np.allclose(back, [0.5, 1, -1, 1, -1], atol=2**-15)
    assert len(caplog.records) == 1
    assert "clipped 2 of 5" in caplog.text


@pytest.mark.slow
def test_minutes_of_vorbis_do_not_crash() -> None:
    # libsndfile's Vorbis writer overruns the stack on one large write, so a child process writes.
    code = (
        "import numpy as np; from ChatTTS.audio import encode;"
        "print(len(encode(np.zeros(24_000 * 240, np.float32), 'ogg')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0


@pytest.mark.parametrize(
    ("wav", "message"),
    [
        (np.zeros(0, np.float32), "wav is empty"),
        ([], "wav is empty"),
        (np.zeros((2, 100)), r"shape \(2, 100\), which is more than one waveform"),
        ([np.zeros(3), np.zeros(4)], "list of 2 waveforms; give one at a time, such as wav\\[0\\]"),
        (np.float32(0.5), "single number"),
        (np.array([0.0, np.nan, np.inf]), "NaN or infinity in 2 of 3"),
        (np.array([1e300]), "NaN or infinity in 1 of 1"),
        (np.zeros(9, np.int64), "int64 values, which have no known full scale"),
        (np.zeros(9, bool), "bool values"),
        ((x for x in (1.0, 2.0)), "of type generator, which holds no samples"),
        (None, "of type NoneType"),
        ("hello", "of type str"),
        ([0.0, [1.0, 2.0]], "not a regular array"),
    ],
)
def test_unusable_waveforms_are_named_and_leave_no_file(
    tmp_path: Path, wav: object, message: str
) -> None:
    with pytest.raises(AudioError, match=message):
        save(tmp_path / "a.wav", wav)
    assert not list(tmp_path.iterdir())


def test_unknown_endings_name_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match=r"the ending \.m4a, which is unknown; use one of \.wav"):
        save(tmp_path / "a.m4a", chirp())
    with pytest.raises(AudioError, match="has no ending"):
        save(tmp_path / "a", chirp())
    with pytest.raises(AudioError, match="format 'aac' is unknown; use one of wav, flac, mp3"):
        encode(chirp(), "aac")
    with pytest.raises(AudioError, match=r"flac has no subtype FLOAT; use one of .*PCM_24"):
        encode(chirp(), "flac", subtype="FLOAT")
    assert FORMATS == ("wav", "flac", "mp3", "ogg", "opus")


def test_rates_that_a_format_lacks_are_refused() -> None:
    with pytest.raises(
        AudioError, match=r"opus with OPUS cannot be written at 44100 .*\(Opus only"
    ):
        encode(chirp(), "opus", 44_100)
    with pytest.raises(AudioError, match=r"mp3 .* at 12345 samples a second \(.+\); use 24000"):
        encode(chirp(), "mp3", 12_345)
    wrong: list[Any] = [0, -1, 24_000.5, "24000", True, None]
    for rate in wrong:
        with pytest.raises(AudioError, match="sample_rate must be a positive whole number"):
            encode(chirp(), "wav", rate)


def test_an_old_libsndfile_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soundfile, "available_formats", lambda: {"WAV": "", "FLAC": "", "OGG": ""})
    with pytest.raises(AudioError, match=r"libsndfile .* cannot write mp3; .*upgrade soundfile"):
        encode(chirp(), "mp3")


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match=r"the folder .*missing does not exist"):
        save(tmp_path / "missing" / "a.wav", chirp())
    (tmp_path / "a.wav").mkdir()
    with pytest.raises(AudioError, match="is a folder; name a file in it"):
        save(tmp_path / "a.wav", chirp())


def test_an_interrupted_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(tmp_path / "a.wav", chirp())
    before = path.read_bytes()

    def full_disk(self: Path, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full_disk)
    with pytest.raises(AudioError, match="cannot be written: No space left on device"):
        save(path, chirp()[::-1])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="links and pipes as on Unix")
def test_links_and_pipes_are_written_through(tmp_path: Path) -> None:
    real = save(tmp_path / "real.wav", chirp())
    link = tmp_path / "link.wav"
    link.symlink_to(real)
    save(link, np.zeros(10))
    assert link.is_symlink()
    assert len(read(real)[0]) == 10

    pipe = tmp_path / "pipe.wav"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        save(pipe, np.zeros(10))
        assert os.read(reader, 4096) == encode(np.zeros(10), "wav")
        assert pipe.is_fifo()
    finally:
        os.close(reader)


def test_saved_files_have_ordinary_permissions(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    path = save(tmp_path / "a.wav", chirp())
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_reading_stereo_and_other_rates(tmp_path: Path) -> None:
    left, right = chirp(48_000), -0.5 * chirp(48_000)
    path = tmp_path / "stereo.wav"
    soundfile.write(path, np.stack([left, right], axis=1), 48_000, subtype="FLOAT")
    channels, rate = read(path, mono=False)
    assert rate == 48_000
    assert np.array_equal(channels, np.stack([left, right]))
    assert np.allclose(read(path)[0], (left + right) / 2, atol=1e-7)

    resampled, rate = read(path, 24_000)
    assert rate == 24_000
    assert abs(len(resampled) - len(left) // 2) <= 1
    inner = slice(500, 20_000)  # away from the resampler's edges
    assert np.allclose(resampled[inner], 0.25 * chirp(24_000)[inner], atol=1e-3)
    assert read(path, 24_000, mono=False)[0].shape == (2, len(resampled))


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match=r"none\.wav does not exist"):
        read(tmp_path / "none.wav")
    with pytest.raises(AudioError, match="is a folder, not a sound file"):
        read(tmp_path)
    for name, data in (("empty.wav", b""), ("text.mp3", b"hello " * 99)):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(AudioError, match=f"{name} is not a readable sound file"):
            read(tmp_path / name)
    (tmp_path / "a.raw").write_bytes(b"\0" * 99)
    with pytest.raises(AudioError, match=r"a\.raw has no header that gives its sample rate"):
        read(tmp_path / "a.raw")
    soundfile.write(tmp_path / "none.wav", np.zeros(0), 24_000)
    with pytest.raises(AudioError, match="holds no samples"):
        read(tmp_path / "none.wav")


def test_to_int16_rounds_and_clips() -> None:
    values = to_int16(np.array([[0.0, 0.6 / 32768, -0.6 / 32768], [1.0, 7.0, -7.0]]))
    assert values.dtype == np.int16
    assert values.tolist() == [[0, 1, -1], [32767, 32767, -32768]]
    every = np.arange(-32768, 32768).astype(np.int16)
    assert np.array_equal(to_int16(every.astype(np.float32) / 32768), every)
    with pytest.raises(AudioError, match="samples holds NaN"):
        to_int16([np.nan])


def test_importing_is_cheap() -> None:
    code = (
        "import sys, ChatTTS.audio;"
        "print({'torch', 'soundfile', 'soxr', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
