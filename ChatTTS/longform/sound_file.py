"""Write a finished work: sound, chapters, title, author and cover, by PyAV (ffmpeg's libraries)."""

from __future__ import annotations

import base64
import os
import struct
from contextlib import ExitStack
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from ..audio.files import check_target
from ..audio.marking import xmp_box
from ..audio.pcm import to_int16
from ..audio.samples import SAMPLE_RATE, Samples
from ..audio.wavstream import WavWriter
from ..config.mark import SOFTWARE, SOURCE_TYPE, STATEMENT, Mark
from ..errors import AudioError
from ..utils.cache_files import atomic_write, remove_unfinished
from .cover import picture_size

_PICTURE = 3  # the front cover, in FLAC and Ogg


@dataclass(frozen=True)
class Chapter:
    """A chapter of a finished work; ``start`` and ``end`` are in samples."""

    title: str
    start: int
    end: int


@dataclass(frozen=True)
class WorkInfo:
    """The tags of a file: its words about the work.

    Attributes:
        title, author: empty if unknown.
        chapters: in order.
        cover: a JPEG or PNG file.
    """

    title: str = ""
    author: str = ""
    chapters: tuple[Chapter, ...] = ()
    cover: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class _Kind:
    """A format of files.

    Attributes:
        container, codec, sample_format: their names in ffmpeg.
        bit_rate: bits a second; ``None`` for lossless.
        picture: whether the cover is a stream of its own.
        comments: whether chapters are written as Vorbis comments.
        brand: of MP4, by which players know audiobooks.
    """

    container: str
    codec: str
    sample_format: str
    bit_rate: int | None = None
    picture: bool = True
    comments: bool = False
    brand: str = ""


_KINDS = {
    ".m4b": _Kind("mp4", "aac", "fltp", 64_000, brand="M4B "),
    ".m4a": _Kind("mp4", "aac", "fltp", 64_000, brand="M4A "),
    ".mp3": _Kind("mp3", "libmp3lame", "fltp", 64_000),
    ".opus": _Kind("opus", "libopus", "flt", 32_000, picture=False, comments=True),
    ".flac": _Kind("flac", "flac", "s16", comments=True),
}
WORK_FORMATS = (*(ending.removeprefix(".") for ending in _KINDS), "wav")
"""The endings of files that a recording is saved to."""


def check_sound_file(path: Path) -> None:
    """Raise AudioError if no work can be written to ``path``; called before the work for it."""
    ending = path.suffix.lower()
    if ending.removeprefix(".") not in WORK_FORMATS:
        endings = ", ".join(f".{name}" for name in WORK_FORMATS)
        raise AudioError(f"{path} must end in {endings}")
    check_target(path)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise AudioError(f"{path} cannot be written: permission denied")
    check_format(ending.removeprefix("."))


def is_lossy(path: Path) -> bool:
    """Return whether the format of ``path`` changes samples."""
    kind = _KINDS.get(path.suffix.lower())
    return kind is not None and kind.bit_rate is not None


def check_format(name: str) -> None:
    """Raise AudioError if the package for a format is missing; ``name`` is in ``WORK_FORMATS``."""
    if f".{name}" in _KINDS:
        _av()


class SoundFile:
    """A file that appears under its name when it is complete; used as a context.

    Equal samples give equal bytes: nothing else in the file than the mark depends on the time, and
    nothing on chance.

    Args:
        path: see :func:`check_sound_file`.
        about: its chapters, title, author and cover; a ``.wav`` has none of them.
        mark: what it says of the sound; ``None`` for nothing.
    """

    def __init__(self, path: Path, about: WorkInfo, mark: Mark | None = None) -> None:
        self._path, self._about, self._mark = path, about, mark
        self._stack = ExitStack()
        self._writer: WavWriter | _Encoder

    def write(self, samples: Samples) -> None:
        """Append float32 (n,) at 24 kHz.

        Raises:
            AudioError: the disk is full, or refuses otherwise.
        """
        try:
            self._writer.write(samples)
        except OSError as error:
            raise self._refused(error) from error

    def __enter__(self) -> SoundFile:
        # A killed run leaves its unfinished file here; after an hour no run can still write it.
        remove_unfinished(self._path.parent)
        try:
            file = self._stack.enter_context(atomic_write(self._path))
            kind = _KINDS.get(self._path.suffix.lower())
            if kind is None:
                writer = WavWriter(file, mark=self._mark or False)
                self._writer = self._stack.enter_context(writer)
            else:
                encoder = _Encoder(file, kind, self._about, self._mark)
                self._writer = self._stack.enter_context(encoder)
        except OSError as error:
            self._stack.close()
            raise self._refused(error) from error
        return self

    def __exit__(self, *error: Any) -> None:
        try:
            self._stack.__exit__(*error)
        except OSError as caught:
            raise self._refused(caught) from caught

    def _refused(self, error: OSError) -> AudioError:
        return AudioError(f"{self._path} cannot be written: {error.strerror or error}")


class _Encoder:
    """Encodes samples into a container."""

    def __init__(self, file: Any, kind: _Kind, about: WorkInfo, mark: Mark | None) -> None:
        av = _av()
        self._file, self._kind, self._mark = file, kind, mark
        self._samples = 0
        # Bit-exact muxers write neither the time nor a random number of the stream.
        options = {"fflags": "+bitexact"} | ({"brand": kind.brand} if kind.brand else {})
        self._container = av.open(file, "w", format=kind.container, container_options=options)
        stream = self._container.add_stream(kind.codec, rate=SAMPLE_RATE)
        stream.layout = "mono"
        stream.format = kind.sample_format
        stream.codec_context.flags |= av.codec.context.Flags.bitexact
        if kind.bit_rate is not None:
            stream.bit_rate = kind.bit_rate
        self._stream = stream
        self._picture = self._add_picture(about.cover) if kind.picture and about.cover else None
        self._describe(about)
        self._container.start_encoding()
        if self._picture is not None:
            packet = av.Packet(about.cover)
            packet.stream = self._picture
            packet.pts = packet.dts = 0
            packet.is_keyframe = True
            self._container.mux(packet)

    def write(self, samples: Samples) -> None:
        if not len(samples):
            return
        av = _av()
        is_integer = self._kind.sample_format == "s16"
        data = to_int16(samples) if is_integer else np.clip(samples, -1, 1)
        frame = av.AudioFrame.from_ndarray(
            data.reshape(1, -1), format=self._kind.sample_format, layout="mono"
        )
        frame.sample_rate = SAMPLE_RATE
        frame.time_base = Fraction(1, SAMPLE_RATE)
        frame.pts = self._samples
        self._samples += len(samples)
        self._container.mux(self._stream.encode(frame))

    def _add_picture(self, cover: bytes) -> Any:
        av = _av()
        codec = "png" if cover.startswith(b"\x89PNG") else "mjpeg"
        width, height = picture_size(cover)
        stream = self._container.add_mux_stream(codec, width=width, height=height)
        stream.disposition = av.stream.Disposition.attached_pic
        return stream

    def _describe(self, about: WorkInfo) -> None:
        tags = {"title": about.title, "artist": about.author, "album": about.title}
        if self._mark is not None:
            tags |= _mark_tags(self._mark, self._kind)
        if about.cover and not self._kind.picture:
            tags["METADATA_BLOCK_PICTURE"] = _picture_block(about.cover)
        has_chapters = len(about.chapters) > 1 or any(each.title for each in about.chapters)
        if has_chapters and self._kind.comments:
            # ffmpeg rounds the seconds of chapters there, and then adds the milliseconds.
            tags |= _chapter_comments(about.chapters)
        elif has_chapters:
            self._container.set_chapters(
                [
                    {
                        "id": number,
                        "start": chapter.start,
                        "end": chapter.end,
                        "time_base": Fraction(1, SAMPLE_RATE),
                        "metadata": {"title": chapter.title or f"{number}"},
                    }
                    for number, chapter in enumerate(about.chapters, 1)
                ]
            )
        for name, value in tags.items():
            if value:
                self._container.metadata[name] = value

    def __enter__(self) -> _Encoder:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        try:
            if kind is None:
                self._container.mux(self._stream.encode(None))
        finally:
            self._container.close()
        if kind is None and self._mark is not None and self._kind.container == "mp4":
            self._file.seek(0, os.SEEK_END)
            self._file.write(xmp_box(self._mark))


def _mark_tags(mark: Mark, kind: _Kind) -> dict[str, str]:
    """Return a mark by ffmpeg's names of tags; MP4 has the rest of it in XMP."""
    if kind.comments:
        return mark.comments
    day = {} if mark.day is None else {"date": mark.day.isoformat()}
    if kind.container == "mp4":
        statement = f"{STATEMENT} ({SOURCE_TYPE})"
        return {"encoding_tool": SOFTWARE, "comment": statement, **day}
    return {
        "TSSE": SOFTWARE,  # bit-exact muxers leave out what they call encoder
        "comment": STATEMENT,
        "DigitalSourceType": SOURCE_TYPE,
        "AIGC": mark.label,
        "id3v2_priv.XMP": mark.xmp,
        **day,
    }


def _chapter_comments(chapters: tuple[Chapter, ...]) -> dict[str, str]:
    comments = {}
    for number, chapter in enumerate(chapters):
        milliseconds = round(chapter.start * 1000 / SAMPLE_RATE)
        minutes, rest = divmod(milliseconds, 60_000)
        time = f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}.{rest % 1000:03}"
        comments[f"CHAPTER{number:03}"] = time
        comments[f"CHAPTER{number:03}NAME"] = chapter.title or f"{number + 1}"
    return comments


def _picture_block(cover: bytes) -> str:
    """Return a cover as Ogg has it: the picture block of FLAC, in base64."""
    mime = b"image/png" if cover.startswith(b"\x89PNG") else b"image/jpeg"
    width, height = picture_size(cover)
    head = struct.pack(">II", _PICTURE, len(mime)) + mime + struct.pack(">I", 0)
    sizes = struct.pack(">IIIII", width, height, 24, 0, len(cover))
    return base64.b64encode(head + sizes + cover).decode("ascii")


def _av() -> Any:
    try:
        import av
        import av.codec.context
        import av.stream
    except ImportError as error:
        raise AudioError(
            "this format needs PyAV: pip install 'chattts-velocity[longform]'; .wav needs nothing"
        ) from error
    return av
