"""EPUB: what of a page is spoken, and how the programs that make books mark notes."""

from __future__ import annotations

import pytest

pytest.importorskip("lxml")

from ChatTTS.errors import ConfigError
from ChatTTS.longform.files import read_script_bytes
from ChatTTS.longform.script import Join

from ..support.epub_books import chapters_of, entry, epub, texts_of


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('<p>a<span epub:type="pagebreak" id="p1">12</span>b</p>', ["ab"]),
        ('<p>a <span class="pagenum"><a id="Page_9">[Pg 9]</a></span>b</p>', ["a b"]),
        ('<p>a<span role="doc-pagebreak" aria-label="3">3</span></p>', ["a"]),
        ("<p>a<span hidden>b</span> <b aria-hidden='true'>c</b>d</p>", ["a d"]),
        ("<p>a</p><p style='display: none'>b</p>", ["a"]),
        ("<p><ruby>漢<rp>(</rp><rt>hàn</rt><rp>)</rp>字<rt>zì</rt></ruby></p>", ["漢字"]),
        ("<p>in\u00advis\u00adi\u200bble</p>", ["invisible"]),
        ('<p><span class="dropcap">T</span>he storm</p>', ["The storm"]),
        ('<div class="dropcap">T</div><p>he storm</p>', ["The storm"]),
        ('<p><img class="x" src="t.png" alt="T"/>he storm</p>', ["The storm"]),
        ('<h1><img src="t.png" alt="Chapter One"/></h1><p>a</p>', ["Chapter One", "a"]),
        ('<p>The <span class="smcap">Storm</span> came</p>', ["The Storm came"]),
        ('<figure><img alt="no" src="a"/><figcaption>A wolf.</figcaption></figure>', ["A wolf."]),
        ("<table><caption>T</caption><tr><th>a</th><th>b:</th></tr><tr><td><p>c</p></td>"
         "<td>d</td></tr></table>", ["T", "a, b:", "c, d"]),
        ("<p>1<sup>st</sup>, 10<sup>6</sup> m<sup>2</sup>, H<sub>2</sub>O</p>",
         ["1st, 10⁶ m², H2O"]),
        ("<p>a</p><pre><code>x = 1</code></pre><pre>The poem</pre>", ["a", "The poem"]),
        ("<p>one<br/>two, and<br/>three.<br/>Four</p>", ["one two, and three.", "Four"]),
        ('<div class="poem"><p>one<br/>two</p></div>', ["one", "two"]),
        ('<p><span class="line">one</span><span class="line">two</span></p>', ["one", "two"]),
        ("<nav><p>x</p></nav><p>a</p>", ["a"]),
        ("<math><mi>x</mi></math><p>a</p>", ["a"]),
    ],
)  # fmt: skip
def test_what_is_spoken_of_a_page(body: str, expected: list[str]) -> None:
    assert texts_of(body) == expected


def test_verses_are_lines_and_scenes_have_a_pause_between() -> None:
    body = '<div class="poem"><p>one<br/>two</p></div><hr/><p>* * *</p><p>three</p><hr/>'
    lines = read_script_bytes(epub({"a.xhtml": body}), "b.epub").lines
    assert [(line.text, line.pause, line.join) for line in lines] == [
        ("one", None, Join.LINE),
        ("two", None, Join.PARAGRAPH),
        ("", 1.5, Join.NONE),
        ("three", None, Join.PARAGRAPH),
    ]


def test_code_and_formulas_are_left_out_with_a_warning() -> None:
    body = "<p>a</p><pre class='sourceCode'>b</pre><math><mi>x</mi></math><math><mi>y</mi></math>"
    script = read_script_bytes(epub({"a.xhtml": body}), "b.epub")
    assert script.warnings == (
        "b.epub/E/a.xhtml:1: a code block is left out",
        "b.epub/E/a.xhtml:1: 2 formulas are left out",
    )


LINKS = "".join(f'<{{0}}><a href="c{n}.xhtml">Chapter {n}</a></{{0}}>' for n in range(4))


@pytest.mark.parametrize(
    "body",
    [
        f"<h1>Contents</h1><ul>{LINKS.format('li')}</ul>",
        f"<h2>CONTENTS.</h2><table><tr><td>{LINKS.format('td').replace('</td>', '</td></tr><tr>')}"
        "</tr></table>",
        f'<div class="sgc-toc-title">Table of Contents</div>{LINKS.format("div")}',
        "<h2>Contents</h2><table>" + "".join(
            f'<tr><td>I.</td><td>The Storm</td><td><a href="#Page_{n}">{n}</a></td></tr>'
            for n in range(4)
        ) + "</table>",
        "<p>" + "".join(f'<a href="#c{n}">Part {n}</a><br/>' for n in range(4)) + "</p>",
        '<section epub:type="toc"><h1>Contents</h1><p>One</p></section>',
    ],
)  # fmt: skip
def test_tables_of_contents_in_the_text_are_left_out(body: str) -> None:
    assert texts_of(f"{body}<p>Text.</p>") == ["Text."]


def test_prose_with_links_is_spoken() -> None:
    prose = "".join(f'<li>The wolf <a href="#a{n}">left</a> the valley.</li>' for n in range(5))
    assert len(texts_of(f"<ul>{prose}</ul>")) == 5
    documents = {"a.xhtml": f"<div>{prose.replace('#a', 'b.xhtml#a')}</div>", "b.xhtml": "<p>b</p>"}
    nav = entry("A", "a.xhtml") + "".join(entry("B", f"b.xhtml#a{n}") for n in range(5))
    assert len(read_script_bytes(epub(documents, nav=nav), "b.epub").lines) == 6


# What marks, and what is marked, as programs write it: mark, note.
MAKERS = {
    "EPUB 3": (
        '<a epub:type="noteref" href="#n1" id="r1">1</a>',
        '<aside epub:type="footnote" id="n1"><p>The note.</p></aside>',
    ),
    "classes": ('<a class="noteref" href="#n1"><sup>1</sup></a>',
                '<div class="footnote" id="n1"><p>1. The note.</p></div>'),
    "nothing": ('<sup><a href="#n1" id="r1">1</a></sup>',
                '<p id="n1"><a href="#r1">1</a>. The note.</p>'),
    "pandoc": (
        '<a href="#fn1" class="footnote-ref" id="fnref1" role="doc-noteref"><sup>1</sup></a>',
        '<section class="footnotes" role="doc-endnotes"><hr/><ol><li id="fn1" role="doc-endnote">'
        '<p>The note.<a href="#fnref1" class="footnote-back" role="doc-backlink">↩︎</a></p></li>'
        "</ol></section>",
    ),
    "Gutenberg": (
        '<a id="FNanchor_1_1"></a><a href="#Footnote_1_1" class="fnanchor pginternal">[1]</a>',
        '<h2>FOOTNOTES:</h2><div class="footnote"><p><a id="Footnote_1_1"></a>'
        '<a href="#FNanchor_1_1" class="pginternal"><span class="label">[1]</span></a> The note.'
        "</p></div>",
    ),
    "calibre": (
        '<sup class="calibre3"><a href="#note_1" title="Go to note" id="back_note_1">1</a></sup>',
        '<dl class="footnote"><dt id="note_1">[<a href="#back_note_1" title="Go back">←1</a>]</dt>'
        "<dd><p>The note.</p></dd></dl>",
    ),
    "Word": (
        '<a href="#_ftn1" name="_ftnref1"><span class="MsoFootnoteReference">[1]</span></a>',
        '<div id="ftn1"><p class="MsoFootnoteText"><a href="#_ftnref1" name="_ftn1">[1]</a> '
        "The note.</p></div>",
    ),
    "LibreOffice": (
        '<a class="sdfootnoteanc" name="sdfootnote1anc" href="#sdfootnote1sym"><sup>1</sup></a>',
        '<div id="sdfootnote1"><p class="sdfootnote"><a class="sdfootnotesym" '
        'name="sdfootnote1sym" href="#sdfootnote1anc">1</a>The note.</p></div>',
    ),
    "InDesign": (
        '<span class="_idFootnoteMarker"><a class="_idFootnoteLink" href="#f-1">1</a></span>',
        '<div class="_idFootnotes"><div class="_idFootnote" id="f-1"><p>1 The note.</p></div>'
        "</div>",
    ),
    "stars": ('<a href="#n1" id="r1">*</a>', '<p id="n1">* The note. <a href="#r1">Back</a></p>'),
    "stars without a way back": ('<a href="#n1">*</a>', '<p id="n1">* The note.</p>'),
    "numbers without a way back": ('<a href="#n1">1</a>', '<p id="n1">1. The note.</p>'),
}  # fmt: skip


@pytest.mark.parametrize("maker", MAKERS)
def test_notes_are_known_as_each_program_writes_them(maker: str) -> None:
    mark, note = MAKERS[maker]
    body = f"<p>The wolf left.{mark} It was cold.</p><p>Later.</p>{note}"
    assert texts_of(body) == ["The wolf left. It was cold.", "Later."]
    assert texts_of(body, "end") == ["The wolf left. It was cold.", "Later.", "Note: The note."]
    assert texts_of(body, "inline") == [
        *("The wolf left.", "Note: The note.", "It was cold.", "Later."),
    ]


def test_notes_in_a_file_of_their_own_go_to_the_chapters_that_mark_them() -> None:
    documents = {
        "a.xhtml": '<h1>A</h1><p>One<a id="r1" href="n.xhtml#n1"><sup>1</sup></a>.</p>',
        "b.xhtml": '<h1>B</h1><p>Two<a id="r2" href="n.xhtml#n2"><sup>2</sup></a>.</p>',
        "n.xhtml": '<h1>Notes</h1><h2>A</h2><p id="n1"><a href="a.xhtml#r1">1</a> First.</p>'
        '<p>Goes on.</p><h2>B</h2><p id="n2"><a href="b.xhtml#r2">2</a> Second.</p>',
    }
    nav = entry("A", "a.xhtml") + entry("B", "b.xhtml") + entry("Notes", "n.xhtml")
    data = epub(documents, nav=nav)
    assert chapters_of(read_script_bytes(data, "b.epub")) == [
        *(("A", ["A", "One."]), ("B", ["B", "Two."])),
    ]
    assert chapters_of(read_script_bytes(data, "b.epub", notes="end")) == [
        ("A", ["A", "One.", "Note: First.", "Goes on."]),
        ("B", ["B", "Two.", "Note: Second."]),
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('<p>See <a href="#s2">2</a>.</p><h2 id="s2">Two</h2>', ["See 2.", "Two"]),
        ('<p>In <a href="#s2">1</a>.</p><p id="s2">Text.</p>', ["In 1.", "Text."]),
        ('<p>In <a href="#s2">*</a>.</p><p id="s2">Text.</p>', ["In *.", "Text."]),
        ("<p>It left.¹ We² met Anna³ at 10² m².</p>", ["It left. We² met Anna at 10² m²."]),
        ("<p>left.<sup>1</sup> And</p>", ["left. And"]),
        ('<p>left <a class="noteref" href="#no">1</a>.</p>', ["left."]),
        ('<p><a href="http://x.y/#a">1</a></p>', ["1"]),
    ],
)
def test_links_and_powers_that_are_no_marks_stay(body: str, expected: list[str]) -> None:
    assert texts_of(body) == expected


def test_notes_at_no_known_place_are_refused() -> None:
    with pytest.raises(ConfigError, match="notes must be skip, end, inline"):
        texts_of("<p>a</p>", "begin")
