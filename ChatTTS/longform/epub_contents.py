"""The table of contents of an EPUB: the navigation document of EPUB 3, or the NCX of EPUB 2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .archive import Archive
from .epub_package import link_target
from .notes import without_controls
from .script import ScriptError
from .spaces import unwrapped
from .untrusted_xml import parse_html, parse_xml, tag_of, walked

if TYPE_CHECKING:
    from lxml.etree import _Element

_MOST_ENTRIES = 20_000
_LONGEST_TITLE = 500
_SUFFIX = ("}type", ":type")


@dataclass(frozen=True)
class Entry:
    """A line of the contents.

    Attributes:
        member, fragment: what it leads to: a document, and perhaps an id in it.
        depth: 0 for the outermost ones.
    """

    title: str
    member: str
    fragment: str
    depth: int


def read_contents(archive: Archive, member: str) -> list[Entry]:
    """Return the entries of a table of contents, in its order.

    Raises:
        ScriptError: it is missing or damaged.
    """
    data, name = archive.read(member), f"{archive.name}/{member}"
    if b"<navMap" in data or member.lower().endswith(".ncx"):
        found = _of_ncx(parse_xml(data, name))
    else:
        found = _of_nav(parse_html(data, name))
    entries: list[Entry] = []
    for title, reference, depth in found:
        if len(entries) == _MOST_ENTRIES:
            raise ScriptError(f"{name}: the contents have more than {_MOST_ENTRIES} entries")
        target, fragment = link_target(member, reference)
        entries.append(
            Entry(unwrapped(without_controls(title))[:_LONGEST_TITLE], target, fragment, depth)
        )
    return entries


def _of_ncx(root: _Element) -> Iterator[tuple[str, str, int]]:
    """Yield title, reference and depth of each point that has a reference.

    A point without one, the name of a group, goes into the title of the point after it.
    """
    depth, group = -1, ""
    for element, is_end in walked(root):
        if tag_of(element) != "navpoint":
            continue
        depth += -1 if is_end else 1
        if is_end:
            continue
        own = {tag_of(child): child for child in element}
        label, content = own.get("navlabel"), own.get("content")
        title = "" if label is None else "".join(label.itertext())
        reference = "" if content is None else (content.get("src") or "").strip()
        title = f"{group}: {title}" if group else title
        group = "" if reference else title
        if reference:
            yield title, reference, depth


def _of_nav(root: _Element) -> Iterator[tuple[str, str, int]]:
    """Yield title, reference and depth of each link; see :func:`_of_ncx`."""
    navs = [e for e in root.iter() if tag_of(e) == "nav"]
    typed = [e for e in navs if "toc" in _types(e)]
    part = next(iter(typed or [e for e in navs if not _types(e)] or navs), root)
    depth, group = -1, ""
    for element, is_end in walked(part):
        tag = tag_of(element)
        if tag in ("ol", "ul"):
            depth += -1 if is_end else 1
        elif not is_end and tag in ("a", "span") and _parent(element) == "li":
            reference = (element.get("href") or "").strip()
            title = _text(element)
            title = f"{group}: {title}" if group and title else title or group
            group = "" if reference else title
            if reference:
                yield title, reference, max(depth, 0)
        elif not is_end and tag == "a" and element.get("href"):
            yield _text(element), str(element.get("href")).strip(), max(depth, 0)


def _parent(element: _Element) -> str:
    parent = element.getparent()
    return "" if parent is None else tag_of(parent)


def _text(link: _Element) -> str:
    """Return the text of a link, with that of its pictures."""
    parts = []
    for element in link.iter():
        parts.append(element.text if tag_of(element) else "")
        parts.append(element.get("alt") if tag_of(element) == "img" else "")
        parts.append(element.tail if element is not link else "")
    text = "".join(part for part in parts if part)
    return text if text.strip() else link.get("title") or ""


def _types(element: _Element) -> str:
    return " ".join(
        str(value).lower()
        for name, value in element.attrib.items()
        if str(name).endswith(_SUFFIX) or name == "role"
    )
