"""Read the tags of sound files of any origin: RIFF, FLAC, Ogg, ID3 and MP4.

Sizes in such files need not be true. Each reader goes forward alone, reads values of bounded size,
and stops at the first thing that it does not know.
"""

from __future__ import annotations

import io
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from typing import BinaryIO

from . import ogg

_LONGEST_VALUE = 1 << 16
_LONGEST_ID3 = 1 << 24  # pictures are in it
_LONGEST_COMMENTS = 1 << 20
_MOST_TAGS = 1000
_MOST_PARTS = 10_000  # chunks, blocks, boxes or frames of one file
_MOST_PAGES = 256  # before the sound of an Ogg stream, with 64 KiB each: its cover may be large
_VORBIS_COMMENT, _LAST_BLOCK = 4, 0x80
_XMP_BOX = bytes.fromhex("be7acfcb97a942e89c71999491e3afac")
_XMP = "XMP"
# In XMP, as an attribute or as an element.
_XMP_FIELD = re.compile(
    r"(DigitalSourceType|CreatorTool|CreateDate|AIGC)(?:=[\"']|>)([^\"'<>]{1,2000})", re.ASCII
)
_ID3_CODECS = ("latin-1", "utf-16", "utf-16-be", "utf-8")
# Boxes of MP4 on the way to the tags, and the bytes of each before the boxes in it.
_WAY = {b"moov": 0, b"udta": 0, b"meta": 4, b"ilst": 0}


@dataclass(frozen=True)
class Tag:
    """A tag of a file.

    Attributes:
        place: the kind of tags, such as ``ID3``.
        name: as the kind calls it.
        value: its text.
    """

    place: str
    name: str
    value: str


def read_tags(file: BinaryIO) -> tuple[str | None, list[Tag]]:
    """Return the name of a file's format and its tags.

    Args:
        file: a regular file, at its beginning.

    Returns:
        ``None`` and no tags if the format is unknown.
    """
    size = os.fstat(file.fileno()).st_size
    buffered = io.BufferedReader(file)  # type: ignore[type-var]
    try:
        return _read(buffered, size)
    finally:
        buffered.detach()


def _read(file: BinaryIO, size: int) -> tuple[str | None, list[Tag]]:
    tags = list[Tag]()
    head = _peek(file)
    if head.startswith(b"ID3"):
        _take(tags, _id3(file))
        head = _peek(file)
        if not head.startswith((b"fLaC", b"RIFF")):
            return ("AAC" if _is_adts(head) else "MP3"), tags
    if head[:4] in (b"RIFF", b"RF64", b"BW64") and head[8:12] == b"WAVE":
        return "WAV", _take(tags, _riff(file, size))
    if head.startswith(b"fLaC"):
        return "FLAC", _take(tags, _flac(file))
    if head.startswith(b"OggS"):
        return "Ogg", _take(tags, _ogg(file))
    if head[4:8] == b"ftyp":
        return "MP4", _take(tags, _boxes(file, size, iter(range(_MOST_PARTS))))
    if _is_adts(head):
        return "AAC", tags
    is_mpeg = len(head) > 1 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0
    return ("MP3" if is_mpeg else None), tags


def _peek(file: BinaryIO) -> bytes:
    at = file.tell()
    head = file.read(12)
    file.seek(at)
    return head


def _take(tags: list[Tag], found: Iterator[Tag]) -> list[Tag]:
    for tag in found:
        if len(tags) == _MOST_TAGS:
            break
        tags.append(tag)
    return tags


def _is_adts(head: bytes) -> bool:
    return len(head) > 1 and head[0] == 0xFF and head[1] & 0xF6 == 0xF0


def _riff(file: BinaryIO, size: int) -> Iterator[Tag]:
    file.seek(12, os.SEEK_CUR)
    for name, length in _chunks(file, size):
        if name == b"LIST" and length <= _LONGEST_COMMENTS:
            yield from _info(file.read(length))
        elif name == b"_PMX" and length <= _LONGEST_VALUE:
            yield from _xmp(file.read(length))
        elif name in (b"id3 ", b"ID3 ") and length <= _LONGEST_ID3:
            yield from _id3(io.BytesIO(file.read(length)))


def _chunks(file: BinaryIO, end: int) -> Iterator[tuple[bytes, int]]:
    """Yield the names and lengths of chunks; the caller may read the body."""
    for _ in range(_MOST_PARTS):
        head = file.read(8)
        if len(head) < 8:
            return
        name, length = struct.unpack("<4sI", head)
        at = file.tell()
        yield name, length
        following = at + length + length % 2
        if following >= end:
            return
        file.seek(following)


def _info(body: bytes) -> Iterator[Tag]:
    if not body.startswith(b"INFO"):
        return
    file = io.BytesIO(body)
    file.seek(4)
    for name, length in _chunks(file, len(body)):
        yield Tag(
            "RIFF INFO", name.decode("latin-1"), _text(file.read(min(length, _LONGEST_VALUE)))
        )


def _flac(file: BinaryIO) -> Iterator[Tag]:
    file.seek(4, os.SEEK_CUR)
    for _ in range(_MOST_PARTS):
        head = file.read(4)
        if len(head) < 4:
            return
        kind, length = head[0], int.from_bytes(head[1:], "big")
        if kind & ~_LAST_BLOCK == _VORBIS_COMMENT and length <= _LONGEST_COMMENTS:
            yield from _comments(file.read(length))
        else:
            file.seek(length, os.SEEK_CUR)
        if kind & _LAST_BLOCK:
            return


def _ogg(file: BinaryIO) -> Iterator[Tag]:
    packets = ogg.header_packets(file, _MOST_PAGES)
    yield from _comments(ogg.comments_in(packets))


def _comments(block: bytes) -> Iterator[Tag]:
    """Yield the comments of a block: vendor, number, comments, each with its size."""
    file = io.BytesIO(block)

    def number() -> int:
        return int.from_bytes(file.read(4), "little")

    file.seek(number(), os.SEEK_CUR)
    for _ in range(min(number(), _MOST_TAGS)):
        data = file.read(number())
        name, is_comment, value = data[:_LONGEST_VALUE].partition(b"=")
        if not is_comment:
            return
        yield Tag("Vorbis comments", name.decode("latin-1"), _text(value))


def _id3(file: BinaryIO) -> Iterator[Tag]:
    """Yield the frames of a tag of ID3v2.3 or 2.4, and go behind it."""
    head = file.read(10)
    if len(head) < 10:
        return
    version, flags, length = head[3], head[5], _syncsafe(head[6:])
    begin = file.tell()
    body = file.read(min(length, _LONGEST_ID3)) if version in (3, 4) else b""
    file.seek(begin + length + (10 if flags & 0x10 else 0))
    if flags & 0x80 and version == 3:  # all 0xff are followed by a zero, which is taken out
        body = body.replace(b"\xff\0", b"\xff")
    at = 0
    if flags & 0x40 and len(body) > 4:  # an extended head
        at = _syncsafe(body[:4]) if version == 4 else int.from_bytes(body[:4], "big") + 4
    for _ in range(_MOST_PARTS):
        name, sizes = body[at : at + 4], body[at + 4 : at + 8]
        if len(sizes) < 4 or not name.isalnum():
            return
        size = _syncsafe(sizes) if version == 4 else int.from_bytes(sizes, "big")
        frame = body[at + 10 : at + 10 + min(size, _LONGEST_VALUE)]
        yield from _id3_frame(name.decode("latin-1"), frame)
        at += 10 + size


def _id3_frame(name: str, frame: bytes) -> Iterator[Tag]:
    if name == "PRIV":
        owner, _, data = frame.partition(b"\0")
        if owner == b"XMP":
            yield from _xmp(data)
    elif name in ("TXXX", "COMM") and frame:
        codec = _id3_codec(frame)
        described = frame[4:] if name == "COMM" else frame[1:]
        # A mark of byte order may stand before each of the two texts.
        text = described.decode(codec, "replace").replace("\ufeff", "")
        description, _, value = text.partition("\0")
        yield Tag("ID3", description if name == "TXXX" else name, value.strip("\0"))
    elif name.startswith("T") and frame:
        text = frame[1:].decode(_id3_codec(frame), "replace")
        yield Tag("ID3", name, text.replace("\ufeff", "").strip("\0"))


def _id3_codec(frame: bytes) -> str:
    return _ID3_CODECS[frame[0]] if frame[0] < len(_ID3_CODECS) else "latin-1"


def _syncsafe(data: bytes) -> int:
    value = 0
    for byte in data:
        value = value << 7 | byte & 0x7F
    return value


def _boxes(file: BinaryIO, end: int, left: Iterator[int], depth: int = 0) -> Iterator[Tag]:
    """Yield the tags of the boxes up to ``end``, and of those in them.

    Args:
        left: an item for each box that may still be read, at all depths together.
    """
    for _ in left:
        at = file.tell()
        head = file.read(8)
        if len(head) < 8:
            return
        length, name = struct.unpack(">I4s", head)
        if length == 1:
            length = int.from_bytes(file.read(8), "big")
        following = min(at + length, end) if length else end
        if following < file.tell():
            return
        if name in _WAY and depth < len(_WAY):
            file.seek(_WAY[name], os.SEEK_CUR)
            if name == b"ilst":
                yield from _items(file, following)
            else:
                yield from _boxes(file, following, left, depth + 1)
        elif name == b"uuid" and following - file.tell() <= _LONGEST_VALUE:
            body = file.read(following - file.tell())
            if body.startswith(_XMP_BOX):
                yield from _xmp(body)
        if following >= end:
            return
        file.seek(following)


def _items(file: BinaryIO, end: int) -> Iterator[Tag]:
    """Yield the tags of iTunes: boxes whose ``data`` have eight bytes before the text."""
    for _ in range(_MOST_TAGS):
        at = file.tell()
        head = file.read(8)
        if len(head) < 8 or at + 8 > end:
            return
        length, name = struct.unpack(">I4s", head)
        if length < 8:
            return
        body = file.read(min(length - 8, end - at - 8, _LONGEST_VALUE))
        if body[4:8] == b"data":
            yield Tag("MP4", name.decode("latin-1"), _text(body[16:]))
        if at + length >= end:
            return
        file.seek(at + length)


def _xmp(data: bytes) -> Iterator[Tag]:
    """Yield the fields of a packet that matter; it is not parsed, since it may be anything."""
    for name, value in _XMP_FIELD.findall(_text(data)):
        yield Tag(_XMP, name, unescape(value))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip("\0")
