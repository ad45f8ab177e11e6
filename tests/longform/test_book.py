"""The benchmark of books at a small size: from the grammar's book to the checked file."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("lxml")

from benchmarks.longform.book import chapters, write_epub
from benchmarks.longform.book_run import BookSettings, run_book
from ChatTTS.longform.files import read_script


@pytest.mark.slow
def test_equal_seeds_write_equal_books(tmp_path: Path) -> None:
    book = chapters(2.0, 3, seed=4)
    for name in ("a.epub", "b.epub"):
        write_epub(tmp_path / name, book)
    assert (tmp_path / "a.epub").read_bytes() == (tmp_path / "b.epub").read_bytes()
    assert zipfile.ZipFile(tmp_path / "a.epub").testzip() is None
    script = read_script(tmp_path / "a.epub")
    assert list(script.chapters) == [each.title for each in book]
    assert script.cover is not None
    spoken = [line.text for line in script.lines]
    assert spoken == [text for each in book for text in (each.title, *each.paragraphs)]
    assert chapters(2.0, 3, seed=5) != book


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("ffprobe") is None, reason="needs ffmpeg's tools")
def test_a_book_that_is_killed_becomes_the_same_file(tmp_path: Path) -> None:
    pytest.importorskip("av")
    pytest.importorskip("pocketsphinx")
    figures = run_book(BookSettings(tmp_path, minutes=1.5, chapters=2, kills=1, listened=6))
    assert figures["killed"] == 1
    assert figures["same_bytes"]
    assert figures["chapters_right"]
    assert figures["tags_right"]
    assert figures["from_target_lu"] <= 0.5
    assert figures["true_peak_db"] <= -1.0
    assert figures["above_engine_mb"] <= 150
    for heard in figures["subtitles"].values():
        assert heard["words"] > 10
        assert heard["stretches_given_up"] <= 1
        assert heard["wrong"] <= heard["words"] / 5
        assert heard["median_apart_ms"] < 100
