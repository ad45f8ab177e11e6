"""Writers for audio that is still being generated: a growing WAV file, and raw PCM."""

from __future__ import annotations

import io
import logging
import os
import struct
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from ..config.mark import Mark, mark_of
from ..errors import AudioError
from .files import check_target
from .marking import info_chunk
from .pcm import count_clipped, pcm_bytes
from .samples import SAMPLE_RATE, Samples, StrPath, check_rate, to_mono

log = logging.getLogger(__name__)

W = TypeVar("W", bound="PCMWriter")

_HEADER_BYTES = 44
_UNKNOWN_SIZE = 0xFFFFFFFF  # players read it as "until the stream ends"


class PCMWriter:
    """Writes mono 16-bit little-endian PCM (``s16le``) chunk by chunk, without a header.

    Args:
        target: a path, whose file the writer opens, replaces and closes; or a binary stream such
            as ``sys.stdout.buffer``, which it leaves open.

    Raises:
        AudioError: the file cannot be created, or the stream takes text.
    """

    def __init__(self, target: StrPath | BinaryIO) -> None:
        self.samples_written = 0
        self._clipped = 0
        self._closed = False
        self._owned = isinstance(target, str | os.PathLike)
        self._stream = _open(target)

    def write(self, samples: Any) -> None:
        """Append one chunk and flush it.

        Args:
            samples: ``(n,)``, ``(1, n)`` or ``(n, 1)``, float (full scale 1) or int16; an empty
                chunk writes nothing.

        Raises:
            AudioError: the samples cannot be used, or the writer is closed.
            OSError: the stream refuses, for instance because its reader has ended.
        """
        self.append(to_mono(samples, "samples"))

    def append(self, chunk: Samples) -> None:
        """Append samples that were checked, finite float32 ``(n,)``: see :meth:`write`."""
        if self._closed:
            raise AudioError("the writer is closed; nothing more can be written")
        self._write_chunk(pcm_bytes(chunk))
        self._stream.flush()
        self.samples_written += chunk.size
        self._clipped += count_clipped(chunk)

    def close(self) -> None:
        """Finish, and close the file if the writer opened it. Closing twice is no error."""
        if self._closed:
            return
        self._closed = True
        try:
            self._finish()
        finally:
            if self._owned:
                self._stream.close()
        if self._clipped:
            log.warning(
                "clipped %d of %d samples that lie beyond [-1, 1]",
                self._clipped,
                self.samples_written,
            )

    def _write_chunk(self, data: bytes) -> None:
        self._stream.write(data)

    def _finish(self) -> None:
        """Write what follows the last chunk."""

    def __enter__(self: W) -> W:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class WavWriter(PCMWriter):
    """Writes a mono 16-bit WAV file that is valid after every chunk.

    Where the stream can seek, its header has the number of samples written so far, so a player can
    open the growing file, and the mark follows the samples at the end. Elsewhere (a pipe, a socket)
    the sizes in the header are 0xFFFFFFFF, which players read as "until the end", so there is no
    place for a mark.

    Args:
        target: as ``PCMWriter``; a stream is written from its present position on.
        sample_rate: in Hz.
        mark: as ``save``.

    Raises:
        AudioError: the file cannot be created, the stream takes text, or the rate is invalid.
    """

    def __init__(
        self,
        target: StrPath | BinaryIO,
        sample_rate: int = SAMPLE_RATE,
        *,
        mark: Mark | bool = True,
    ) -> None:
        rate = check_rate(sample_rate)
        self._mark = mark_of(mark)
        super().__init__(target)
        self._start = self._stream.tell() if _can_seek(self._stream) else None
        self._data_bytes = 0
        self._stream.write(_header(rate, _UNKNOWN_SIZE if self._start is None else 0))
        self._stream.flush()

    def _write_chunk(self, data: bytes) -> None:
        self._stream.write(data)
        self._data_bytes += len(data)
        if self._start is not None:
            self._write_size(self._start + 4, self._data_bytes + _HEADER_BYTES - 8)
            self._write_size(self._start + 40, self._data_bytes)
            self._stream.seek(self._start + _HEADER_BYTES + self._data_bytes)

    def _finish(self) -> None:
        if self._start is None or self._mark is None:
            return
        chunk = info_chunk(self._mark)
        end = _HEADER_BYTES + self._data_bytes
        if end + len(chunk) > _UNKNOWN_SIZE:  # readers would take the mark for sound
            return
        self._stream.write(chunk)
        self._write_size(self._start + 4, end + len(chunk) - 8)
        self._stream.seek(self._start + end + len(chunk))

    def _write_size(self, position: int, size: int) -> None:
        # Beyond 4 GiB the field is too small; its largest value means "until the end".
        self._stream.seek(position)
        self._stream.write(struct.pack("<I", min(size, _UNKNOWN_SIZE)))


def _open(target: StrPath | BinaryIO) -> BinaryIO:
    if isinstance(target, str | os.PathLike):
        path = Path(target)
        check_target(path)
        try:
            return path.open("wb")
        except OSError as error:
            raise AudioError(f"{path} cannot be written: {error.strerror or error}") from error
    if isinstance(target, io.TextIOBase):
        raise AudioError(
            "audio cannot be written to a text stream; open it with mode 'wb', "
            "or pass its .buffer (sys.stdout.buffer)"
        )
    return target


def _can_seek(stream: BinaryIO) -> bool:
    seekable = getattr(stream, "seekable", None)
    return bool(seekable and seekable())


def _header(rate: int, data_bytes: int) -> bytes:
    """Return the 44 header bytes of mono 16-bit samples."""
    riff_bytes = min(data_bytes + _HEADER_BYTES - 8, _UNKNOWN_SIZE)
    sample_format = struct.pack("<IHHIIHH", 16, 1, 1, rate, rate * 2, 2, 16)
    return (
        struct.pack("<4sI4s4s", b"RIFF", riff_bytes, b"WAVE", b"fmt ")
        + sample_format
        + struct.pack("<4sI", b"data", data_bytes)
    )
