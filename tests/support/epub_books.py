"""Small EPUBs for tests."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

from ChatTTS.longform.files import read_script_bytes
from ChatTTS.longform.script import Script

_CONTAINER = '<container><rootfiles><rootfile full-path="E/book.opf"/></rootfiles></container>'


def epub(
    documents: Mapping[str, str],
    *,
    nav: str | None = None,
    ncx: str | None = None,
    aside: tuple[str, ...] = (),
) -> bytes:
    """Return a book.

    Args:
        documents: the bodies of its documents by their names in the folder ``E``, in order.
        nav: the list of the navigation document; ``ncx``: the points of an NCX.
        aside: documents outside of the order of reading.
    """
    items = [f'<item id="d{n}" href="{name}" media-type="application/xhtml+xml"/>'
             for n, name in enumerate(documents)]  # fmt: skip
    refs = [
        f'<itemref idref="d{n}"{" linear=" + chr(34) + "no" + chr(34) if name in aside else ""}/>'
        for n, name in enumerate(documents)
    ]
    members = {
        f"E/{name}": '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub='
        f'"http://www.idpf.org/2007/ops"><head><title>t</title></head><body>{body}</body></html>'
        for name, body in documents.items()
    }
    if nav is not None:
        items.append(
            '<item id="n" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>'
        )
        members["E/nav.xhtml"] = (
            f'<html><body><nav epub:type="toc"><ol>{nav}</ol></nav></body></html>'
        )
    if ncx is not None:
        items.append('<item id="x" href="toc.ncx" media-type="application/x-dtbncx+xml"/>')
        members["E/toc.ncx"] = (
            '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><docTitle><text>No</text></docTitle>'
            f"<navMap>{ncx}</navMap></ncx>"
        )
    members["META-INF/container.xml"] = _CONTAINER
    members["E/book.opf"] = (
        '<package xmlns:dc="d"><metadata><dc:title>Title</dc:title></metadata>'
        f"<manifest>{''.join(items)}</manifest><spine>{''.join(refs)}</spine></package>"
    )
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        for name, text in members.items():
            file.writestr(name, text)
    return data.getvalue()


def entry(title: str, reference: str, inner: str = "") -> str:
    """Return an entry of a navigation document."""
    below = f"<ol>{inner}</ol>" if inner else ""
    return f'<li><a href="{reference}">{title}</a>{below}</li>'


def point(title: str, reference: str, inner: str = "") -> str:
    """Return a point of an NCX."""
    return (
        f"<navPoint><navLabel><text>{title}</text></navLabel>"
        f'<content src="{reference}"/>{inner}</navPoint>'
    )


def chapters_of(script: Script) -> list[tuple[str, list[str]]]:
    """Return the titles with their texts."""
    return [
        (title, [line.text for line in script.lines if line.chapter == number])
        for number, title in enumerate(script.chapters)
    ]


def texts_of(body: str, notes: str = "skip", **others: str) -> list[str]:
    """Return what is spoken of a book of one document, and of ``others``."""
    documents = {"a.xhtml": body} | {f"{name}.xhtml": text for name, text in others.items()}
    script = read_script_bytes(epub(documents), "b.epub", notes=notes)
    return [line.text for line in script.lines]
