"""Find tables of contents and indexes in the text of a book: lists whose rows are links."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .untrusted_xml import tag_of, walked

if TYPE_CHECKING:
    from lxml.etree import _Element

_LISTS = frozenset(("table", "ul", "ol", "dl"))
_ROWS = frozenset(("li", "tr", "p", "div", "dd"))
_PAGE = re.compile(r"#(?:page|pg|p)[-_]?[ivxlcdm\d]{1,6}$", re.IGNORECASE)
# Links to notes have such texts, too.
_LABEL = re.compile(r"[\W\d_]{0,12}[a-zA-Z]?[\W\d_]{0,12}")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]{0,30}:")
_LEAST = 3  # rows of a list of links
_LONGEST_ROW = 300
_MOST_OF_LIST, _MOST_OF_ROW = 0.75, 0.6


@dataclass
class _Counts:
    """The letters, links and rows of an element.

    Attributes:
        letters: all of them, and ``linked`` those in links to parts of the book.
        named: links with the number of a page to what the contents name, or to a page.
        run: the last children that are links alone.
    """

    letters: int = 0
    linked: int = 0
    links: int = 0
    named: int = 0
    rows: int = 0
    link_rows: int = 0
    run: list[_Element] = field(default_factory=list)

    @property
    def is_row_of_links(self) -> bool:
        has_page = self.named > 0 and self.letters <= _LONGEST_ROW
        return has_page or self.is_mostly_links

    @property
    def is_mostly_links(self) -> bool:
        return self.links > 0 and self.linked >= _MOST_OF_ROW * self.letters


def lists_of_links(root: _Element, targets: frozenset[str]) -> set[_Element]:
    """Return the elements that list links to parts of the book, and no text.

    Args:
        targets: references of the table of contents, as the document would write them. The number
            of a page that leads to one of them, or to a page, makes its whole row one of links;
            any other link must be most of its row.
    """
    found: set[_Element] = set()
    open_ones = [_Counts()]
    for element, is_end in walked(root):
        if not is_end:
            counts = _Counts(_length(element.text))
            open_ones.append(counts)
            continue
        tag, counts, parent = tag_of(element), open_ones.pop(), open_ones[-1]
        if tag == "a":
            _count_link(element, counts, targets)
        is_list = counts.link_rows >= max(_LEAST, _MOST_OF_LIST * counts.rows)
        is_row = counts.links >= _LEAST and counts.is_mostly_links
        if (tag in _LISTS and is_list) or (tag in _ROWS and is_row):
            found.add(element)
        _end_run(counts, found)
        _add(parent, counts, element, tag, found)
    return found


def _count_link(element: _Element, counts: _Counts, targets: frozenset[str]) -> None:
    reference = (element.get("href") or "")[:_LONGEST_ROW]
    if not reference or _SCHEME.match(reference) or not counts.letters:
        return
    is_short = counts.letters <= _LONGEST_ROW
    text = "".join(element.itertext())[:_LONGEST_ROW].strip() if is_short else ""
    is_label = _LABEL.fullmatch(text) is not None
    is_named = is_label and (reference in targets or _PAGE.search(reference) is not None)
    if is_named or (text and not is_label):
        counts.links, counts.named, counts.linked = 1, int(is_named), counts.letters


def _add(
    parent: _Counts, counts: _Counts, element: _Element, tag: str, found: set[_Element]
) -> None:
    """Add what is counted in an element to its parent."""
    parent.letters += counts.letters
    parent.linked += counts.linked
    parent.links += counts.links
    parent.named += counts.named
    if tag in _ROWS and counts.letters:
        parent.rows += 1
        parent.link_rows += counts.is_row_of_links
    elif tag not in _LISTS:
        parent.rows += counts.rows
        parent.link_rows += counts.link_rows
    if tag in _ROWS and counts.links and counts.linked == counts.letters:
        parent.run.append(element)
    elif counts.letters:
        _end_run(parent, found)
    tail = _length(element.tail)
    parent.letters += tail
    if tail:
        _end_run(parent, found)


def _end_run(counts: _Counts, found: set[_Element]) -> None:
    if len(counts.run) >= _LEAST:
        found.update(counts.run)
    counts.run.clear()


def _length(text: str | None) -> int:
    return sum(map(str.isalnum, text)) if text else 0
