"""The language of a text on the command line: a built-in one, or one of the user's own."""

from __future__ import annotations

import pytest

from ChatTTS.cli import main

from ..support.cli_tools import FakeChat

pytestmark = pytest.mark.usefixtures("empty_home")


def in_capitals(text: str) -> str:
    return text.upper()


@pytest.mark.parametrize("command", ["say", "refine"])
def test_a_language_of_the_user(command: str, chat: FakeChat) -> None:
    named = ("--normalizer", f"fr={__name__}:in_capitals", "--lang", "fr")
    assert main([command, "bonjour", "--model", "bundled", *named]) == 0
    assert chat.asked["lang"] == "fr"
    assert chat.normalizer.normalizers == {"fr": in_capitals}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lang", "fr"], "--lang must be en or zh, not 'fr'"),
        (["--normalizer", "fr=texts"], "takes LANGUAGE=MODULE:FUNCTION"),
        (["--normalizer", "fr=a:b"] * 2, "names 'fr' twice"),
        (["--lang", "de", "--normalizer", "fr=a:b"], "--lang must be en, zh or fr, not 'de'"),
    ],
)
@pytest.mark.parametrize("command", [["say", "hi"], ["read", "a.txt", "--plan"]])
def test_a_wrong_language_is_one_error(
    command: list[str],
    options: list[str],
    message: str,
    chat: FakeChat,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main([*command, *options]) == 2
    assert message in capfd.readouterr().err
    assert not chat.loaded


def test_a_function_that_is_not_there(chat: FakeChat, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["say", "hi", "--normalizer", "fr=tests.nowhere:read"]) == 1
    told = capfd.readouterr().err
    assert "the function 'tests.nowhere:read' cannot be imported" in told
    assert "PYTHONPATH" in told
    assert not chat.loaded
