"""Scripts from plain text, Markdown, dialogues, subtitles and SSML; marks; bad input."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ChatTTS.errors import ConfigError
from ChatTTS.longform import script
from ChatTTS.longform.files import parse_script, read_script
from ChatTTS.longform.marks import expanded
from ChatTTS.longform.say_as import say_as
from ChatTTS.longform.script import Join, Line, Script, ScriptError, Style
from ChatTTS.text.pauses import seconds


def texts(script: Script) -> list[str]:
    return [line.text for line in script.lines]


# ---------------------------------------------------------------- plain text, Markdown, dialogues


def test_paragraphs_stand_between_blank_lines() -> None:
    script = parse_script("One\ntwo.\n\n\nThree.\n\n第一\n第二。\n", "a.txt")
    assert texts(script) == ["One two.", "Three.", "第一第二。"]
    assert [line.place.line for line in script.lines] == [1, 5, 7]
    assert {line.join for line in script.lines} == {Join.PARAGRAPH}


MARKDOWN = """Before.

# The *Book*

First [link](http://x.y) and **bold** `code`, snake_case_name.
Goes on.

## Second chapter ##

- an item
- another

### No chapter

> quoted

| a | b |
|---|---|
| c | d |

Third
-----

```python
left out
```

***

End.[^1]
"""


def test_headings_of_markdown_are_chapters() -> None:
    script = parse_script(MARKDOWN, "a.md", "markdown")
    assert script.chapters == ("", "The Book", "Second chapter", "Third")
    assert script.title == "The Book"
    assert [(line.text, line.chapter) for line in script.lines] == [
        ("Before.", 0),
        ("The Book", 1),
        ("First link and bold code, snake_case_name. Goes on.", 1),
        ("Second chapter", 2),
        ("an item", 2),
        ("another", 2),
        ("No chapter", 2),
        ("quoted", 2),
        ("a, b", 2),
        ("c, d", 2),
        ("Third", 3),
        ("", 3),
        ("End.", 3),
    ]
    assert script.warnings == ("a.md:24: a code block is left out",)
    with pytest.raises(ScriptError, match=r"a\.md:24"):
        script.check_strict()


def test_a_dialogue_names_its_speakers() -> None:
    source = (
        "# Scene\nAnna: Hello.\nI go on.\nBob：你好。\n[voice:carl] Me [voice:anna] too.\nWe.\n"
    )
    script = parse_script(source, "a.txt", "dialogue")
    assert script.chapters == ("Scene",)
    assert [(line.voice, line.text) for line in script.lines] == [
        ("Anna", "Hello."),
        ("Anna", "I go on."),
        ("Bob", "你好。"),
        ("carl", "Me"),
        ("anna", "too."),
        ("anna", "We."),
    ]


def test_a_dialogue_is_recognised_and_prose_with_a_colon_is_not() -> None:
    assert parse_script("Anna: Hi.\nBob: Ho.").lines[0].voice == "Anna"
    assert parse_script("Note: this is\nprose.").lines[0].voice is None


# ---------------------------------------------------------------- marks


def test_a_pause_in_a_text_is_exact_and_ends_the_line() -> None:
    script = parse_script("[pause:2s]One [pause:1.5s] [pause:250ms]two.\n\nThree [pause:1s]")
    assert [(line.text, line.pause) for line in script.lines] == [
        ("", 2.0),
        ("One", 1.75),
        ("two.", None),
        ("Three", 1.0),
    ]
    assert expanded(script) == script


@pytest.mark.parametrize("mark", ["[pause:]", "[pause:two]", "[pause:601s]", "[voice: ]"])
def test_a_mark_that_cannot_be_read_is_an_error_at_its_line(mark: str) -> None:
    with pytest.raises(ScriptError, match=r"^a\.txt:3: "):
        parse_script(f"One.\n\ntwo {mark} three", "a.txt")


def test_a_long_line_is_cut_at_sentences_and_keeps_its_text() -> None:
    sentence = "This is one sentence of a very long paragraph. "
    script = parse_script(sentence * 100)
    assert len(script.lines) > 2
    assert all(len(line.text) <= 1500 and line.text.endswith(".") for line in script.lines)
    assert " ".join(texts(script)) == (sentence * 100).strip()
    assert [line.join for line in script.lines][-2:] == [Join.SENTENCE, Join.PARAGRAPH]
    assert "".join(texts(parse_script("x" * 4000))) == "x" * 4000


@pytest.mark.parametrize(
    ("text", "expected"), [("1.5s", 1.5), ("300ms", 0.3), ("5", None), ("-1s", None)]
)
def test_seconds(text: str, expected: float | None) -> None:
    assert seconds(text) == expected


# ---------------------------------------------------------------- subtitles

SRT = """1
00:00:01,000 --> 00:00:02,500
Hello <i>there</i>,
you.

2
00:00:03,000 --> 00:00:04,000
Bye.
"""


def test_cues_are_lines_at_their_times() -> None:
    pytest.importorskip("pysubs2")
    script = parse_script(SRT, "a.srt", "cues")
    assert [(line.text, line.at, line.room, line.place.line) for line in script.lines] == [
        ("Hello there, you.", 1.0, 2.0, 2),
        ("Bye.", 3.0, 1.0, 7),
    ]
    vtt = "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Anna>Hi.</v>\n"
    (line,) = parse_script(vtt, "a.vtt", "cues").lines
    assert (line.voice, line.text, line.at) == ("Anna", "Hi.", 1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("00:00:03,000", "00:00:02,400"), r"a\.srt:7: the cue begins at 2\.4 s, before"),
        (("00:00:04,000", "00:00:03,000"), r"a\.srt:7: the cue ends before"),
    ],
)
def test_a_cue_that_overlaps_is_an_error_at_its_line(change: tuple[str, str], message: str) -> None:
    pytest.importorskip("pysubs2")
    with pytest.raises(ScriptError, match=message):
        parse_script(SRT.replace(*change), "a.srt", "cues")


# ---------------------------------------------------------------- SSML

SSML = """<speak version="1.0" xmlns="http://www.w3.org/2001/10/synthesis">
<p><s>Call <say-as interpret-as="telephone">555-12</say-as>.</s>
<s>On <say-as interpret-as="date">2024-05-06</say-as>.</s></p>
<break time="700ms"/>
Say <sub alias="World Wide Web">WWW</sub> <prosody rate="125%">fast</prosody>
<voice name="anna">me <mark name="m"/>too</voice>
<phoneme ph="x-ray" alphabet="x-respelling">X</phoneme>
</speak>"""


def test_the_elements_of_ssml() -> None:
    pytest.importorskip("lxml")
    script = parse_script(SSML, "a.ssml")
    assert script.warnings == ()
    found = [(line.text, line.voice, line.style.tempo, line.pause) for line in script.lines]
    assert found == [
        ("Call five five five, one two.", None, 1.0, None),
        ("On May 6th, 2024.", None, 1.0, 0.7),
        ("Say World Wide Web", None, 1.0, None),
        ("fast", None, 1.25, None),
        ("me", "anna", 1.0, None),
        ("too", "anna", 1.0, None),
        ("x-ray", None, 1.0, None),
    ]
    assert [line.join for line in script.lines[:2]] == [Join.SENTENCE, Join.PARAGRAPH]
    assert script.lines[5].marks == ("m",)
    assert script.lines[1].place.line == 3


def test_what_ssml_has_beyond_the_subset_is_a_warning_with_its_line() -> None:
    pytest.importorskip("lxml")
    script = parse_script('<speak>\n<w>Hi</w> <prosody pitch="high">ho</prosody></speak>')
    assert texts(script) == ["Hi ho"]
    assert [warning.partition(": ")[0] for warning in script.warnings] == ["script:2"] * 2
    assert "<w>" in script.warnings[0]
    assert "pitch" in script.warnings[1]


@pytest.mark.parametrize(
    "source",
    [
        "<speak>",
        "<speak><break time='x'/></speak>",
        "<speak><prosody rate='0%'>a</prosody></speak>",
        "<speak><sub>a</sub></speak>",
        "<speak><voice>a</voice></speak>",
        "<speak>" + "<s>" * 100 + "</s>" * 100 + "</speak>",
        "<speak>&undefined;</speak>",
    ],
)
def test_ssml_that_cannot_be_read_is_an_error_at_its_line(source: str) -> None:
    pytest.importorskip("lxml")
    with pytest.raises(ScriptError, match=r"^script:1: "):
        parse_script(source)


ENTITIES = '<!DOCTYPE speak [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>\n<speak>&b;</speak>'


@pytest.mark.parametrize("data", [ENTITIES.encode(), ENTITIES.encode("utf-16")])
def test_xml_entities_are_refused(data: bytes, tmp_path: Path) -> None:
    from ChatTTS.longform.untrusted_xml import parse_html, parse_xml

    pytest.importorskip("lxml")
    for parse in (parse_xml, parse_html):
        with pytest.raises(ScriptError, match="entities"):
            parse(data, "a.xml")


@pytest.mark.parametrize(
    ("named", "written"),
    [("GB2312", "gb18030"), ("gbk", "utf-8"), ("utf-8", "utf-8"), ("", "utf-8"), ("gbk", "utf-16")],
)
def test_a_document_may_have_an_old_encoding(named: str, written: str) -> None:
    pytest.importorskip("lxml")
    from ChatTTS.longform.untrusted_xml import parse_html

    text = f'<html><meta charset="{named}"><body><p>你好吗</p></body></html>'
    assert "".join(parse_html(text.encode(written), "a.html").itertext()) == "你好吗"


def test_an_old_encoding_of_the_west() -> None:
    pytest.importorskip("lxml")
    from ChatTTS.longform.untrusted_xml import parse_html

    page = '<meta charset="ISO-8859-1"><p>the “café”</p>'.encode("cp1252")
    assert "".join(parse_html(page, "a.html").itertext()) == "the “café”"


def test_xml_entities_that_an_encoding_hides_are_refused() -> None:
    pytest.importorskip("lxml")
    from ChatTTS.longform.untrusted_xml import parse_xml

    plain = '<?xml version="1.0" encoding="UTF-7"?>{}<p a="&b;">&b;</p>'
    declared = '<!DOCTYPE p [<!ENTITY b "lol">]>'.replace("<", "+ADw-").replace("!", "+ACE-")
    data = plain.format(declared).encode()
    assert b"<!" not in data
    with pytest.raises(ScriptError, match=r"a\.xml: .*entities"):
        parse_xml(data, "a.xml")


@pytest.mark.parametrize(
    ("text", "kind", "format", "expected"),
    [
        ("A1b", "characters", "", "A, one, B"),
        ("2024", "digits", "", "two zero two four"),
        ("x", "digits", "", None),
        ("+49 30 12", "telephone", "", "plus four nine, three zero, one two"),
        ("21", "ordinal", "", "21st"),
        ("12", "ordinal", "", "12th"),
        ("3/4/2024", "date", "", "March 4th, 2024"),
        ("3.4.2024", "date", "dmy", "April 3rd, 2024"),
        ("2024-13-01", "date", "", None),
        ("5", "money", "", None),
    ],
)
def test_say_as(text: str, kind: str, format: str, expected: str | None) -> None:
    assert say_as(text, kind, format) == expected


# ---------------------------------------------------------------- scripts and files


def test_a_script_longer_than_any_work_is_an_error_at_its_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ScriptError, match=r"^a:3: .* longer than a day"):
        parse_script("Hello.\n\n" + "[pause:600s]a" * 150, "a")
    pytest.importorskip("pysubs2")
    late = "1\n00:00:01,000 --> 00:00:02,000\nA.\n\n2\n30:00:01,000 --> 30:00:02,000\nB.\n"
    with pytest.raises(ScriptError, match=r"^a:6: .* a day"):
        parse_script(late, "a", "cues")
    monkeypatch.setattr(script, "MOST_LINES", 50)
    for text, kind in (("a[pause:0s]" * 51, "plain"), ("<speak>" + "<s>a</s>" * 51, "ssml")):
        end = "</speak>" if kind == "ssml" else ""
        with pytest.raises(ScriptError, match=r"^a:1: .* more than 50 lines"):
            parse_script(text + end, "a", kind)


def test_a_long_paragraph_of_markdown_keeps_its_text() -> None:
    text = " ".join(["*a _b ![c"] * 1500) + " ~~d~~."
    read = parse_script(text, "a", "markdown")
    assert "".join(texts(read)).replace(" ", "") == text.replace(" ", "").replace("~~d~~", "d")


def test_a_part_of_the_chapters() -> None:
    lines = tuple(Line(f"line {n}", chapter=n) for n in range(3))
    script = Script(lines, ("One", "Two", "Three"))
    part = script.between("2", "Three")
    assert part.chapters == ("Two", "Three")
    assert [(line.text, line.chapter) for line in part.lines] == [("line 1", 0), ("line 2", 1)]
    for first, last in (("4", None), ("Four", None), ("3", "1")):
        with pytest.raises(ScriptError):
            script.between(first, last)


def test_a_style_is_checked_and_falls_back() -> None:
    style = Style(speed=3).over(Style(speed=5, seed=7, tempo=1.2))
    assert style == Style(speed=3, seed=7, tempo=1.2)
    for wrong in ({"speed": 10}, {"tempo": 3.0}, {"laugh": True}, {"seed": -1}, {"colour": 1}):
        with pytest.raises(ConfigError):
            Style.from_values(wrong)
    assert replace(style, oral=2, breaks=1).refine_tags == "[oral_2][break_1]"


def test_a_file_that_cannot_be_read_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for data, message in (
        (b"one\ntwo\n\xff\n", r"a\.txt:3: it is not UTF-8"),
        (b" \n", "nothing to speak"),
    ):
        path.write_bytes(data)
        with pytest.raises(ScriptError, match=message):
            read_script(path)
    with pytest.raises(ScriptError, match="cannot be read"):
        read_script(tmp_path / "gone.txt")
    with pytest.raises(ScriptError, match="unknown format"):
        read_script(path, "pdf")


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "**a " * 40_000,
        "`" * 100_000,
        "__a " * 20_000,
        "# a" + " #" * 50_000 + "x",
        "-" * 10**6 + "x",
    ],
)
def test_hostile_marks_do_not_take_the_square_of_their_length(text: str) -> None:
    # Without bounds each of them takes minutes or hours.
    assert parse_script(text, "a.md", "markdown").lines


def test_many_elements_do_not_take_the_square_of_their_number() -> None:
    pytest.importorskip("lxml")
    script = parse_script(f"<speak>{'<b/>a' * 30_000}</speak>", "a.ssml", "ssml")
    assert sum(len(line.text) for line in script.lines) == 30_000
