"""The page of all messages is current, and finds messages however they are made."""

from __future__ import annotations

import ast
import re

import pytest

from .make_messages import PAGE, messages, messages_of, page
from .support.places import ROOT

ERRORS_OF_THE_PAGE = ROOT / "ChatTTS" / "serving" / "web" / "errors.js"


def test_the_page_is_current() -> None:
    """`python -m tests.make_messages` writes it; read what it changes as a user would."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_the_page_has_messages_of_each_kind() -> None:
    found = messages()
    assert (
        "an API key is needed: send it as `Authorization: Bearer KEY`"
        in (found["AuthenticationError"])
    )
    assert any(text.startswith("NO API KEYS") for text in found["Log"])
    assert len(found) > 50


@pytest.mark.parametrize(
    ("source", "kind", "texts"),
    [
        ("raise TextError('it is bad')", "TextError", {"it is bad"}),
        ("raise errors.TextError(f'{x!r} is {y:.1f}')", "TextError", {"{x} is {y}"}),
        ("TextError('a b' if x else 'c ' 'd')", "TextError", {"a b", "c d"}),
        ("TextError('it is ' + kind)", "TextError", {"it is {kind}"}),
        ("def f():\n m = 'a b'\n if x:\n  m = 'c d'\n raise E2Error(m)", "E2Error", {"a b", "c d"}),
        (
            "class AError(Exception):\n def __init__(self):\n  super().__init__('a b')",
            "AError",
            {"a b"},
        ),
        ("logger.warning('it %s', 'no message here')", "Log", {"it %s"}),
        ("warnings.warn('it is old', stacklevel=2)", "Warnings", {"it is old"}),
        ("return SocketClose(NORMAL, 'it is over')", "SocketClose", {"it is over"}),
        ("TextError('code', param='field')", "TextError", set()),
    ],
)
def test_messages_are_found(source: str, kind: str, texts: set[str]) -> None:
    assert messages_of(ast.parse(source))[kind] == texts


def test_the_page_in_the_browser_reads_messages_that_there_are() -> None:
    """It tells some errors apart by their messages, where they have one code."""
    source = ERRORS_OF_THE_PAGE.read_text(encoding="utf-8")
    patterns = re.findall(r"/([^/\n]+)/(?:\.test\(message\)|, \")", source)
    texts = [text for kind in messages().values() for text in kind]
    parts = [part for pattern in patterns for part in pattern.split("|")]
    assert len(parts) > 7
    assert {part for part in parts if not any(re.search(part, text) for text in texts)} == set()
