"""Write a book of the recipe's sentences: an EPUB with chapters, a title, an author and a cover."""

from __future__ import annotations

import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from recipes.voice.counter_rng import CounterRng
from recipes.voice.texts import sentences

TITLE, AUTHOR = "A Book of Chance", "The Sentences of the Recipe"
# The default voice speaks about so many words of these texts a minute, with the pauses.
WORDS_PER_MINUTE = 140
_PARAGRAPH = (3, 7)  # sentences
_SIDE = 240  # of the cover, in pixels
# Zip archives hold a time; with a fixed one, equal books are equal files.
_TIME = (2020, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Chapter:
    """A chapter of a book: its title and its paragraphs."""

    title: str
    paragraphs: tuple[str, ...]


def chapters(minutes: float, count: int, seed: int = 0) -> list[Chapter]:
    """Return chapters of everyday sentences for about so many minutes of speech in all.

    The numbers in them are written as words, as a recogniser hears them.
    """
    rng = CounterRng(seed, 0)
    words = minutes * WORDS_PER_MINUTE / count
    return [
        Chapter(f"Chapter {number}. {_title(rng)}", _paragraphs(words, rng))
        for number in range(1, count + 1)
    ]


def write_epub(path: Path, book: list[Chapter]) -> None:
    """Write an EPUB 3; equal books give equal bytes."""
    files = {f"chapter{number}.xhtml": _page(each) for number, each in enumerate(book, 1)}
    links = "".join(
        f'<li><a href="{name}">{chapter.title}</a></li>'
        for name, chapter in zip(files, book, strict=True)
    )
    nav = (
        '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops">'
        f"<head><title>{TITLE}</title></head>"
        f'<body><nav epub:type="toc"><ol>{links}</ol></nav></body></html>'
    )
    items = "".join(
        f'<item id="c{number}" href="{name}" media-type="application/xhtml+xml"/>'
        for number, name in enumerate(files, 1)
    )
    spine = "".join(f'<itemref idref="c{number}"/>' for number in range(1, len(files) + 1))
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id">'
        '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:identifier id="id">book-of-'
        f"chance</dc:identifier><dc:title>{TITLE}</dc:title><dc:creator>{AUTHOR}</dc:creator>"
        "<dc:language>en</dc:language></metadata><manifest>"
        '<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
        '<item id="cover" href="cover.png" media-type="image/png" properties="cover-image"/>'
        f"{items}</manifest><spine>{spine}</spine></package>"
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0">'
        '<rootfiles><rootfile full-path="OEBPS/book.opf" '
        'media-type="application/oebps-package+xml"/></rootfiles></container>'
    )
    with zipfile.ZipFile(path, "w") as archive:
        _add(archive, "mimetype", b"application/epub+zip", zipfile.ZIP_STORED)
        _add(archive, "META-INF/container.xml", container.encode())
        _add(archive, "OEBPS/book.opf", package.encode())
        _add(archive, "OEBPS/nav.xhtml", nav.encode())
        _add(archive, "OEBPS/cover.png", cover())
        for name, page in files.items():
            _add(archive, f"OEBPS/{name}", page.encode())


def cover() -> bytes:
    """Return a PNG file: a slope of greys."""
    rows = b"".join(
        b"\0" + bytes((x + y) * 255 // (2 * _SIDE) for x in range(_SIDE)) for y in range(_SIDE)
    )
    head = struct.pack(">IIBBBBB", _SIDE, _SIDE, 8, 0, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_png_part(*part) for part in parts)


def _title(rng: CounterRng) -> str:
    while True:
        text = rng.pick(sentences("en"))
        if 3 <= len(text.split()) <= 7:
            return text.rstrip(".?!")


def _paragraphs(words: float, rng: CounterRng) -> tuple[str, ...]:
    paragraphs: list[str] = []
    while words > 0:
        count = rng.integer(*_PARAGRAPH)
        text = " ".join(rng.pick(sentences("en")) for _ in range(count))
        words -= len(text.split())
        paragraphs.append(text)
    return tuple(paragraphs)


def _page(chapter: Chapter) -> str:
    body = "".join(f"<p>{text}</p>\n" for text in chapter.paragraphs)
    return (
        f'<html xmlns="http://www.w3.org/1999/xhtml"><head><title>{chapter.title}</title></head>\n'
        f"<body><h1>{chapter.title}</h1>\n{body}</body></html>"
    )


def _add(
    archive: zipfile.ZipFile, name: str, data: bytes, kind: int = zipfile.ZIP_DEFLATED
) -> None:
    archive.writestr(zipfile.ZipInfo(name, _TIME), data, kind)


def _png_part(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
