"""Read EPUB 2 and 3: the documents of the spine, with titles of chapters and the cover."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import unquote

from .archive import Archive
from .cover import NO_PICTURE, is_picture
from .plain import unwrapped
from .script import Join, Line, Place, Script, ScriptError, check_count
from .untrusted_xml import parse_html, parse_xml, tag_of

if TYPE_CHECKING:
    from lxml.etree import _Element

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_HTML = ("application/xhtml+xml", "text/html")
_BLOCKS = frozenset(
    (
        *("p", "h1", "h2", "h3", "h4", "h5", "h6", "li", "blockquote", "div", "td", "th", "dt"),
        *("dd", "tr", "ul", "ol", "table", "section", "article", "figure", "figcaption", "pre"),
        *("header", "footer", "main", "body", "hr", "address", "caption"),
    )
)
_SKIPPED = frozenset(
    ("script", "style", "head", "nav", "svg", "math", "audio", "video", "rt", "rp")
)
_NOTES = re.compile(r"\b(pagebreak|noteref|footnote|endnote|rearnote)\b")


@dataclass(frozen=True)
class _Package:
    """The package document: the files in order, and what is known of the book."""

    documents: tuple[str, ...]
    toc: str | None
    cover: str | None
    title: str
    author: str


def read_epub(source: Path | BinaryIO, name: str, most: int | None = None) -> Script:
    """Return the chapters of a book; a document that the contents do not name goes on the last one.

    Args:
        source: the book's file, or an open one.
        name: of the book, for messages.
        most: bytes of all its files that are read; see :class:`.archive.Archive`.

    Raises:
        ScriptError: the file is damaged, protected, or beyond the bounds of :class:`Archive`.
    """
    with Archive(source, name, most) as archive:
        package = _package(archive)
        _check_protection(archive, package)
        titles = _titles(archive, package.toc)
        lines: list[Line] = []
        chapters: list[str] = []
        warnings: list[str] = []
        for document in package.documents:
            member = f"{archive.name}/{document}"
            root = parse_html(archive.read(document), member)
            blocks = list(_blocks(root))
            if not blocks:
                continue
            title = titles.get(document)
            if title is not None or not chapters:
                chapters.append(title or _heading(root) or package.title)
            check_count(len(lines) + len(blocks), Place(member))
            lines += (
                Line(
                    text,
                    chapter=len(chapters) - 1,
                    join=Join.PARAGRAPH,
                    place=Place(member, line),
                )
                for text, line in blocks
            )
        cover = _cover(archive, package.cover, warnings)
    if not lines:
        raise ScriptError(f"{name}: the book has no text")
    return Script(
        tuple(lines), tuple(chapters), package.title, package.author, cover, tuple(warnings)
    )


def _package(archive: Archive) -> _Package:
    container = parse_xml(archive.read(_CONTAINER), f"{archive.name}/{_CONTAINER}")
    found = next((e.get("full-path") for e in container.iter() if tag_of(e) == "rootfile"), None)
    if not found:
        raise ScriptError(f"{archive.name}/{_CONTAINER}: it names no package document")
    folder = posixpath.dirname(found)
    root = parse_xml(archive.read(found), f"{archive.name}/{found}")
    items = {e.get("id"): e for e in root.iter() if tag_of(e) == "item"}
    paths = {key: _path(folder, item.get("href")) for key, item in items.items()}
    spine = [e.get("idref") for e in root.iter() if tag_of(e) == "itemref"]
    missing = [key for key in spine if key not in items]
    if missing:
        raise ScriptError(
            f"{archive.name}/{found}: the spine names an unknown file, {missing[0]!r}"
        )
    documents = [paths[key] for key in spine if items[key].get("media-type") in _HTML]
    if not documents:
        raise ScriptError(f"{archive.name}/{found}: the book names no text")

    def with_property(name: str) -> str | None:
        has = (k for k, i in items.items() if name in (i.get("properties") or "").split())
        return next((paths[key] for key in has), None)

    ncx = next(
        (paths[k] for k, i in items.items() if i.get("media-type") == "application/x-dtbncx+xml"),
        None,
    )
    named = next(
        (e.get("content") for e in root.iter() if tag_of(e) == "meta" and e.get("name") == "cover"),
        None,
    )
    texts = {
        tag: next((unwrapped(e.text) for e in root.iter() if tag_of(e) == tag and e.text), "")
        for tag in ("title", "creator")
    }
    return _Package(
        tuple(dict.fromkeys(documents)),
        with_property("nav") or ncx,
        with_property("cover-image") or paths.get(named),
        texts["title"],
        texts["creator"],
    )


def _path(folder: str, reference: str | None) -> str:
    """Return the member's name that a reference in a document of ``folder`` means."""
    return posixpath.normpath(posixpath.join(folder, unquote((reference or "").partition("#")[0])))


def _check_protection(archive: Archive, package: _Package) -> None:
    if _ENCRYPTION not in archive:
        return
    root = parse_xml(archive.read(_ENCRYPTION), f"{archive.name}/{_ENCRYPTION}")
    encrypted = {_path("", e.get("URI")) for e in root.iter() if tag_of(e) == "cipherreference"}
    if encrypted & set(package.documents):  # fonts alone may be encrypted
        raise ScriptError(f"{archive.name}: the book is protected (DRM), and cannot be read")


def _titles(archive: Archive, toc: str | None) -> dict[str, str]:
    """Return the title of each document that the table of contents names."""
    if toc is None or toc not in archive:
        return {}
    folder, name = posixpath.dirname(toc), f"{archive.name}/{toc}"
    titles: dict[str, str] = {}
    if toc.endswith(".ncx"):
        root = parse_xml(archive.read(toc), name)
        for point in (e for e in root.iter() if tag_of(e) == "navpoint"):
            text = next((e.text for e in point.iter() if tag_of(e) == "text" and e.text), "")
            source = next((e.get("src") for e in point.iter() if tag_of(e) == "content"), None)
            titles.setdefault(_path(folder, source), unwrapped(text))
        return titles
    root = parse_html(archive.read(toc), name)
    lists = [e for e in root.iter() if tag_of(e) == "nav"]
    for part in [e for e in lists if "toc" in (_type(e) or "toc")][:1]:
        for link in (e for e in part.iter() if tag_of(e) == "a" and e.get("href")):
            title = unwrapped("".join(link.itertext()))
            titles.setdefault(_path(folder, link.get("href")), title)
    return titles


def _heading(root: _Element) -> str:
    headings = (e for e in root.iter() if tag_of(e) in ("h1", "h2", "h3"))
    return next((unwrapped("".join(e.itertext())) for e in headings), "")


def _blocks(root: _Element) -> Iterator[tuple[str, int]]:
    """Yield the text of each block and its line in the document."""
    text: list[str] = []
    line = 0
    is_blank = True
    for piece, place in _pieces(root):
        if piece is None:
            joined = unwrapped("".join(text))
            if joined:
                yield joined, line
            text, is_blank = [], True
        else:
            line = place if is_blank else line
            is_blank = is_blank and not piece.strip()
            text.append(piece)
    joined = unwrapped("".join(text))
    if joined:
        yield joined, line


def _pieces(root: _Element) -> Iterator[tuple[str | None, int]]:
    """Yield texts with their lines, and ``None`` where a block begins or ends.

    It keeps a stack of its own, since a hostile document is nested deeper than Python's.
    """
    stack: list[tuple[_Element, bool]] = [(root, False)]
    while stack:
        element, is_left = stack.pop()
        tag = tag_of(element)
        line = int(element.sourceline or 0)
        if not is_left:
            if tag in _BLOCKS:
                yield None, line
            stack.append((element, True))
            is_spoken = tag and tag not in _SKIPPED and not _NOTES.search(_type(element))
            if is_spoken:
                if tag == "br":
                    yield "\n", line
                if element.text:
                    yield element.text, line
                stack.extend((child, False) for child in reversed(element))
            continue
        if tag in _BLOCKS:
            yield None, line
        if element.tail and element is not root:
            yield element.tail, line


def _type(element: _Element) -> str:
    """Return the value of ``epub:type``, whatever a parser calls it."""
    return " ".join(
        str(value) for name, value in element.attrib.items() if str(name).endswith(("type", "role"))
    )


def _cover(archive: Archive, member: str | None, warnings: list[str]) -> bytes | None:
    if member is None or member not in archive:
        return None
    data = archive.read(member)
    if is_picture(data):
        return data
    warnings.append(f"{archive.name}/{member}: {NO_PICTURE}, and is left out")
    return None
