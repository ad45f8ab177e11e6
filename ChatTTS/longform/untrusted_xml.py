"""Parse XML and HTML of unknown origin: no entities, no network, bounded depth and size."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .script import Place, ScriptError

if TYPE_CHECKING:
    from lxml.etree import _Element

_DECLARATIONS = (b"<!entity", b"<!attlist", b"<!element")
_ENCODING = re.compile(rb"""(?:encoding|charset)\s{0,9}=\s{0,9}["']?([\w-]{1,40})""", re.IGNORECASE)
# Those of old books. Others, such as UTF-7, hide declarations from the search in the bytes.
_ENCODINGS = {
    **dict.fromkeys(("iso-8859-1", "latin1", "latin-1", "windows-1252", "cp1252"), "cp1252"),
    **dict.fromkeys(("gb2312", "gbk", "gb18030"), "gb18030"),
    **{name: name for name in ("big5", "shift_jis", "euc-jp", "euc-kr", "iso-8859-15")},
    **{name: name for name in ("iso-8859-2", "windows-1250", "windows-1251", "koi8-r")},
}
_HEAD = 2000


def parse_xml(data: bytes, name: str, *, doctype: bool = True) -> _Element:
    """Return the root of an XML document.

    Args:
        doctype: whether a document type without declarations is allowed.

    Raises:
        ScriptError: it is no XML, or declares entities.
    """
    etree = _etree(name)
    _check(data, name)
    if not doctype and b"<!doctype" in data.lower():
        raise ScriptError(f"{name}: a document type is not allowed in it")
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, recover=False
    )
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise _damaged(error, name) from error
    # Some encodings, such as UTF-7, hide a declaration from the search in the bytes.
    declared = root.getroottree().docinfo.internalDTD
    if declared is not None and (not doctype or any(True for _ in declared.iterentities())):
        raise ScriptError(f"{name}: it declares XML entities, which are not read")
    return root


def parse_html(data: bytes, name: str) -> _Element:
    """Return the root of an HTML or XHTML document, also a sloppy one.

    Raises:
        ScriptError: it is empty, or declares entities.
    """
    etree = _etree(name)
    _check(data, name)
    parser = etree.HTMLParser(encoding="utf-8", no_network=True, huge_tree=False)
    try:
        root = etree.fromstring(_as_utf8(data), parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise _damaged(error, name) from error
    if root is None:
        raise ScriptError(f"{name}: the document is empty")
    # Sloppiness is an error to the parser, and where it gives up, a fatal one.
    fatal = [each for each in parser.error_log if each.level_name == "FATAL"]
    if fatal:
        raise Place(name, fatal[0].line).error(f"the document is damaged ({fatal[0].message})")
    return root


def walked(root: _Element) -> Iterator[tuple[_Element, bool]]:
    """Yield each element twice: where it begins, with ``False``, and where it ends, with ``True``.

    It keeps a stack of its own, since a hostile document is nested deeper than Python's.
    """
    stack: list[tuple[_Element, bool]] = [(root, False)]
    while stack:
        element, is_end = stack.pop()
        yield element, is_end
        if not is_end:
            stack.append((element, True))
            stack.extend((child, False) for child in reversed(element))


def tag_of(element: _Element) -> str:
    """Return an element's name without its namespace; empty for comments and instructions."""
    tag: Any = element.tag
    return tag.rpartition("}")[2].lower() if isinstance(tag, str) else ""


def _as_utf8(data: bytes) -> bytes:
    """Return a document in UTF-8; an encoding that it does not name is UTF-8 already."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace").encode()
    named = _ENCODING.search(data[:_HEAD])
    name = _ENCODINGS.get(named[1].decode("ascii", "replace").lower()) if named else None
    if name is None:
        return data.replace(b"\0", b"")
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode(name, "replace").encode()
    return data  # many a book names an old encoding and has another


def _check(data: bytes, name: str) -> None:
    # A zero byte before each letter hides a declaration, in UTF-16 and UTF-32.
    small = data.replace(b"\0", b"").lower()
    if any(word in small for word in _DECLARATIONS):
        raise ScriptError(f"{name}: it declares XML entities, which are not read")


def _damaged(error: Exception, name: str) -> ScriptError:
    line = getattr(error, "lineno", None) or 0
    return Place(name, line).error(f"the document is damaged ({error})")


def _etree(name: str) -> Any:
    try:
        from lxml import etree
    except ImportError as error:
        raise ScriptError(
            f"{name}: XML needs lxml: pip install 'chattts-velocity[longform]'"
        ) from error
    return etree
