"""``chattts read``: from a file to a work, with the bundled model's ``infer`` replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

import ChatTTS.core
from ChatTTS.audio import read
from ChatTTS.cli import main
from ChatTTS.core import Chat
from ChatTTS.longform import reading

from ..support.longform_tools import Speaks

pytestmark = pytest.mark.usefixtures("empty_home")

BOOK = "# One\n\nHello there.\n\n# Two\n\nGood day.\n\n# Three\n\nThe end.\n"


@pytest.fixture
def infer(standard: Chat, monkeypatch: pytest.MonkeyPatch) -> Speaks:
    fake = Speaks()
    monkeypatch.setattr(standard, "infer", fake)
    monkeypatch.setattr(standard, "load_or_raise", lambda *_, **__: None)
    monkeypatch.setattr(ChatTTS.core, "Chat", lambda: standard)
    return fake


def test_a_book_becomes_a_file_with_its_chapters(
    infer: Speaks, capsys: pytest.CaptureFixture[str]
) -> None:
    av = pytest.importorskip("av")
    Path("book.md").write_text(BOOK)
    assert main(["read", "book.md", "-o", "book.m4b", "--from", "Two", "--pause", "chapter=1"]) == 0
    assert infer.said == ["Two", "Good day.", "Three", "The end."]
    with av.open("book.m4b") as file:
        assert [c["metadata"]["title"] for c in file.chapters()] == ["Two", "Three"]
    assert "2 chapters, 4 lines" in capsys.readouterr().err
    assert not Path("book.m4b.parts").exists()


def test_a_stopped_run_goes_on(infer: Speaks, capsys: pytest.CaptureFixture[str]) -> None:
    Path("book.md").write_text(BOOK)
    command = ["read", "book.md", "-o", "book.wav", "--loudness", "off", "--keep"]
    infer.fails_at = "Three"
    assert main(command) == 1
    error = capsys.readouterr().err
    assert "error: book.md:9: no such thing" in error
    assert "lines are kept in book.wav.parts" in error
    infer.fails_at = None
    assert main(command) == 0
    assert infer.said.count("One") == 1
    assert len(list(Path("book.wav.parts").glob("*.line"))) == 6
    before = list(infer.said)
    assert main(command) == 0
    assert infer.said == before


@pytest.mark.parametrize(
    ("arguments", "message", "status"),
    [
        (["gone.md", "-o", "a.wav"], "gone.md cannot be read", 1),
        (["book.md", "-o", "a.xyz"], "a.xyz must end in .m4b", 1),
        (["book.md"], "-o/--out", 2),
        (["book.md", "-o", "a.wav", "--from", "9"], "no chapter '9'", 1),
        (["book.md", "-o", "a.wav", "--loudness", "loud"], "--loudness takes LUFS", 2),
        (["book.md", "-o", "a.wav", "--pause", "comma=1"], "--pause takes phrase, sentence", 2),
        (["book.md", "-o", "a.wav", "--pause", "line=-1"], "the pause line", 2),
        (["book.md", "-o", "a.wav", "--voices", "gone.toml"], "gone.toml cannot be read", 1),
        (["book.md", "-o", "a.wav", "--voice", "nina"], "book.md:1: there is no voice 'nina'", 1),
        (["book.md", "-o", "a.wav", "--subtitles", "a.doc"], "a.doc", 1),
        (["book.md", "-o", "a.wav", "--subtitles", "no/a.srt"], "folder no does not exist", 1),
        (["film.srt", "-o", "a.wav", "--subtitles", "./film.srt"], "would replace the script", 2),
        (["code.md", "-o", "a.wav", "--strict"], "code.md:3: a code block is left out", 1),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_spoken(
    arguments: list[str],
    message: str,
    status: int,
    infer: Speaks,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if any(argument.endswith(".srt") for argument in arguments):
        pytest.importorskip("pysubs2")
    Path("book.md").write_text(BOOK)
    Path("film.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nHello.\n")
    Path("code.md").write_text("Text.\n\n```\ncode\n```\n")
    assert main(["read", *arguments]) == status
    assert message in capsys.readouterr().err
    assert infer.said == []
    assert not Path("a.wav").exists()


PLAN = """book: 2 chapters, 4 lines, about 5 s

1  Two  (4 s, 3 lines)
2  Three  (0 s, 1 line)

1  Two  (4 s, 3 lines)
   Two
   Good day. [pause:0.5s]
   [voice:anna] My dear.

2  Three  (0 s, 1 line)
   Three
"""


def test_a_plan_tells_what_would_be_spoken_and_speaks_nothing(
    infer: Speaks, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "# book\n\n# Two\n\nGood day. [pause:500ms] [voice:anna] My dear.\n\n# Three\n"
    Path("book.md").write_text(text)
    assert main(["read", "book.md", "--plan", "--from", "Two"]) == 0
    assert capsys.readouterr().out == PLAN
    assert infer.said == []


def test_notes_are_spoken_where_they_are_asked_for(infer: Speaks) -> None:
    Path("book.md").write_text("The wolf left.[^1] Cold.\n\n[^1]: In March.\n")
    command = ["read", "book.md", "-o", "a.wav", "--loudness", "off"]
    for notes, said in (
        ([], ["The wolf left. Cold."]),
        (["--notes", "end"], ["The wolf left. Cold.", "Note: In March."]),
        (["--notes", "inline"], ["The wolf left.", "Note: In March.", "Cold."]),
    ):
        infer.said.clear()
        assert main([*command, *notes]) == 0
        assert infer.said == said


def test_one_chapter_is_no_chapters(infer: Speaks, capsys: pytest.CaptureFixture[str]) -> None:
    Path("book.md").write_text("# One\n")
    assert main(["read", "book.md", "-o", "a.wav", "--loudness", "off"]) == 0
    assert "1 chapter, 1 line" in capsys.readouterr().err


def test_cues_are_fitted_to_their_time(
    infer: Speaks, standard: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pysubs2")
    monkeypatch.setattr(standard, "find_alignment_heads", lambda **_: None)
    monkeypatch.setattr(reading, "speech_lengths", lambda *_, **__: None)
    Path("film.srt").write_text("1\n00:00:01,000 --> 00:00:01,500\nHello there.\n")
    out = ["read", "film.srt", "-o", "film.wav", "--loudness", "off"]
    assert main([*out, "--fit", "--late", "cut"]) == 0
    assert infer.durations == [0.5]
    samples, rate = read("film.wav")
    assert len(samples) == round(1.5 * rate)
    assert main(out) == 0
    assert infer.durations == [0.5]
