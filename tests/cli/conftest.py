"""Fixtures of several modules of this folder."""

from __future__ import annotations

import pytest

import ChatTTS.core
from ChatTTS.cli import main

from ..support.cli_tools import FakeChat, Run


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> FakeChat:
    """The fake ``Chat`` that commands load in place of a real one."""
    fake = FakeChat()
    monkeypatch.setattr(ChatTTS.core, "Chat", lambda: fake)
    return fake


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run the command; return its exit status, standard output and standard error."""

    def command(*arguments: str) -> tuple[int, bytes, str]:
        status = main(arguments)
        captured = capfdbinary.readouterr()
        return status, captured.out, captured.err.decode()

    return command
