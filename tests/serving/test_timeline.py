"""The words that were played, from the number of samples that were played."""

from __future__ import annotations

import pytest

from ChatTTS.serving.websocket.config import ContextConfig
from ChatTTS.serving.websocket.run import Run, SeedState
from ChatTTS.serving.websocket.timeline import PlayedText, Timeline


@pytest.fixture
def timeline() -> Timeline:
    timeline = Timeline()
    timeline.begin("One two three.", 0)
    timeline.end(14_000)
    timeline.begin(" Four five six.", 14_000)
    return timeline


@pytest.mark.parametrize(
    ("position", "text", "is_exact"),
    [
        (0, "", True),
        (100, "", False),
        (6_999, "One", False),
        (7_000, "One two", False),
        (13_800, "One two three.", True),  # samples that the encoder still holds do not count
        (14_000, "One two three.", True),
        (14_000 + 10_100, "One two three. Four five", False),
        (90_000, "One two three. Four five six.", False),
    ],
)
def test_words_end_where_the_sound_ended(
    timeline: Timeline, position: int, text: str, is_exact: bool
) -> None:
    assert timeline.text_until(position) == PlayedText(text, is_exact)


def test_all_of_it_is_exact(timeline: Timeline) -> None:
    timeline.end(20_000)
    assert timeline.text_until(34_000) == PlayedText("One two three. Four five six.", True)
    assert timeline.text == "One two three. Four five six."


def test_a_length_is_guessed_where_nothing_is_known() -> None:
    timeline = Timeline()
    timeline.begin("a" * 13 + " b", 0)
    assert timeline.text_until(24_000) == PlayedText("a" * 13, False)
    assert timeline.text_until(20_000) == PlayedText("", False)


def test_chinese_ends_at_any_character() -> None:
    timeline = Timeline()
    timeline.begin("今天很好", 0)
    timeline.end(4_000)
    assert timeline.text_until(2_100) == PlayedText("今天", False)


def test_rate_and_speed_count(timeline: Timeline) -> None:
    config = ContextConfig().updated({"sample_rate": 8000, "speed": 2.0})
    run = Run(
        config, SeedState(), timeline=timeline, sent_source_samples=14_000.0, sent_bytes=4_666
    )
    assert run.sent_samples == 2_333
    assert run.played_text(None).text == "One two three."
    assert run.played_text(1_170).text == "One two"
    assert run.played_text(10**9).text == "One two three."  # no more than was sent
