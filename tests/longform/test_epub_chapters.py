"""EPUB: chapters are those of the contents, in every form in which these are written."""

from __future__ import annotations

import pytest

pytest.importorskip("lxml")

from ChatTTS.longform.files import read_script_bytes
from ChatTTS.longform.script import Script

from ..support.epub_books import chapters_of, entry, epub, point

TWO = {
    "a.xhtml": '<h1 id="one">One</h1><p>First.</p><div id="two"><h1>Two</h1><p>Second.</p></div>',
    "b.xhtml": "<h1>Three</h1><p>Third.</p>",
}
THREE_CHAPTERS = [
    ("One", ["One", "First."]),
    ("Two", ["Two", "Second."]),
    ("Three", ["Three", "Third."]),
]


def read(*args: object, **kwargs: object) -> Script:
    return read_script_bytes(epub(*args, **kwargs), "b.epub")  # type: ignore[arg-type]


def entries(make: object, *titles: tuple[str, str]) -> str:
    return "".join(make(title, reference) for title, reference in titles)  # type: ignore[operator]


ONE_TWO_THREE = (("One", "a.xhtml#one"), ("Two", "a.xhtml#two"), ("Three", "b.xhtml"))


def test_entries_that_point_into_a_file_are_chapters() -> None:
    assert chapters_of(read(TWO, nav=entries(entry, *ONE_TWO_THREE))) == THREE_CHAPTERS
    assert chapters_of(read(TWO, ncx=entries(point, *ONE_TWO_THREE))) == THREE_CHAPTERS


def test_contents_in_another_order_than_the_spine() -> None:
    assert chapters_of(read(TWO, nav=entries(entry, *reversed(ONE_TWO_THREE)))) == THREE_CHAPTERS


def test_an_entry_without_a_title_has_that_of_its_first_heading() -> None:
    script = read(TWO, nav=entry("", "a.xhtml") + entry("Last", "b.xhtml"))
    assert script.chapters == ("One", "Last")


def test_nested_contents_are_flat_chapters() -> None:
    inner = entry("One", "a.xhtml#one") + entry("Two", "a.xhtml#two")
    documents = {"p.xhtml": "<h1>Part</h1>", **TWO}
    nav = entry("Part", "p.xhtml", inner) + entry("Three", "b.xhtml")
    assert chapters_of(read(documents, nav=nav)) == [("Part", ["Part"]), *THREE_CHAPTERS]


@pytest.mark.parametrize(
    "nav",
    [
        entry("Part", "a.xhtml", entry("One", "a.xhtml#one")),
        f"<li><span>Part</span><ol>{entry('One', 'a.xhtml#one')}</ol></li>",
        entry("Part", "p.xhtml", entry("One", "a.xhtml#one")),
    ],
)
def test_a_part_without_a_text_of_its_own_is_in_the_title_of_its_first_chapter(nav: str) -> None:
    documents = {"p.xhtml": '<img src="part.png" alt="A picture"/>', **TWO}
    script = read(documents, nav=nav + entries(entry, *ONE_TWO_THREE[1:]))
    assert script.chapters == ("Part: One", "Two", "Three")


def test_a_file_outside_of_the_contents_goes_on_the_last_chapter() -> None:
    documents = {"z.xhtml": "<p>Before.</p>", **TWO, "c.xhtml": "<p>More.</p>"}
    script = read(documents, nav=entries(entry, *ONE_TWO_THREE))
    assert chapters_of(script) == [
        ("Title", ["Before."]),
        *THREE_CHAPTERS[:2],
        ("Three", ["Three", "Third.", "More."]),
    ]


def test_a_file_outside_of_the_order_of_reading_is_not_spoken_unless_contents_name_it() -> None:
    documents = {**TWO, "c.xhtml": "<p>Aside.</p>"}
    nav = entries(entry, *ONE_TWO_THREE)
    assert chapters_of(read(documents, nav=nav, aside=("c.xhtml",))) == THREE_CHAPTERS
    script = read(documents, nav=nav + entry("Four", "c.xhtml"), aside=("c.xhtml",))
    assert chapters_of(script)[3:] == [("Four", ["Aside."])]


@pytest.mark.parametrize(
    "body",
    [
        "<p>First.<a id='c'></a></p><h2>Two</h2><p>Second.</p>",
        "<p>First.</p><h2>Two</h2><a id='c'/><p>Second.</p>",
        "<p>First.</p><h2><a name='c'/>Two</h2><p>Second.</p>",
        "<p>First.<br/><span id='c'/>Two<br/>Second.</p>",
        "<p>First.</p><h2>Two<span id='c'/></h2><p>Second.</p>",
    ],
)
def test_an_anchor_stands_anywhere_at_its_heading(body: str) -> None:
    script = read({"a.xhtml": body}, nav=entry("One", "a.xhtml") + entry("Two", "a.xhtml#c"))
    (_, first), (_, second) = chapters_of(script)
    assert first == ["First."]
    assert " ".join(second) == "Two Second."


def test_entries_that_lead_nowhere_are_told_and_their_headings_are_found() -> None:
    nav = entry("One", "a.xhtml#x") + entry("Two", "a.xhtml#y") + entry("Gone", "no.xhtml")
    script = read(TWO, nav=nav + entry("Three", "b.xhtml"))
    assert chapters_of(script) == THREE_CHAPTERS
    assert len(script.warnings) == 3
    assert (
        "b.epub: the contents name 'Two' at E/a.xhtml#y, which the book does not"
        in (script.warnings[1])
    )


@pytest.mark.parametrize(
    "contents",
    [
        {},
        {"nav": ""},
        {"nav": entry("Start", "a.xhtml")},
        {"nav": entry("Gone", "no.xhtml")},
        {"ncx": "<broken"},
        {"nav": "", "ncx": entries(point, *ONE_TWO_THREE)},
    ],
)
def test_without_contents_the_headings_are_chapters(contents: dict[str, str]) -> None:
    assert chapters_of(read(TWO, **contents)) == THREE_CHAPTERS


def test_headings_of_the_first_level_that_comes_twice_are_chapters() -> None:
    body = "<h1>Book</h1><p>a</p>" + "".join(
        f"<h2>C{n}</h2><p>t</p><h3>S</h3><p>t</p>" for n in (1, 2)
    )
    assert read({"a.xhtml": body}).chapters == ("Book", "C1", "C2")


def test_an_entry_of_a_picture_is_no_chapter() -> None:
    documents = {"c.xhtml": '<img src="c.jpg" alt="Cover"/>', **TWO}
    nav = entry("Cover", "c.xhtml") + entries(entry, *ONE_TWO_THREE)
    assert chapters_of(read(documents, nav=nav)) == THREE_CHAPTERS


def test_the_header_and_licence_of_gutenberg_are_no_chapters() -> None:
    documents = {
        "h.xhtml": '<section class="pg-boilerplate pgheader" id="pg-header"><p>eBook</p></section>',
        **TWO,
        "l.xhtml": "<div>*** END OF THE PROJECT GUTENBERG EBOOK X ***</div><h2>L</h2><p>x</p>",
    }
    nav = entries(entry, *ONE_TWO_THREE) + entry("L", "l.xhtml")
    assert chapters_of(read(documents, nav=nav)) == THREE_CHAPTERS
