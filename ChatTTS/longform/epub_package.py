"""The package document of an EPUB: its files in order, and what is known of the book."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from urllib.parse import unquote

from .archive import Archive
from .script import ScriptError
from .spaces import unwrapped
from .untrusted_xml import parse_xml, tag_of

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_HTML = ("application/xhtml+xml", "text/html", "text/x-oeb1-document")
_NCX = "application/x-dtbncx+xml"


@dataclass(frozen=True)
class Package:
    """The package document.

    Attributes:
        documents: members with text, in the order of the spine.
        aside: those of them that stand outside of the order of reading (``linear="no"``).
        contents: tables of contents, the best one first.
        cover: the member of the picture.
        title, author: empty if unknown.
    """

    documents: tuple[str, ...]
    aside: frozenset[str]
    contents: tuple[str, ...]
    cover: str | None
    title: str
    author: str


def read_package(archive: Archive) -> Package:
    """Return the package of a book.

    Raises:
        ScriptError: it is damaged or protected, or names no text.
    """
    container = parse_xml(archive.read(_CONTAINER), f"{archive.name}/{_CONTAINER}")
    found = next((e.get("full-path") for e in container.iter() if tag_of(e) == "rootfile"), None)
    if not found:
        raise ScriptError(f"{archive.name}/{_CONTAINER}: it names no package document")
    folder = posixpath.dirname(found)
    root = parse_xml(archive.read(found), f"{archive.name}/{found}")
    items = {e.get("id"): e for e in root.iter() if tag_of(e) == "item"}
    paths = {key: member_path(folder, item.get("href")) for key, item in items.items()}
    spine = [e for e in root.iter() if tag_of(e) == "itemref"]
    missing = [e.get("idref") for e in spine if e.get("idref") not in items]
    if missing:
        raise ScriptError(
            f"{archive.name}/{found}: the spine names an unknown file, {missing[0]!r}"
        )
    texts = [e for e in spine if items[e.get("idref")].get("media-type") in _HTML]
    if not texts:
        raise ScriptError(f"{archive.name}/{found}: the book names no text")
    properties = {key: (item.get("properties") or "").split() for key, item in items.items()}
    navs = [paths[key] for key, own in properties.items() if "nav" in own]
    ncxs = [paths[key] for key, item in items.items() if item.get("media-type") == _NCX]
    covers = [paths[key] for key, own in properties.items() if "cover-image" in own]
    named = [
        e.get("content") for e in root.iter() if tag_of(e) == "meta" and e.get("name") == "cover"
    ]
    covers += [paths[name] for name in named if name in paths]
    words = {
        tag: next((unwrapped(e.text) for e in root.iter() if tag_of(e) == tag and e.text), "")
        for tag in ("title", "creator")
    }
    package = Package(
        tuple(dict.fromkeys(paths[e.get("idref")] for e in texts)),
        frozenset(paths[e.get("idref")] for e in texts if e.get("linear") == "no"),
        tuple(navs + ncxs),
        next(iter(covers), None),
        words["title"],
        words["creator"],
    )
    _check_protection(archive, package)
    return package


def member_path(folder: str, reference: str | None) -> str:
    """Return the member's name that a reference in a document of ``folder`` means."""
    path = unquote((reference or "").partition("#")[0])
    return posixpath.normpath(posixpath.join(folder, path)).lstrip("/")


def link_target(document: str, reference: str) -> tuple[str, str]:
    """Return the member and the id that a reference in ``document`` means."""
    path, _, fragment = reference.partition("#")
    member = member_path(posixpath.dirname(document), path) if path else document
    return member, unquote(fragment)


def _check_protection(archive: Archive, package: Package) -> None:
    if _ENCRYPTION not in archive:
        return
    root = parse_xml(archive.read(_ENCRYPTION), f"{archive.name}/{_ENCRYPTION}")
    encrypted = {
        member_path("", e.get("URI")) for e in root.iter() if tag_of(e) == "cipherreference"
    }
    if encrypted & set(package.documents):  # fonts alone may be encrypted
        raise ScriptError(f"{archive.name}: the book is protected (DRM), and cannot be read")
