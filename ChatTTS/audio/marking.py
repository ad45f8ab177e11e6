"""Write marks into the formats of sound files: RIFF, FLAC, Ogg, ID3 and MP4."""

from __future__ import annotations

import struct
import uuid

from ..config.mark import SOFTWARE, SOURCE_TYPE, STATEMENT, Mark
from . import ogg

_RIFF_SIZE_AT = 4
_LONGEST_RIFF = 0xFFFFFFFF
_VORBIS_COMMENT, _LAST_BLOCK = 4, 0x80
_UTF8 = b"\x03"  # the encoding of a text in ID3
_XMP_BOX = uuid.UUID("be7acfcb-97a9-42e8-9c71-999491e3afac").bytes
_FIRST_BLOCK_AT = 4


def marked(data: bytes, format: str, mark: Mark) -> bytes:
    """Return a whole sound file with a mark; its samples stay as they are.

    Args:
        data: as libsndfile or the server's encoder writes it.
        format: ``wav``, ``flac``, ``mp3``, ``aac`` (ADTS), ``ogg`` or ``opus``.
    """
    if format == "wav":
        return _marked_wav(data, mark)
    if format == "flac":
        return _marked_flac(data, mark)
    if format in ("ogg", "opus"):
        return ogg.with_comments(data, vorbis_comments(mark))
    return id3_tag(mark) + data


def info_chunk(mark: Mark) -> bytes:
    """Return the chunk ``LIST`` of RIFF with the mark.

    It stands after the samples: many programs take the first 44 bytes for the whole header. XMP has
    a chunk of its own, of which SciPy warns, so the source type is in the comment.
    """
    tags = {
        b"ISFT": SOFTWARE,
        b"ICMT": f"{STATEMENT} ({SOURCE_TYPE})",
        b"AIGC": mark.label,
    }
    if mark.day is not None:
        tags[b"ICRD"] = mark.day.isoformat()
    body = b"INFO" + b"".join(_chunk(name, text.encode() + b"\0") for name, text in tags.items())
    return _chunk(b"LIST", body)


def vorbis_comments(mark: Mark) -> bytes:
    """Return the block of comments that FLAC, Vorbis and Opus share: vendor, number, comments."""
    texts = [f"{name}={value}".encode() for name, value in mark.comments.items()]
    vendor = SOFTWARE.encode()
    sized = (struct.pack("<I", len(text)) + text for text in texts)
    return struct.pack("<I", len(vendor)) + vendor + struct.pack("<I", len(texts)) + b"".join(sized)


def flac_block(mark: Mark) -> bytes:
    """Return the last metadata block of FLAC, with the mark."""
    comments = vorbis_comments(mark)
    return struct.pack(">I", (_VORBIS_COMMENT | _LAST_BLOCK) << 24 | len(comments)) + comments


def id3_tag(mark: Mark) -> bytes:
    """Return a tag of ID3v2.4, which stands before MP3 and AAC."""
    texts = mark.comments
    frames = [
        _frame(b"TSSE", _UTF8 + texts["SOFTWARE"].encode()),
        _frame(b"COMM", _UTF8 + b"eng\0" + texts["COMMENT"].encode()),
        _frame(b"TXXX", _UTF8 + b"DigitalSourceType\0" + texts["DIGITALSOURCETYPE"].encode()),
        _frame(b"TXXX", _UTF8 + b"AIGC\0" + texts["AIGC"].encode()),
        _frame(b"PRIV", b"XMP\0" + mark.xmp.encode()),
    ]
    if "DATE" in texts:
        frames.append(_frame(b"TDRC", _UTF8 + texts["DATE"].encode()))
    body = b"".join(frames)
    return b"ID3\x04\0\0" + _syncsafe(len(body)) + body


def xmp_box(mark: Mark) -> bytes:
    """Return the box with XMP, which stands at the end of an MP4 file."""
    body = _XMP_BOX + mark.xmp.encode()
    return struct.pack(">I4s", len(body) + 8, b"uuid") + body


def _marked_wav(data: bytes, mark: Mark) -> bytes:
    file = bytearray(data + bytes(len(data) % 2) + info_chunk(mark))
    struct.pack_into("<I", file, _RIFF_SIZE_AT, min(len(file) - 8, _LONGEST_RIFF))
    return bytes(file)


def _marked_flac(data: bytes, mark: Mark) -> bytes:
    """Put the comments behind the other blocks, in place of those that are there."""
    blocks, at, is_last = list[bytes](), _FIRST_BLOCK_AT, False
    while not is_last:
        (head,) = struct.unpack_from(">I", data, at)
        kind, end = head >> 24, at + 4 + (head & 0xFFFFFF)
        is_last = bool(kind & _LAST_BLOCK)
        if kind & ~_LAST_BLOCK != _VORBIS_COMMENT:
            blocks.append(bytes([kind & ~_LAST_BLOCK]) + data[at + 1 : end])
        at = end
    blocks.append(flac_block(mark))
    return b"".join([data[:_FIRST_BLOCK_AT], *blocks, data[at:]])


def _chunk(name: bytes, body: bytes) -> bytes:
    return name + struct.pack("<I", len(body)) + body + bytes(len(body) % 2)


def _frame(name: bytes, body: bytes) -> bytes:
    return name + _syncsafe(len(body)) + b"\0\0" + body


def _syncsafe(number: int) -> bytes:
    """Return a number of 28 bits in four bytes of seven, as ID3 has sizes."""
    return bytes(number >> shift & 0x7F for shift in (21, 14, 7, 0))
