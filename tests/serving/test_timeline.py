"""The words that were played, from the number of samples that were played."""

from __future__ import annotations

import pytest

from ChatTTS.pipeline.results import Word
from ChatTTS.serving.live.run import Run, SeedState
from ChatTTS.serving.live.timeline import PlayedText, Timeline
from ChatTTS.serving.protocols.websocket.config import ContextConfig


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
    compressed = Run(
        config.updated({"response_format": "mp3"}), SeedState(), sent_source_samples=14_000.0
    )
    assert compressed.sent_samples == 2_333


# -- words with times ----------------------------------------------------------------------


def timed(text: str, place: int, start: int, end: int) -> Word:
    confidence = float(end > start)
    last = place + len(text)
    return Word(text, start / 24_000, end / 24_000, start, end, place, last, confidence)


@pytest.fixture
def spoken() -> Timeline:
    """The second utterance is being generated: its first two words are final."""
    timeline = Timeline()
    timeline.begin("One (two), three.", 0)
    words = [("One", 0, 0, 4_000), ("two", 5, 4_000, 7_000), ("three", 11, 8_000, 13_000)]
    timeline.add_words([timed(*word) for word in words])
    timeline.end(14_000)
    timeline.begin(" Four, five six.", 14_000)
    timeline.add_words([timed("Four", 1, 1_000, 5_000)])
    timeline.add_words([timed("five", 7, 5_000, 9_000)])
    return timeline


@pytest.mark.parametrize(
    ("position", "text", "is_exact", "last"),
    [
        (0, "", True, None),
        (3_000, "", True, None),
        (6_000, "One", True, "One"),
        (7_500, "One (two),", True, "two"),
        (12_000, "One (two),", True, "two"),
        (13_500, "One (two), three.", True, "three"),
        (14_500, "One (two), three.", True, "three"),
        (14_000 + 6_000, "One (two), three. Four,", True, "Four"),
        (14_000 + 9_000, "One (two), three. Four, five", False, "five"),
        (90_000, "One (two), three. Four, five six.", False, "five"),
    ],
)
def test_words_with_times_end_where_they_end(
    spoken: Timeline, position: int, text: str, is_exact: bool, last: str | None
) -> None:
    played = spoken.text_until(position)
    assert (played.text, played.is_exact) == (text, is_exact)
    assert (played.last_word and played.last_word.text) == last


def test_words_have_places_in_the_run(spoken: Timeline) -> None:
    [six] = spoken.add_words([timed("six", 12, 9_000, 12_000)])
    assert spoken.text[six.start_character : six.end_character] == "six"
    assert (six.start_sample, six.end_sample) == (23_000, 26_000)
    spoken.end(13_000)
    assert spoken.text_until(26_500) == PlayedText(spoken.text, True, six)
    assert spoken.text_until(25_000).text == "One (two), three. Four, five"


def test_a_word_that_was_left_out_was_not_heard() -> None:
    timeline = Timeline()
    timeline.begin("One two three.", 0)
    timeline.add_words([timed("One", 0, 0, 4_000), timed("two", 4, 4_000, 4_000)])
    timeline.add_words([timed("three", 8, 4_000, 9_000)])
    played = timeline.text_until(5_000)
    assert (played.text, played.is_exact) == ("One", True)
    assert played.last_word is not None
    assert played.last_word.text == "One"


def test_words_are_sent_with_the_sound_that_they_begin_in() -> None:
    run = Run(ContextConfig(), SeedState())
    early, late = timed("One", 0, 0, 4_000), timed("two", 4, 4_000, 9_000)
    run.unsent_words.extend([early, late])
    assert run.take_words(0) == []
    assert run.take_words(4_000) == [early]
    assert run.take_words(4_000.5) == [late]
    run.unsent_words.append(timed("three", 8, 9_000, 9_500))
    assert len(run.take_words()) == 1
