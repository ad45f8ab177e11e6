"""EPUB: chapters, titles and cover; damaged, protected and hostile books."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("lxml")

from ChatTTS.longform import archive, script
from ChatTTS.longform.files import read_script, read_script_bytes
from ChatTTS.longform.script import ScriptError

CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
)
PACKAGE = """<package xmlns="http://www.idpf.org/2007/opf" version="3.0">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>The  Book</dc:title>
<dc:creator>A. Writer</dc:creator></metadata>
<manifest>
<item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>
<item id="a" href="text/a%20b.xhtml" media-type="application/xhtml+xml"/>
<item id="b" href="text/b.xhtml" media-type="application/xhtml+xml"/>
<item id="c" href="text/c.xhtml" media-type="application/xhtml+xml"/>
<item id="img" href="cover.png" properties="cover-image" media-type="image/png"/>
</manifest>
<spine><itemref idref="a"/><itemref idref="b"/><itemref idref="c"/></spine>
</package>"""
NAV = """<html xmlns:epub="http://www.idpf.org/2007/ops"><body><nav epub:type="toc"><ol>
<li><a href="text/a%20b.xhtml">One &amp; only</a></li><li><a href="text/c.xhtml#x">Three</a></li>
</ol></nav></body></html>"""
FIRST = """<?xml version="1.0"?><!DOCTYPE html><html><head><title>no</title></head><body>
<h1>One &amp; only</h1><p>Hello<a epub:type="noteref">1</a>&nbsp;<b>bold</b> world.</p>
<div>loose<p>inner</p>tail</div><script>no()</script></body></html>"""
COVER = b"\x89PNG\r\n\x1a\n" + bytes(8) + struct.pack(">II", 600, 800) + bytes(8)
MEMBERS: dict[str, str | bytes] = {
    "META-INF/container.xml": CONTAINER,
    "OEBPS/book.opf": PACKAGE,
    "OEBPS/nav.xhtml": NAV,
    "OEBPS/text/a b.xhtml": FIRST,
    "OEBPS/text/b.xhtml": "<html><body><p>Part two of one.</p></body></html>",
    "OEBPS/text/c.xhtml": "<html><body><p>Third [pause:1s] chapter.</p></body></html>",
    "OEBPS/cover.png": COVER,
}


def book(folder: Path, **changes: str | bytes | None) -> Path:
    """Write a book, with some members replaced or left out; `/` in a name is `__`."""
    members = {**MEMBERS, **{k.replace("__", "/"): v for k, v in changes.items()}}
    path = folder / "book.epub"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            if data is not None:
                file.writestr(name, data)
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_that_unpack_without_a_bound_are_not_unpacked(tmp_path: Path, method: int) -> None:
    path = tmp_path / "bomb.epub"
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("META-INF/container.xml", bytes(4 << 20))
    with pytest.raises(ScriptError, match="deflated and stored"):
        read_script(path)


def test_a_book_has_chapters_titles_and_a_cover(tmp_path: Path) -> None:
    script = read_script(book(tmp_path))
    assert (script.title, script.author, script.cover) == ("The Book", "A. Writer", COVER)
    assert script.chapters == ("One & only", "Three")
    assert [(line.text, line.chapter, line.pause) for line in script.lines] == [
        ("One & only", 0, None),
        ("Hello bold world.", 0, None),
        ("loose", 0, None),
        ("inner", 0, None),
        ("tail", 0, None),
        ("Part two of one.", 0, None),
        ("Third", 1, 1.0),
        ("chapter.", 1, None),
    ]
    assert str(script.lines[1].place).endswith("book.epub/OEBPS/text/a b.xhtml:2")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"META-INF__container.xml": None}, "no file META-INF/container.xml"),
        ({"META-INF__container.xml": "<container/>"}, "names no package"),
        ({"OEBPS__book.opf": "<package>"}, r"book\.opf:1: the document is damaged"),
        ({"OEBPS__text__b.xhtml": None}, "no file OEBPS/text/b.xhtml"),
        ({"OEBPS__text__b.xhtml": '<!DOCTYPE x [<!ENTITY a "b">]><p>&a;</p>'}, "entities"),
        ({"OEBPS__book.opf": '<!DOCTYPE x [<!ENTITY a SYSTEM "f">]><p>&a;</p>'}, "entities"),
        (
            {
                "META-INF__encryption.xml": "<encryption><CipherReference "
                'URI="OEBPS/text/b.xhtml"/></encryption>'
            },
            "protected",
        ),
    ],
)
def test_a_bad_book_is_one_error_with_its_file(
    changes: dict[str, str | None], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ScriptError, match=message):
        read_script(book(tmp_path, **changes))


def test_a_file_that_is_no_archive_or_cut_off(tmp_path: Path) -> None:
    path = book(tmp_path)
    whole = path.read_bytes()
    for data in (
        b"",
        b"no zip",
        whole[: len(whole) // 2],
        whole[:200] + b"\xff" * 40 + whole[240:],
    ):
        path.write_bytes(data)
        with pytest.raises(ScriptError, match=r"book\.epub"):
            read_script(path)


def test_a_file_before_the_beginning_of_the_archive_is_damage(tmp_path: Path) -> None:
    data = bytearray(book(tmp_path).read_bytes())
    (place,) = struct.unpack_from("<I", data, len(data) - 6)
    struct.pack_into("<I", data, len(data) - 6, place + 20_000)
    with pytest.raises(ScriptError, match="the EPUB is damaged"):
        read_script_bytes(bytes(data), "book.epub")


def test_a_zip_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_MOST_BYTES", 1 << 20)
    bomb = b"<html><body><p>" + b"a" * (3 << 20)
    path = book(tmp_path, OEBPS__text__b_xhtml=None, **{"OEBPS__text__b.xhtml": bomb})
    assert path.stat().st_size < 100_000
    with pytest.raises(ScriptError, match="zip bomb"):
        read_script(path)
    monkeypatch.setattr(archive, "_MOST_BYTES", 32 << 20)
    monkeypatch.setattr(archive, "_MOST_IN_ALL", 2 << 20)
    with pytest.raises(ScriptError, match="zip bomb"):
        read_script(path)


def test_a_deeply_nested_document_is_no_crash(tmp_path: Path) -> None:
    deep = "<html><body>" + "<div>" * 100_000 + "text" + "</div>" * 100_000
    with pytest.raises(ScriptError):
        read_script(book(tmp_path, **{"OEBPS__text__b.xhtml": deep}))


@pytest.mark.parametrize(
    "cover",
    [
        b"GIF89a" + bytes(20),
        COVER[:16] + struct.pack(">II", 0, 800) + bytes(8),
        COVER[:16] + struct.pack(">II", 2**32 - 1, 800) + bytes(8),
    ],
)
def test_a_cover_that_no_file_can_hold_is_left_out_before_the_book_is_spoken(
    cover: bytes, tmp_path: Path
) -> None:
    found = read_script(book(tmp_path, **{"OEBPS__cover.png": cover}))
    assert found.cover is None
    assert "cover.png: the cover is no JPEG or PNG" in found.warnings[0]


def test_a_book_of_endless_paragraphs_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "MOST_LINES", 100)
    path = book(tmp_path, **{"OEBPS__text__b.xhtml": "<body>" + "<p>a</p>" * 99 + "</body>"})
    with pytest.raises(ScriptError, match=r"book\.epub/OEBPS/text/b\.xhtml: .* more than 100"):
        read_script(path)
