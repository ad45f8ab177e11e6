"""Plain text: chapters by their lines, Project Gutenberg's frame, and notes."""

from __future__ import annotations

import pytest

from ChatTTS.longform.files import parse_script

from ..support.epub_books import chapters_of

ALICE = """\ufeffThe Project Gutenberg EBook of Alice, by Lewis Carroll

Title: Alice in Wonderland

Author: Lewis Carroll

*** START OF THIS PROJECT GUTENBERG EBOOK ALICE ***

Produced by A Volunteer

ALICE'S ADVENTURES

CONTENTS

CHAPTER I.     Down the Rabbit-Hole
CHAPTER II.    The Pool of Tears
CHAPTER III.   A Caucus-Race

[Illustration]

CHAPTER I.
Down the Rabbit-Hole

Alice was beginning to get very tired.[1] So was
I.

[Illustration: A rabbit.]

CHAPTER II.
The Pool of Tears

"Curiouser!" cried Alice.

[Footnote 1: On a bank.]

*** END OF THIS PROJECT GUTENBERG EBOOK ALICE ***

Updated editions will replace the previous one.
"""


def test_a_text_of_gutenberg_has_its_chapters_and_no_frame() -> None:
    script = parse_script(ALICE, "a.txt", "plain")
    assert (script.title, script.author) == ("Alice in Wonderland", "Lewis Carroll")
    assert chapters_of(script) == [
        (
            "CHAPTER I. Down the Rabbit-Hole",
            [
                "CHAPTER I. Down the Rabbit-Hole",
                "Alice was beginning to get very tired. So was I.",
                "A rabbit.",
            ],
        ),
        (
            "CHAPTER II. The Pool of Tears",
            ["CHAPTER II. The Pool of Tears", '"Curiouser!" cried Alice.'],
        ),
    ]
    with_notes = parse_script(ALICE, "a.txt", "plain", "inline")
    assert [line.text for line in with_notes.lines][1:4] == [
        "Alice was beginning to get very tired.",
        "Note: On a bank.",
        "So was I.",
    ]


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("Chapter 1\n\na\n\nChapter 2\n\nb", ("Chapter 1", "Chapter 2")),
        ("Chapter 1\nThe wolf left.\n\nChapter 2\nIt came.", ("Chapter 1", "Chapter 2")),
        ("CHAPTER II. The Storm\n\na", ("CHAPTER II. The Storm",)),
        ("CHAPTER IV\n\nTHE STORM\n\na", ("CHAPTER IV: THE STORM",)),
        ("Chapter Twenty-One: The Sea\n\na", ("Chapter Twenty-One: The Sea",)),
        ("PREFACE\n\na\n\nPart One\n\nb\n\nEpilogue\n\nc", ("PREFACE", "Part One", "Epilogue")),
        ("Before.\n\nChapter 1\n\na", ("", "Chapter 1")),
        ("第一章 风暴\n　　天很冷。\n　　他走了。\n第二章\n　　完。", ("第一章 风暴", "第二章")),
        ("第十二回 　夜\n\na\n\n尾声\n\nb", ("第十二回 夜", "尾声")),
        ("I.\n\na\n\nII.\n\nb\n\nIII. THE END\n\nc", ("I.", "II.", "III. THE END")),
        ("Contents\n\nChapter 1\n\nChapter 2\n\nChapter 1\n\na\n\nChapter 2\n\nb",
         ("Chapter 1", "Chapter 2")),
    ],
)  # fmt: skip
def test_lines_that_begin_chapters(text: str, titles: tuple[str, ...]) -> None:
    assert parse_script(text, "a.txt", "plain").chapters == titles


@pytest.mark.parametrize(
    "text",
    [
        "Chapter 1 of this book was written in a night.\n\nb",
        "Part one was over.\n\nb",
        "Introduction\n\nAn essay.",
        "I.\n\nWe.",
        "第一章说的是风暴，第二章说的是海。\n\n他走了。",
        "chapter 1\n\na",
        "Partly 1\n\na",
    ],
)
def test_lines_of_prose_begin_no_chapters(text: str) -> None:
    script = parse_script(text, "a.txt", "plain")
    assert script.chapters == ("",)
    assert "".join(line.text for line in script.lines).replace(" ", "") == "".join(text.split())


def test_raised_numbers_after_words_are_marks_and_powers_are_not() -> None:
    (line,) = parse_script("It left.¹ 5 m² is x² of land.", "a.txt", "plain").lines
    assert line.text == "It left. 5 m² is x² of land."


def test_many_marks_in_one_paragraph_are_searched_once() -> None:
    text = "a[1]" * 20_000 + "\n\n[1] The note."
    lines = parse_script(text, "a", "plain", "inline").lines
    assert sum(len(line.text) for line in lines[:-1]) == 20_000
    assert lines[-1].text == "Note: The note."
