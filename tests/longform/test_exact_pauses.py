"""Breaks and silence at both ends of a reading, to the sample."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ChatTTS.audio.samples import Samples
from ChatTTS.audio.trim import AUDIBLE
from ChatTTS.core import Chat
from ChatTTS.errors import ConfigError
from ChatTTS.longform.script import Join, ScriptError
from ChatTTS.longform.segments import segments_of, with_silence
from ChatTTS.longform.settings import ReadSettings
from ChatTTS.longform.ssml import read_ssml

pytest.importorskip("lxml")

TALK = (
    '<speak><break time="200ms"/>Good morning. <break time="900ms"/> We are late. '
    '<break time="100ms"/><break time="400ms"/><p>So it goes.</p></speak>'
)


def read(chat: Chat, folder: Path, script: str, **settings: Any) -> Samples:
    with chat.read(script, ReadSettings(**settings), folder=folder) as recording:
        parts = []
        for piece in recording:
            silences = (piece.silence_before, piece.silence_after)
            before, after = (np.zeros(each, dtype=np.float32) for each in silences)
            parts += [before, piece.samples, after]
    return np.concatenate(parts)


def silences(sound: Samples) -> list[int]:
    """Return the samples of silence at the beginning, of long pauses, and at the end."""
    heard = np.flatnonzero(np.abs(sound) >= AUDIBLE)
    gaps = np.diff(heard) - 1
    return [int(heard[0]), *map(int, gaps[gaps > 6000]), int(len(sound) - 1 - heard[-1])]


@pytest.mark.slow
def test_breaks_are_exact(bundled: Chat, tmp_path: Path) -> None:
    first, *pauses, _ = silences(read(bundled, tmp_path, TALK))
    assert (first, pauses) == (4800, [21_600, 12_000])
    text = 'Good morning. <break time="900ms"/>We are late.'
    assert silences(read(bundled, tmp_path, text))[1] == 21_600


@pytest.mark.slow
def test_both_ends_are_exact_and_replace_breaks_there(bundled: Chat, tmp_path: Path) -> None:
    ended = read(bundled, tmp_path, TALK, silence_before=0.5, silence_after=1.0)
    assert silences(ended) == [12_000, 21_600, 12_000, 24_000]
    plain = read(bundled, tmp_path, "Good morning.", silence_before=0.0, silence_after=0.0)
    assert silences(plain) == [0, 0]


@pytest.mark.parametrize("name", ["silence_before", "silence_after"])
def test_a_silence_out_of_bounds_is_an_error(name: str) -> None:
    given: dict[str, Any] = {name: 61}
    with pytest.raises(ConfigError, match=f"{name} must be from 0 to 60 seconds, not 61"):
        ReadSettings(**given)


@pytest.mark.parametrize("seed", [-1, 2**63, 1.0, True])
def test_a_seed_that_is_none_is_an_error(seed: Any) -> None:
    with pytest.raises(ConfigError, match="seed must be a whole number below 2"):
        ReadSettings(seed=seed)


def text_of(inside: str) -> list[str]:
    return [line.text for line in read_ssml(f"<speak>{inside}</speak>", "a.ssml").lines]


@pytest.mark.parametrize(
    ("inside", "texts"),
    [
        ("a <emphasis>b</emphasis>, c", ["a [emphasis:moderate|b], c"]),
        ('<emphasis level="strong">a. b</emphasis>', ["[emphasis:strong|a]. [emphasis:strong|b]"]),
        (
            '<emphasis level="strong">a <emphasis level="none">b</emphasis></emphasis>',
            ["[emphasis:strong|a] [emphasis:none|b]"],
        ),
        (
            '<emphasis><sub alias="see">c</sub> '
            '<phoneme alphabet="ipa" ph="ti">t</phoneme></emphasis>',
            ["[emphasis:moderate|see] [emphasis:moderate|[ipa:ti|t]]"],
        ),
        ('a, <break strength="none"/> b', ["a b"]),
        ('a, <break time="0s"/> b', ["a b"]),
        ('a <break strength="none">b</break> c', ["a b c"]),
        ("a <break>b</break> c", ["a", "b c"]),
        ('a <mark name="here">b</mark> c', ["a", "b c"]),
        ("a <break/> b", ["a", "b"]),
    ],
)
def test_emphasis_and_empty_breaks_end_no_line(inside: str, texts: list[str]) -> None:
    assert text_of(inside) == texts


def test_an_unknown_level_is_an_error() -> None:
    with pytest.raises(ScriptError, match=r"a\.ssml:1: <emphasis> has a level of strong, moderate"):
        text_of('<emphasis level="loud">a</emphasis>')


@pytest.mark.parametrize("between", ["", " ", "\n", "<s></s>"])
def test_paragraphs_end_whatever_stands_between_them(between: str) -> None:
    inside = f"<p>a</p>{between}<p><s>b</s></p>{between}<s>c</s>"
    lines = read_ssml(f"<speak>{inside}</speak>", "a.ssml").lines
    assert [line.join for line in lines] == [Join.PARAGRAPH, Join.PARAGRAPH, Join.PARAGRAPH]


@pytest.mark.parametrize(
    ("inside", "pauses"),
    [
        ("<p>a</p><p>b</p>", [0.7, 0.0]),
        ("<p>a</p>[pause:1s]<p>b</p>", [0.0, 1.0, 0.0]),
        ("<p>a</p><p>[pause:2s]b</p>", [0.0, 2.0, 0.0]),
        ('<p>a</p><mark name="x"/><break time="1s"/><p>b</p>', [0.0, 1.0, 0.0]),
        ("<p>a</p><p>***</p>", [0.0, 0.0]),
        ("<p>a</p><p>***</p><p>b</p>", [0.7, 0.0, 0.0]),
        ("<p>***</p><p>b</p>", [0.0, 0.0]),
    ],
)
def test_paragraphs_of_ssml_have_one_pause_and_a_written_one_stands_alone(
    inside: str, pauses: list[float]
) -> None:
    segments = with_silence(segments_of(f"<speak>{inside}</speak>").segments, None, None, 0.7)
    assert [segment.pause for segment in segments] == pauses
