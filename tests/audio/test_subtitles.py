"""Subtitles of words with times: readable cues, and files that other programs read."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ChatTTS.audio import SUBTITLE_FORMATS, Cue, make_cues, save_subtitles, subtitles
from ChatTTS.errors import AudioError
from ChatTTS.pipeline.results import Word
from ChatTTS.text.spoken_words import caller_words

TEXT = "The lighthouse had been dark. [uv_break] Then somebody lit the lamp!"


def timed(text: str, seconds: float = 0.3, pauses: dict[int, float] | None = None) -> list[Word]:
    """Return the words of a text, each spoken for ``seconds``, with pauses before some."""
    words, now = [], 0.0
    for place, word in enumerate(caller_words(text)):
        now += (pauses or {}).get(place, 0.0)
        end = now + seconds
        samples = round(now * 24_000), round(end * 24_000)
        words.append(Word(word.text, now, end, *samples, word.start, word.end, 1.0))
        now = end
    return words


def test_a_cue_for_each_sentence() -> None:
    first, second = make_cues(timed(TEXT), TEXT)
    assert first.lines == ("The lighthouse had been dark.",)
    assert second.lines == ("Then somebody lit the lamp!",)
    assert first.start == 0.0
    assert first.end == pytest.approx(1.5)
    assert second.start == pytest.approx(1.5)


def test_short_sentences_share_a_cue() -> None:
    assert [cue.lines for cue in make_cues(timed("No. Yes. Well."), "No. Yes. Well.")] == [
        ("No. Yes. Well.",)
    ]


def test_no_cue_goes_over_a_blank_line() -> None:
    text = "The wolf\n\nIt was cold\ntoday."
    cues = make_cues(timed(text), text)
    assert [cue.lines for cue in cues] == [("The wolf",), ("It was cold today.",)]


def test_no_cue_crosses_a_pause() -> None:
    text = "one two three four"
    cues = make_cues(timed(text, pauses={2: 1.0}), text)
    assert [cue.lines for cue in cues] == [("one two",), ("three four",)]
    assert cues[0].end == pytest.approx(1.0), "shown for a second, which the pause leaves"


def test_a_text_without_marks_is_cut_from_its_front(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def noted(tokens: Sequence[Any]) -> bool:
        sizes.append(len(tokens))
        return fits(tokens)

    fits = subtitles._fits
    monkeypatch.setattr(subtitles, "_fits", noted)
    text = "word " * 150
    assert len(make_cues(timed(text), text)) == 10
    assert max(sizes) < 20, "or the time would grow with the fourth power of the length"


def test_long_sentences_are_cut_at_phrases() -> None:
    text = (
        "So I told the cat, very politely, that the chair by the old window was mine, and that it "
        "had always been mine, since the very first day."
    )
    cues = make_cues(timed(text), text)
    assert [" ".join(cue.lines) for cue in cues] == [
        "So I told the cat, very politely, that the chair by the old window was mine,",
        "and that it had always been mine, since the very first day.",
    ]
    assert all(len(line) <= 42 for cue in cues for line in cue.lines)


def test_marks_stay_and_tags_go() -> None:
    text = 'He said "it is (very) late" [laugh] twice.'
    [cue] = make_cues(timed(text), text)
    assert " ".join(cue.lines) == 'He said "it is (very) late" twice.'


def test_chinese_has_no_spaces() -> None:
    text = "\u4f60\u597d\uff0c\u4e16\u754c\u3002"
    [cue] = make_cues(timed(text), text)
    assert cue.lines == (text,)


def test_words_that_were_not_spoken_are_left_out() -> None:
    words = timed("one two three")
    gone = [
        word if word.text != "two" else Word("two", 0.3, 0.3, 7200, 7200, 4, 7, 0.0)
        for word in words
    ]
    assert [cue.lines for cue in make_cues(gone, "one two three")] == [("one three",)]
    assert make_cues([], TEXT) == []


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(["a", "bread,", "lighthouse.", "(so)", "x" * 50, "[laugh]"]), min_size=1
    ),
    st.floats(0.02, 1.5),
)
def test_cues_are_readable(words: list[str], seconds: float) -> None:
    text = " ".join(words)
    cues = make_cues(timed(text, seconds), text)
    for cue in cues:
        assert 1 <= len(cue.lines) <= 2
        assert cue.end > cue.start
        assert all(len(line) <= 42 or "x" in line for line in cue.lines)
    for one, other in pairwise(cues):
        assert one.end <= other.start + 1e-9
    shown = " ".join(" ".join(cue.lines) for cue in cues).split()
    assert shown == [word for word in words if word != "[laugh]"]


@pytest.mark.parametrize("kind", SUBTITLE_FORMATS)
def test_files_say_what_the_cues_say(tmp_path: Path, kind: str) -> None:
    if kind in ("srt", "vtt", "ass"):
        pytest.importorskip("pysubs2")
    path = tmp_path / f"words.{kind}"
    words = timed(TEXT)
    assert save_subtitles(path, words, TEXT) == path
    cues = make_cues(words, TEXT)
    content = path.read_text(encoding="utf-8")
    if kind == "json":
        told = json.loads(content)
        assert [Cue(c["start"], c["end"], tuple(c["lines"])) for c in told["cues"]] == cues
        assert [word["text"] for word in told["words"]] == [word.text for word in words]
    elif kind == "lrc":
        assert content.splitlines()[1] == "[00:01.50]Then somebody lit the lamp!"
    else:
        pysubs2 = pytest.importorskip("pysubs2")
        read = pysubs2.SSAFile.from_string(content, kind)
        assert [event.plaintext for event in read] == ["\n".join(cue.lines) for cue in cues]
        times = [(event.start, event.end) for event in read]
        assert times == [(round(c.start * 1000), round(c.end * 1000)) for c in cues]


def test_braces_are_text(tmp_path: Path) -> None:
    """In .ass, braces and backslashes begin commands."""
    pysubs2 = pytest.importorskip("pysubs2")
    text = r"a {\b1}bold\N word"
    save_subtitles(tmp_path / "a.srt", timed(text), text)
    assert pysubs2.load(str(tmp_path / "a.srt"))[0].plaintext.replace("\n", " ")
    save_subtitles(tmp_path / "a.ass", timed(text), text)
    assert len(pysubs2.load(str(tmp_path / "a.ass"))) == 1


def test_errors_name_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AudioError, match=r"\.srt, \.vtt, \.ass, \.lrc, \.json"):
        save_subtitles(tmp_path / "a.txt", timed(TEXT), TEXT)
    with pytest.raises(AudioError, match="does not exist"):
        save_subtitles(tmp_path / "no" / "a.json", timed(TEXT), TEXT)
    monkeypatch.setitem(sys.modules, "pysubs2", None)
    with pytest.raises(AudioError, match=r"pip install 'chattts-velocity\[subtitles\]'"):
        save_subtitles(tmp_path / "a.srt", timed(TEXT), TEXT)
