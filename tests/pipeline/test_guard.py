"""``guard``: faulty utterances are reported, or generated again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ChatTTS.core import Chat
from ChatTTS.errors import ConfigError
from ChatTTS.pipeline.faults import FaultFinder, FaultKind, FrameFault, Limits
from ChatTTS.pipeline.results import Fault, Waveforms

from ..support.chat_tools import Recording
from .test_word_times import OTHER, SETTINGS, TEXT, load


@pytest.fixture(scope="module")
def velocity() -> Iterator[Chat]:
    chat = load(use_vllm=True)
    yield chat
    chat.unload()


def spoken(chat: Chat, texts: str | list[str], guard: str | None, **changes: Any) -> Waveforms:
    waveforms: Waveforms = chat.infer(
        texts, skip_refine_text=True, params_infer_code={**SETTINGS, **changes}, guard=guard
    )
    return waveforms


def scripted(monkeypatch: pytest.MonkeyPatch, *sizes: int) -> None:
    """Let the guard find a skip of so many words in each attempt; none for 0."""
    left = list(sizes)

    def faults(self: FaultFinder, limits: Limits) -> list[FrameFault]:
        size = left.pop(0)
        return [FrameFault(FaultKind.SKIPPED, 1, 1 + size, 5, 5)] if size else []

    monkeypatch.setattr(FaultFinder, "faults", faults)


def attempts(recording: Recording) -> list[int]:
    return [request.key.attempt for request in recording.requests]


def test_good_speech_is_generated_once(velocity: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = spoken(velocity, OTHER, None)
    assert plain.faults == [[]]
    scripted(monkeypatch, 0)
    with Recording(velocity) as recording:
        guarded = spoken(velocity, OTHER, "retry")
    assert attempts(recording) == [0]
    assert guarded.faults == [[]]
    assert guarded.rows[0].utterances[0].attempts == 1
    assert np.array_equal(guarded[0], plain[0])


def test_a_faulty_utterance_is_tried_again(velocity: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, 2, 0)
    with Recording(velocity) as recording:
        waveforms = spoken(velocity, OTHER, "retry")
    assert attempts(recording) == [0, 1]
    assert waveforms.faults == [[]]
    assert waveforms.rows[0].utterances[0].attempts == 2
    assert len(waveforms.words[0]) == len(OTHER.split())
    assert not np.array_equal(waveforms[0], spoken(velocity, OTHER, None)[0])


def test_the_best_of_faulty_attempts_is_kept(
    velocity: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, 2, 0)
    second = spoken(velocity, OTHER, "retry")
    scripted(monkeypatch, 3, 1, 2, 1)
    with Recording(velocity) as recording:
        waveforms = spoken(velocity, OTHER, "retry")
    assert attempts(recording) == [0, 1, 2, 3]
    assert waveforms.rows[0].utterances[0].attempts == 4
    assert np.array_equal(waveforms[0], second[0])
    assert waveforms.words == second.words
    sample = 5 * 512
    assert waveforms.faults == [
        [Fault("more", sample / 24_000, sample / 24_000, sample, sample, 4, 8, "skipped", 1)]
    ]


def test_a_report_changes_no_sample(velocity: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, 2)
    with Recording(velocity) as recording:
        waveforms = spoken(velocity, OTHER, "report")
    assert attempts(recording) == [0]
    assert [fault.text for fault in waveforms.faults[0]] == ["more day"]
    assert waveforms.rows[0].utterances[0].attempts == 1
    assert np.array_equal(waveforms[0], spoken(velocity, OTHER, None)[0])


def test_greedy_speech_is_not_tried_again(velocity: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, 2)
    with Recording(velocity) as recording:
        waveforms = spoken(velocity, OTHER, "retry", temperature=0)
    assert attempts(recording) == [0]
    assert len(waveforms.faults[0]) == 1


def test_a_cut_that_is_kept_is_told_once(
    velocity: Chat, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        "ChatTTS.pipeline.frame_generation.longest_seconds", lambda text, settings: 1.0
    )
    limits = {"max_new_token": 2000, "ensure_non_empty": True}
    scripted(monkeypatch, 2, 0)  # of the third attempt, the last one at a runaway, and the fourth
    with Recording(velocity) as recording:
        waveforms = spoken(velocity, OTHER, "retry", **limits)
    assert attempts(recording) == [0, 1, 2, 3]
    assert waveforms.finish_reasons == ["length"]
    assert caplog.text.count("found no end") == 1
    scripted(monkeypatch, 1, 2)
    kept = spoken(velocity, OTHER, "retry", **limits)
    assert [fault.words for fault in kept.faults[0]] == [1]
    assert caplog.text.count("found no end") == 2


def test_results_are_equal_in_every_batch(velocity: Chat) -> None:
    """The weights are random, so that real limits find faults in every attempt."""
    together = spoken(velocity, [TEXT, OTHER], "retry")
    assert {u.attempts for row in together.rows for u in row.utterances} == {4}
    for number, text in enumerate([TEXT, OTHER]):
        [alone] = spoken(velocity, text, "retry").rows
        assert alone.faults
        assert alone.faults == together.rows[number].faults
        assert alone.words == together.rows[number].words
    assert np.array_equal(together[1], spoken(velocity, OTHER, "retry")[0])


def test_a_stream_reports_the_faults_of_the_whole(velocity: Chat) -> None:
    whole = spoken(velocity, TEXT, "report")
    assert len(whole.rows[0].utterances) > 1
    assert whole.faults[0]
    stream = velocity.stream(
        TEXT, skip_refine_text=True, params_infer_code=SETTINGS, guard="report"
    )
    heard = np.concatenate([piece.samples for piece in stream])
    assert np.array_equal(heard, whole[0])
    assert stream.rows[0].faults == whole.faults[0]


def test_times_count_from_the_beginning_of_the_text(
    velocity: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, 0, 1)
    row = spoken(velocity, TEXT, "report").rows[0]
    later = [u for u in row.utterances if u.faults]
    assert row.faults[0].start_sample == row.start_of(later[0]) + later[0].faults[0].start_sample
    assert TEXT[row.faults[0].start_character : row.faults[0].end_character] == row.faults[0].text


def test_what_is_refused(velocity: Chat) -> None:
    with pytest.raises(ConfigError, match='"report"'):
        velocity.stream(TEXT, guard="retry")
    with pytest.raises(ConfigError, match="given out"):
        velocity.infer(TEXT, stream=True, guard="retry")
    with pytest.raises(ConfigError, match="guard must be"):
        velocity.infer(TEXT, guard="repeat")
