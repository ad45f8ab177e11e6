"""The mark of a work: its day is the one on which the first line was spoken."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import pytest

from ChatTTS.audio import Mark, find_mark
from ChatTTS.core import Chat
from ChatTTS.longform.files import parse_script
from ChatTTS.longform.script import ScriptError
from ChatTTS.longform.settings import ReadSettings

from ..support.chat_tools import LIVELY
from ..support.longform_tools import Speaks

SETTINGS = ReadSettings(parameters=LIVELY)
SCRIPT = parse_script("One line.\n\nAnother line.\n\nThe last line.")
LONG_AGO = 1_700_000_000  # in November 2023


@pytest.fixture
def infer(standard: Chat, monkeypatch: pytest.MonkeyPatch) -> Speaks:
    fake = Speaks()
    monkeypatch.setattr(standard, "infer", fake)
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    return fake


def test_a_reading_that_goes_on_later_has_its_first_day(
    standard: Chat, infer: Speaks, tmp_path: Path
) -> None:
    folder = tmp_path / "lines"
    infer.fails_at = "The last line."
    with standard.read(SCRIPT, SETTINGS, folder=folder) as recording:
        with pytest.raises(ScriptError):
            recording.save(tmp_path / "a.flac")
        kept = sorted(folder.glob("*.line"))
        assert len(kept) == 2
        os.utime(kept[0], (LONG_AGO, LONG_AGO))
    infer.fails_at = None
    with standard.read(SCRIPT, SETTINGS, folder=folder) as recording:
        path = recording.save(tmp_path / "a.flac")
        assert find_mark(path).day == "2023-11-14"
        # Lines of other works in the folder do not count.
        os.utime(kept[0])
        (folder / f"{'0' * 64}.line").write_bytes(b"")
        os.utime(folder / f"{'0' * 64}.line", (LONG_AGO, LONG_AGO))
        assert find_mark(recording.save(tmp_path / "b.flac")).day != "2023-11-14"


def test_a_mark_of_the_callers(
    standard: Chat, infer: Speaks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with standard.read(SCRIPT, SETTINGS) as recording:
        given = Mark(date(2026, 3, 1), "A radio")
        found = find_mark(recording.save(tmp_path / "a.mp3", mark=given))
        assert (found.day, found.label["ContentProducer"]) == ("2026-03-01", "A radio")
        assert not find_mark(recording.save(tmp_path / "b.mp3", mark=False)).is_synthetic
        monkeypatch.setenv("SOURCE_DATE_EPOCH", f"{LONG_AGO}")
        found = find_mark(recording.save(tmp_path / "c.mp3", mark=Mark(producer="A radio")))
        assert (found.day, found.label["ContentProducer"]) == ("2023-11-14", "A radio")
