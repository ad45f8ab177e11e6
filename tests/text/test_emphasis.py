"""Marks of emphasis and breaks in a text."""

from __future__ import annotations

import pytest

from ChatTTS.errors import TextError
from ChatTTS.text import Lexicon
from ChatTTS.text.emphasis import Emphasis, emphasised, has_emphasis, unmarked, without_emphasis
from ChatTTS.text.pauses import STRENGTHS, blank_marks, paused_parts, total_pause


def parts(text: str) -> list[tuple[str, float, bool]]:
    return [(part.text, part.pause, part.is_exact) for part in paused_parts(text, Lexicon())]


def test_marks_of_emphasis_have_places_in_the_text_as_written() -> None:
    text = "I [emphasis:strong|really] mean [emphasis:none|it], [emphasis:reduced|so there]."
    plain = unmarked(text)
    assert plain.text == "I really mean it, so there." == without_emphasis(text)
    assert [text[e.start : e.end] for e in plain.emphases] == ["really", "so there"]
    assert [e.level for e in plain.emphases] == ["strong", "reduced"]
    found = [text[plain.written(at)] for at in range(len(plain.text))]
    assert "".join(found) == plain.text
    assert blank_marks(text).split() == ["I", "really", "mean", "it", ",", "so", "there", "."]
    assert len(blank_marks(text)) == len(text)


def test_a_text_without_emphasis_is_itself() -> None:
    plain = unmarked("Hello [laugh] there.")
    assert (plain.text, plain.emphases) == ("Hello [laugh] there.", ())
    assert not has_emphasis("[emphasis:none|a]")
    assert has_emphasis("[emphasis: Strong |a]")


def test_an_unknown_level_is_an_error() -> None:
    with pytest.raises(TextError, match="has no level of emphasis"):
        unmarked("[emphasis:loud|a]")


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("stop. Go now!", "<stop>. <Go now>!"),
        ("3.5 of the U.S. army", "<3.5 of the U.S>. <army>"),
        ("a [laugh] b [pause:1s]", "<a> [laugh] <b> [pause:1s]"),
        ("[ipa:t|tea] time", "<[ipa:t|tea]> <time>"),
        ("真的，很好。", "<真的>，<很好>。"),
        (" , . ", " , . "),
    ],
)
def test_words_are_marked_and_not_what_is_around_them(text: str, marked: str) -> None:
    found = emphasised(text, "strong")
    assert found == marked.replace("<", "[emphasis:strong|").replace(">", "]")
    assert without_emphasis(found) == text
    assert len(unmarked(found).emphases) == marked.count("<")


@pytest.mark.parametrize(
    ("mark", "seconds"),
    [
        ('<break time="1.5s"/>', 1.5),
        ("<break time='300ms' />", 0.3),
        ('<break time=".5s"></break>', 0.5),
        ("<break/>", STRENGTHS["medium"]),
        ('<break strength="x-strong" time="2s"/>', 2.0),
        *((f'<break strength="{name}"/>', each) for name, each in STRENGTHS.items() if each),
    ],
)
def test_a_break_is_an_exact_pause(mark: str, seconds: float) -> None:
    assert parts(f"One. {mark} Two.") == [("One. ", seconds, True), (" Two.", 0.0, False)]
    assert total_pause(f"One. {mark}{mark} Two.") == 2 * seconds


def test_strengths_rise_from_nothing() -> None:
    assert list(STRENGTHS) == ["none", "x-weak", "weak", "medium", "strong", "x-strong"]
    assert STRENGTHS["none"] == 0
    assert sorted(STRENGTHS.values()) == list(STRENGTHS.values())


def test_no_break_takes_the_comma_away() -> None:
    ((text, pause, _),) = parts('Well, <break strength="none"/>then go.')
    assert (text.split(), pause) == (["Well", "then", "go."], 0.0)
    assert len(text) == len('Well, <break strength="none"/>then go.')
    assert parts('Well, <break time="0s"/>go.')[0][0].split() == ["Well", "go."]


@pytest.mark.parametrize("mark", ['<break time="1h"/>', '<break strength="loud"/>'])
def test_a_wrong_break_is_an_error(mark: str) -> None:
    with pytest.raises(TextError, match="is not a break: write"):
        paused_parts(f"One. {mark} Two.", Lexicon())


@pytest.mark.parametrize("text", ["<breakfast/>", "a < break", "<break dance>", "&lt;break/&gt;"])
def test_what_only_looks_like_a_break_stays(text: str) -> None:
    assert parts(text) == [(text, 0.0, False)]


def test_a_lexicon_knows_words_in_marks_and_not_the_marks() -> None:
    lexicon = Lexicon.of({"nginx": "engine x", "strong": "weak", "new york": "the city"})
    text = "Use [emphasis:strong|nginx] in New [emphasis:strong|York]. <break/> nginx."
    first, second = paused_parts(text, lexicon)
    assert first.text == "Use engine x in the city. "
    assert second.text == " engine x."
    uses = [text[use.start_character : use.end_character] for use in first.uses + second.uses]
    assert uses == ["nginx", "New [emphasis:strong|York", "nginx"]


def test_marks_are_found_in_linear_time() -> None:
    assert unmarked("[emphasis:a|[" * 20_000).emphases == ()
    assert unmarked("[emphasis:strong|a]" * 9).emphases[0] == Emphasis(17, 18, "strong")
