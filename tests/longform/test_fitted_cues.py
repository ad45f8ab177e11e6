"""``ReadSettings.fit`` and ``<prosody duration>``: lines that have a time; with a fake model."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pysubs2")

from ChatTTS.audio.samples import SAMPLE_RATE
from ChatTTS.core import Chat
from ChatTTS.errors import ConfigError
from ChatTTS.longform import reading
from ChatTTS.longform.expected import expected_seconds
from ChatTTS.longform.files import parse_script
from ChatTTS.longform.marks import expanded
from ChatTTS.longform.recording import SpokenPiece
from ChatTTS.longform.script import Line, ScriptError
from ChatTTS.longform.settings import Late, ReadSettings

from ..support.chat_tools import LIVELY
from ..support.longform_tools import Speaks

SETTINGS = ReadSettings(parameters=LIVELY, fit=True, side_by_side=1)
# As Aegisub writes it: with a gap, a cue that is too short for the fake (a second), and the rest.
FILM = """1
00:00:01,000 --> 00:00:03,200
Did you hear that?

2
00:00:04,000 --> 00:00:04,600
It came from the cellar.

3
00:00:04,700 --> 00:00:06,700
Stay here.
"""


@pytest.fixture
def infer(standard: Chat, monkeypatch: pytest.MonkeyPatch) -> Speaks:
    fake = Speaks()
    monkeypatch.setattr(standard, "infer", fake)
    monkeypatch.setattr(standard, "find_alignment_heads", lambda **_: fake.searches.append(1))
    monkeypatch.setattr(reading, "speech_lengths", lambda *_, **__: fake.searches.append(2))
    return fake


def spoken(chat: Chat, text: str, settings: ReadSettings, kind: str = "cues") -> list[SpokenPiece]:
    with chat.read(parse_script(text, "film.srt", kind), settings) as recording:
        return list(recording)


def places(pieces: list[SpokenPiece]) -> list[tuple[float, float]]:
    """Return where each piece begins and how long it is, in seconds."""
    return [(p.position / SAMPLE_RATE, len(p.samples) / SAMPLE_RATE) for p in pieces]


def test_each_cue_is_as_long_as_it_is_shown(standard: Chat, infer: Speaks) -> None:
    pieces = spoken(standard, FILM, SETTINGS)
    assert infer.durations == pytest.approx([2.2, 0.6, 2.0])
    assert infer.searches == [1, 2]  # before anything is spoken
    assert places(pieces)[0] == (1.0, 2.2)
    assert [word.text for piece in pieces for word in piece.words] == [
        "Did you hear that?",
        "It came from the cellar.",
        "Stay here.",
    ]


def test_a_cue_with_a_pause_is_one_line(standard: Chat, infer: Speaks) -> None:
    film = FILM.replace("that?", 'that? [pause:200ms] Hm? <break time="0.1s"/> No.')
    pieces = spoken(standard, film, SETTINGS)
    assert infer.durations == pytest.approx([2.2, 0.6, 2.0])
    assert pieces[0].line.text == ('Did you hear that? [pause:200ms] Hm? <break time="100ms"/> No.')
    film = FILM.replace("that?", "that? [pause:500ms]").replace("04,000", "03,200")
    assert places(spoken(standard, film, SETTINGS))[1][0] == 3.2  # the pause is part of its time
    film = FILM.replace("that?", "that? [voice:Bob] No.")
    with pytest.raises(ScriptError, match="is spoken by one voice"):
        spoken(standard, film, SETTINGS)


def test_without_fit_cues_are_spoken_as_ever(standard: Chat, infer: Speaks) -> None:
    spoken(standard, FILM, replace(SETTINGS, fit=False))
    assert infer.durations == []


def test_late_speech_shifts_what_follows(
    standard: Chat, infer: Speaks, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "ChatTTS"):
        pieces = spoken(standard, FILM, SETTINGS)
    assert places(pieces)[1:] == [(4.0, 1.0), (5.0, 2.0)]
    told = [record.getMessage() for record in caplog.records]
    assert told[0] == (
        "film.srt:6: it takes 1.00 s where it is shortest, and has 0.60 s: what follows it may "
        "begin later"
    )
    assert told[1].startswith("film.srt:10: it begins 0.30 s late")


def test_late_speech_may_overlap_what_follows(standard: Chat, infer: Speaks) -> None:
    pieces = spoken(standard, FILM, replace(SETTINGS, late=Late.OVERLAP))
    assert places(pieces)[1:] == [(4.0, 0.7), (4.7, 2.0)]
    rest = round(0.3 * SAMPLE_RATE)
    both, alone = np.abs(pieces[2].samples[:rest]).max(), np.abs(pieces[2].samples[rest:]).max()
    assert both > 1.2 * alone


def test_overlapping_speech_goes_on_over_several_cues(standard: Chat, infer: Speaks) -> None:
    film = "".join(f"{n}\n00:00:01,{n}00 --> 00:00:01,{n}90\nWord {n}.\n\n" for n in range(1, 4))
    pieces = spoken(standard, film, replace(SETTINGS, late=Late.OVERLAP))
    assert np.allclose(places(pieces), [(1.1, 0.1), (1.2, 0.1), (1.3, 1.0)])
    assert pieces[2].end == round(2.3 * SAMPLE_RATE)


def test_late_speech_may_be_cut(standard: Chat, infer: Speaks) -> None:
    pieces = spoken(standard, FILM, replace(SETTINGS, late=Late.CUT))
    assert places(pieces)[1:] == [(4.0, 0.6), (4.7, 2.0)]
    assert abs(pieces[1].samples[-1]) < 1e-3
    assert pieces[1].words[0].end_sample == round(4.6 * SAMPLE_RATE)


def test_late_speech_may_be_faster(standard: Chat, infer: Speaks) -> None:
    pieces = spoken(standard, FILM, replace(SETTINGS, late=Late.TEMPO, fastest=2.0))
    assert places(pieces)[1:] == [(4.0, 0.6), (4.7, 2.0)]
    slower = spoken(standard, FILM, replace(SETTINGS, late=Late.TEMPO, fastest=1.25))
    assert places(slower)[1:] == [(4.0, 0.8), (4.8, 2.0)]


def test_a_choice_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="one of shift, overlap, cut, tempo, not 'drop'"):
        ReadSettings(late="drop")  # type: ignore[arg-type]
    assert ReadSettings(late="cut").late is Late.CUT  # type: ignore[arg-type]


def test_lines_are_kept_under_their_duration(standard: Chat, infer: Speaks, tmp_path: Path) -> None:
    film = FILM.replace("00:00:03,200", "00:00:03,300")
    for text in (FILM, FILM, film):
        with standard.read(
            parse_script(text, "film.srt", "cues"), SETTINGS, folder=tmp_path
        ) as recording:
            list(recording)
    assert infer.durations == pytest.approx([2.2, 0.6, 2.0, 2.3])


def test_the_expected_length_is_the_duration() -> None:
    script = parse_script(FILM, "film.srt", "cues")
    timed = replace(script, lines=tuple(replace(each, duration=0.5) for each in script.lines))
    assert expected_seconds(timed, SETTINGS)[0] == pytest.approx(1.5)


# ---------------------------------------------------------------- SSML


def ssml(inner: str) -> tuple[Line, ...]:
    return parse_script(f"<speak>{inner}</speak>", "talk.ssml").lines


def test_prosody_has_a_duration() -> None:
    first, timed, last = ssml('One. <prosody duration="3200ms">Two.</prosody> Three.')
    assert (first.duration, timed.duration, last.duration) == (None, 3.2, None)
    assert timed.text == "Two."
    assert ssml('<prosody duration="1.5s" rate="120%">Two.</prosody>')[0].style.tempo == 1.0


def test_pauses_and_sentences_inside_are_part_of_it() -> None:
    [line] = ssml(
        '<prosody duration="5s"><s>One.</s><s>Two.</s><break time="500ms"/>Three.</prosody>'
    )
    assert line.text == "One. Two. [pause:500ms] Three."
    assert line.duration == 5.0
    script = parse_script('<speak><prosody duration="5s">A<break/>B</prosody></speak>', "a.ssml")
    assert expanded(expanded(script)).lines == script.lines


def test_a_voice_around_and_a_mark_before_it_are_kept() -> None:
    [line] = ssml(
        '<voice name="edith"><mark name="a"/><prosody duration="2s">One.</prosody></voice>'
    )
    assert (line.voice, line.marks, line.duration) == ("edith", ("a",), 2.0)


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        ('<prosody duration="long">One.</prosody>', "the duration 'long' is none: write 3.2s"),
        ('<prosody duration="0s">One.</prosody>', "the duration '0s' is none"),
        ('<prosody duration="-2s">One.</prosody>', "is none"),
        (
            '<prosody duration="4s">One. <voice name="bo">Two.</voice></prosody>',
            "spoken by one voice",
        ),
        ('<prosody duration="4s">One. <mark name="a"/>Two.</prosody>', "holds no mark"),
        (
            '<prosody duration="4s">One. <prosody duration="2s">Two.</prosody></prosody>',
            "no other duration",
        ),
    ],
)
def test_a_duration_that_cannot_be_is_one_error(inner: str, reason: str) -> None:
    with pytest.raises(ScriptError, match=rf"^talk\.ssml:1: .*{reason}"):
        ssml(inner)


def test_a_line_with_a_duration_has_one_voice() -> None:
    script = parse_script(FILM.replace("Stay here.", "[voice:bo] Stay here."), "a.srt", "cues")
    timed = replace(script, lines=(replace(script.lines[2], duration=2.0),))
    [line] = expanded(timed).lines
    assert (line.text, line.voice) == ("Stay here.", "bo")
    two = replace(timed.lines[0], text="Stay. [voice:zoe] Here.")
    with pytest.raises(ScriptError, match="spoken by one voice"):
        expanded(replace(script, lines=(two,)))


# ---------------------------------------------------------------- a voice


@pytest.mark.thorough
@pytest.mark.parametrize("late", [Late.SHIFT, Late.CUT])
def test_the_bundled_voice_speaks_cues_in_their_time(bundled: Chat, late: Late) -> None:
    how: dict[str, Any] = {"show_tqdm": False}
    settings = ReadSettings(fit=True, late=late, parameters=how)
    film = FILM.replace("00:00:06,700", "00:00:05,800")
    with bundled.read(parse_script(film, "film.srt", "cues"), settings) as recording:
        pieces = list(recording)
    lengths = [length for _, length in places(pieces)]
    assert lengths[0] == pytest.approx(2.2, abs=1e-3)
    assert lengths[1] >= 0.6
    assert (lengths[1] == pytest.approx(0.6, abs=1e-3)) == (late is Late.CUT)
