"""The roles of the elements of a book: text, marks of notes, notes, page numbers, what is hidden.

EPUB 3 and ARIA name them; in EPUB 2 the classes tell them, as the programs that make books write
them.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING

from .untrusted_xml import tag_of

if TYPE_CHECKING:
    from lxml.etree import _Element

BLOCKS = frozenset(
    (
        *("p", "h1", "h2", "h3", "h4", "h5", "h6", "li", "blockquote", "div", "dl", "dt", "dd"),
        *("tr", "ul", "ol", "table", "tbody", "thead", "section", "article", "aside", "figure"),
        *("figcaption", "pre", "header", "footer", "main", "body", "hr", "address", "caption"),
        *("hgroup", "details", "summary", "center", "fieldset", "form"),
    )
)
HEADINGS = {f"h{level}": level for level in range(1, 7)}
_SKIPPED = frozenset(
    (
        *("script", "style", "head", "nav", "svg", "audio", "video", "rt", "rp", "rtc", "template"),
        *("iframe", "object", "noscript", "select", "button"),
    )
)
_INLINE = frozenset(("a", "sup", "span", "sub", "small", "b", "i", "em", "strong", "font"))

_PAGES = frozenset(("pagebreak", "docpagebreak"))
_MARKS = frozenset(("noteref", "docnoteref"))
_NOTES = frozenset(
    (
        *("footnote", "endnote", "rearnote", "footnotes", "endnotes", "rearnotes"),
        *("docfootnote", "docendnote", "docendnotes"),
    )
)
_BACK = frozenset(("backlink", "docbacklink", "referrer"))
_LISTS = frozenset(
    ("toc", "doctoc", "landmarks", "pagelist", "docpagelist", "loi", "lot", "loa", "lov")
)
_PAGE_CLASSES = frozenset(
    (
        *(
            "pagenum",
            "pagenumber",
            "pageno",
            "pagebreak",
            "pagenums",
            "pagenumbers",
            "pagebreaktext",
        ),
        *("xebookmakerpageno", "pageanchor", "pginternalpage", "folio"),
    )
)
_BACK_CLASSES = frozenset(("backlink", "footnoteback", "fnbackref", "noteback", "footnotebackref"))
_BOILERPLATE = frozenset(
    ("pgheader", "pgfooter", "pgboilerplate", "pgmachineheader", "pgheaderheading")
)
_CODE_CLASSES = frozenset(
    ("sourcecode", "programlisting", "highlight", "code", "listing", "codeblock", "literalblock")
)
_NOTE_BEGINNINGS = (
    *("footnote", "endnote", "rearnote", "sdfootnote", "sdendnote", "idfootnote"),
    *("msofootnotetext", "msoendnotetext"),
)
_MARK_PARTS = (
    *("noteref", "noteanc", "notecall", "notelink", "notemark", "fnanchor", "fnref"),
    *("notereference", "footnoteid"),
)
_POEMS = ("poem", "poetry", "verse", "stanza", "lineblock", "linegroup", "lyrics", "song")
_HIDDEN = re.compile(
    r"(?:display\s{0,9}:\s{0,9}none|visibility\s{0,9}:\s{0,9}hidden)", re.IGNORECASE
)
_RAISED = re.compile(r"vertical-align\s{0,9}:\s{0,9}(?:super|top|text-top|\d)", re.IGNORECASE)
_NOT_LETTERS = re.compile(r"[^a-z]+")
_LONGEST = 2000  # of an attribute that is looked at


class Role(Enum):
    """The treatment of an element when a page is read aloud."""

    TEXT = "text"
    LEFT_OUT = "left out"
    PAGE = "page number"
    MARK = "mark of a note"
    BACK = "link from a note to its mark"
    NOTE = "note"
    CODE = "code block"
    FORMULA = "formula"


def role_of(element: _Element, tag: str) -> Role:
    """Return the role of an element; ``tag`` is its name without a namespace."""
    if not tag or tag in _SKIPPED:
        return Role.LEFT_OUT
    if tag == "math":
        return Role.FORMULA
    types, classes = _types(element), _classes(element)
    is_inline = tag in _INLINE
    if types & _PAGES or classes & _PAGE_CLASSES:
        return Role.PAGE
    if types & _LISTS or classes & _BOILERPLATE or _is_hidden(element):
        return Role.LEFT_OUT
    if types & _BACK or classes & _BACK_CLASSES:
        return Role.BACK
    if types & _MARKS:
        return Role.MARK
    if is_inline and any(part in name for name in classes for part in _MARK_PARTS):
        return Role.MARK
    if not is_inline and (types & _NOTES or any(map(_names_note, classes))):
        return Role.NOTE
    if tag == "pre" and (classes & _CODE_CLASSES or _is_code(element)):
        return Role.CODE
    if tag in ("div", "figure") and classes & {"sourcecode", "highlight", "programlisting"}:
        return Role.CODE
    return Role.TEXT


def is_raised(element: _Element, tag: str) -> bool:
    """Return whether an element stands above the line, as marks of notes do."""
    style = (element.get("style") or "")[:_LONGEST]
    names = _classes(element)
    return (
        tag == "sup" or bool(_RAISED.search(style)) or bool(names & {"sup", "super", "superscript"})
    )


def is_drop_capital(element: _Element) -> bool:
    """Return whether an element is the large first letter of a chapter."""
    return any(
        name.startswith(("dropcap", "initial", "lettrine", "firstletter", "bigletter"))
        for name in _classes(element)
    )


def is_poem(element: _Element) -> bool:
    """Return whether the lines of an element are those of a poem."""
    return any(name.startswith(_POEMS) for name in _classes(element) | _types(element))


def is_line(element: _Element, tag: str) -> bool:
    """Return whether an element in a paragraph is a line of a poem."""
    return tag == "span" and bool(_classes(element) & {"line", "verse", "poemline", "i"})


def _names_note(name: str) -> bool:
    is_mark = any(part in name for part in _MARK_PARTS) or name.endswith(("label", "number"))
    return name.startswith(_NOTE_BEGINNINGS) and not is_mark


def _is_hidden(element: _Element) -> bool:
    if element.get("hidden") is not None or element.get("aria-hidden") == "true":
        return True
    return bool(_HIDDEN.search((element.get("style") or "")[:_LONGEST]))


def _is_code(element: _Element) -> bool:
    """Return whether a ``pre`` holds a ``code`` alone."""
    children = [tag_of(child) for child in element[:2]]
    return children == ["code"] and not (element.text or "").strip()


def _types(element: _Element) -> frozenset[str]:
    """Return the values of ``epub:type``, whatever a parser calls it, and of ``role``."""
    values = (
        str(value)[:_LONGEST]
        for name, value in element.attrib.items()
        if str(name).endswith(("}type", ":type")) or name in ("role", "epub_type")
    )
    return _names(" ".join(values))


def _classes(element: _Element) -> frozenset[str]:
    identity = (element.get("id") or "")[:_LONGEST]
    own = f" {identity}" if identity.startswith("pg-") else ""
    return _names((element.get("class") or "")[:_LONGEST] + own)


def _names(written: str) -> frozenset[str]:
    if not written:
        return frozenset()
    return frozenset(_NOT_LETTERS.sub("", name) for name in written.lower().split()) - {""}
