"""What a server loads before its first client comes."""

from __future__ import annotations

import sys

import pytest

from ChatTTS.serving.speech.first_use import load_readers_and_codecs


def test_a_server_starts_without_lxml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lxml", None)
    load_readers_and_codecs()
