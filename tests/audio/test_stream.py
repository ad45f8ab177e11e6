"""A WAV file that is written piece by piece, and PCM without a header."""

from __future__ import annotations

import io
import logging
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from ChatTTS.audio import PCMWriter, WavWriter, encode, read, to_int16
from ChatTTS.errors import AudioError


def noise(n: int) -> np.ndarray:
    return np.random.default_rng(n).uniform(-1, 1, n).astype(np.float32)


class Pipe(io.RawIOBase):
    """A binary stream that cannot seek."""

    def __init__(self) -> None:
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.data += bytes(data)
        return len(data)


def sizes(data: bytes) -> tuple[int, int]:
    return struct.unpack_from("<I", data, 4)[0], struct.unpack_from("<I", data, 40)[0]


def test_the_file_is_valid_after_every_chunk(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    chunks = [noise(n) for n in (1, 5000, 777)]
    written = np.zeros(0, np.float32)
    with WavWriter(path) as writer:
        assert sizes(path.read_bytes()) == (36, 0)
        for chunk in chunks:
            writer.write(chunk)
            written = np.concatenate([written, chunk])
            data = path.read_bytes()
            assert sizes(data) == (len(data) - 8, len(data) - 44)
            samples, rate = read(path)
            assert rate == 24_000
            assert np.array_equal(to_int16(samples), to_int16(written))
            assert writer.samples_written == len(written)
    assert path.read_bytes() == encode(written, "wav")


def test_shapes_of_chunks_and_empty_ones(tmp_path: Path) -> None:
    with WavWriter(tmp_path / "a.wav", 16_000) as writer:
        writer.write(noise(10)[None])
        writer.write(np.zeros((1, 0), np.float32))
        writer.write(to_int16(noise(20)))
        writer.write([noise(5)])
    samples, rate = read(tmp_path / "a.wav")
    assert rate == 16_000
    expected = np.concatenate([noise(10), noise(20), noise(5)])
    assert np.array_equal(to_int16(samples), to_int16(expected))


def test_a_stream_that_cannot_seek_has_open_sizes(tmp_path: Path) -> None:
    pipe: Any = Pipe()
    with WavWriter(pipe) as writer:
        writer.write(noise(300))
        writer.write(noise(400))
    assert sizes(pipe.data) == (0xFFFFFFFF, 0xFFFFFFFF)
    assert not pipe.closed
    path = tmp_path / "a.wav"
    path.write_bytes(pipe.data)
    expected = to_int16(np.concatenate([noise(300), noise(400)]))
    assert np.array_equal(to_int16(read(path)[0]), expected)


def test_a_stream_is_written_from_where_it_stands() -> None:
    stream = io.BytesIO(b"before")
    stream.seek(6)
    with WavWriter(stream) as writer:
        writer.write(noise(100))
    assert stream.getvalue() == b"before" + encode(noise(100), "wav")
    assert stream.tell() == len(stream.getvalue())


def test_sizes_past_4_gib_stay_at_the_largest() -> None:
    class Large(io.BytesIO):
        """A file that accepts a seek past 4 GiB, and keeps only the header."""

        def seek(self, position: int, whence: int = 0) -> int:
            return super().seek(min(position, 100), whence)

    stream = Large()
    writer = WavWriter(stream)
    writer._data_bytes = 2**32
    writer.write(noise(10))
    assert sizes(stream.getvalue()) == (0xFFFFFFFF, 0xFFFFFFFF)


def test_pcm_is_little_endian_16_bit(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with PCMWriter(stream) as writer:
        writer.write(np.array([0.0, 0.5, -0.5, 1.0, -1.0]))
        writer.write([])
        assert writer.samples_written == 5
    assert struct.unpack("<5h", stream.getvalue()) == (0, 16384, -16384, 32767, -32768)
    with PCMWriter(tmp_path / "a.pcm") as writer:
        writer.write(np.zeros(3, np.int16))
        assert (tmp_path / "a.pcm").stat().st_size == 6  # flushed, though not closed


def test_clipping_is_told_once_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="ChatTTS"):
        writer = PCMWriter(io.BytesIO())
        writer.write([2.0, 0.0])
        writer.write([-3.0, 0.5])
        assert not caplog.records
        writer.close()
        writer.close()
    assert [record.getMessage() for record in caplog.records] == [
        "clipped 2 of 4 samples that lie beyond [-1, 1]"
    ]


def test_what_cannot_be_written(tmp_path: Path) -> None:
    writer = WavWriter(tmp_path / "a.wav")
    with pytest.raises(AudioError, match="samples holds NaN"):
        writer.write([float("nan")])
    with pytest.raises(AudioError, match=r"samples has shape \(2, 9\)"):
        writer.write(np.zeros((2, 9)))
    writer.write(noise(9))
    writer.close()
    assert len(read(tmp_path / "a.wav")[0]) == 9
    with pytest.raises(AudioError, match="the writer is closed"):
        writer.write(noise(9))
    with pytest.raises(AudioError, match=r"the folder .* does not exist"):
        WavWriter(tmp_path / "missing" / "a.wav")
    with pytest.raises(AudioError, match="is a folder"):
        PCMWriter(tmp_path)
    with pytest.raises(AudioError, match="text stream; open it with mode 'wb'"):
        WavWriter(cast(Any, io.StringIO()))
    with pytest.raises(AudioError, match="sample_rate must be"):
        WavWriter(tmp_path / "b.wav", 0)
    assert not (tmp_path / "b.wav").exists()


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="pipes as on Unix")
def test_standard_output_to_a_pipe() -> None:
    code = (
        "import sys, numpy as np; from ChatTTS.audio import WavWriter;"
        "w = WavWriter(sys.stdout.buffer); w.write(np.zeros(4)); w.close()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert sizes(done.stdout) == (0xFFFFFFFF, 0xFFFFFFFF)
    assert len(done.stdout) == 44 + 8
