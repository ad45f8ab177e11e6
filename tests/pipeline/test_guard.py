"""``guard``: faulty utterances are reported, or generated again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ChatTTS.core import Chat
from ChatTTS.errors import ConfigError
from ChatTTS.model.generation import Cancellation, Delta, FinishReason, GenerationRequest
from ChatTTS.model.tokenizer import spoken_part
from ChatTTS.pipeline.alignment.faults import FaultFinder, FaultKind, FrameFault, Limits
from ChatTTS.pipeline.alignment.word_aligner import LAG, WordAligner, WordFrames
from ChatTTS.pipeline.assembly import WaveformAssembler
from ChatTTS.pipeline.results import Fault, Piece, Waveforms
from ChatTTS.pipeline.streams import SpeechStream
from ChatTTS.pipeline.utterance import UtteranceUpdate

from ..support.chat_tools import Recording
from .test_word_times import HOW, OTHER, SETTINGS, TEXT, load


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
    monkeypatch.setattr(FaultFinder, "new_leaps", lambda self, limits: [])


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


class CountsFrames(Recording):
    """An engine that counts the frames that it generates."""

    frames = 0

    def __enter__(self) -> CountsFrames:
        super().__enter__()
        return self

    def generate(
        self, requests: Sequence[GenerationRequest], cancelled: Cancellation
    ) -> Iterator[list[Delta]]:
        for deltas in super().generate(requests, cancelled):
            self.frames += sum(len(delta.ids) for delta in deltas)
            yield deltas


def test_frames_are_aligned_once_for_words_and_faults(
    velocity: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, 2, 0)
    aligned, push = [], WordAligner.push

    def counted(self: WordAligner, attention: NDArray[np.float32]) -> list[WordFrames]:
        aligned.append(len(attention))
        return push(self, attention)

    monkeypatch.setattr(WordAligner, "push", counted)
    with CountsFrames(velocity) as counts:
        waveforms = spoken(velocity, OTHER, "retry")
    assert attempts(counts) == [0, 1]
    assert len(waveforms.words[0]) == len(OTHER.split())
    assert sum(aligned) == counts.frames > 0


def test_greedy_speech_is_not_tried_again(velocity: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, 2)
    with Recording(velocity) as recording:
        waveforms = spoken(velocity, OTHER, "retry", temperature=0)
    assert attempts(recording) == [0]
    assert len(waveforms.faults[0]) == 1


def test_a_cut_that_is_kept_is_told_once(
    velocity: Chat, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ChatTTS.pipeline.speech_pass.longest_seconds", lambda text, settings: 1.0)
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
    given, pieces = stream(velocity, "report")
    assert np.array_equal(np.concatenate([piece.samples for piece in pieces]), whole[0])
    assert given.rows[0].faults == whole.faults[0]


def stream(chat: Chat, guard: str, **options: Any) -> tuple[SpeechStream, list[Piece]]:
    """Return a stream at its end, and its pieces."""
    given = chat.stream(TEXT, guard=guard, **HOW, **options)
    return given, list(given)


@pytest.mark.slow
@pytest.mark.parametrize("guard", ["report", "retry"])
def test_faults_come_with_the_utterance_that_has_them(velocity: Chat, guard: str) -> None:
    whole = spoken(velocity, TEXT, guard)
    _, pieces = stream(velocity, guard)
    assert [fault for piece in pieces for fault in piece.faults] == whole.faults[0]
    for number, utterance in enumerate(whole.rows[0].utterances):
        own = [piece for piece in pieces if piece.utterance == number]
        assert sum(len(piece.faults) for piece in own) == len(utterance.faults) > 0
        assert own[-1].attempts == utterance.attempts == (4 if guard == "retry" else 1)


class LeapingHeads(Recording):
    """An engine whose heads follow the text, and leave six positions of it out at frame 20."""

    columns = len(OTHER)

    def __enter__(self) -> LeapingHeads:
        super().__enter__()
        return self

    def generate(
        self, requests: Sequence[GenerationRequest], cancelled: Cancellation
    ) -> Iterator[list[Delta]]:
        frame = 0
        for deltas in super().generate(requests, cancelled):
            for delta in deltas:
                for weights in () if delta.attention is None else delta.attention:
                    weights.fill_(0.001)
                    place = min(frame // 3 + 6 * (frame >= 20), self.columns - 1)
                    weights[:, place - self.columns] = 0.9
                    frame += 1
            yield deltas


@pytest.mark.slow
def test_words_that_are_left_out_are_told_before_their_place_is_heard() -> None:
    """The decoder of the bundled voice looks further ahead than the path."""
    chat = Chat()
    chat.load_or_raise("bundled", device="cpu", use_vllm=True, num_threads=1)
    assert chat._model is not None
    assert chat._model.synthesizer(use_decoder=True).reach / 2 > LAG
    params = {**SETTINGS, "max_new_token": 120, "min_new_token": 120, "stream_batch": 2}
    options: dict[str, Any] = {"skip_refine_text": True, "params_infer_code": params}
    with LeapingHeads(chat) as heads:
        heads.columns = len(chat.tokenizer.offsets(spoken_part(OTHER))) + 1
        whole = chat.infer(OTHER, guard="report", **options)
        pieces = list(chat.stream(OTHER, guard="report", **options))
    chat.unload()
    faults = whole.faults[0]
    assert [fault for piece in pieces for fault in piece.faults] == faults
    assert (faults[0].kind, faults[0].start_sample) == ("skipped", 20 * 512)
    [told] = [piece for piece in pieces if faults[0] in piece.faults]
    assert told.position <= faults[0].start_sample


@pytest.mark.slow
@pytest.mark.parametrize("low_latency", [False, True])
def test_a_stream_tries_again_before_it_gives_sound(velocity: Chat, low_latency: bool) -> None:
    whole = spoken(velocity, TEXT, "retry")
    given, pieces = stream(velocity, "retry", low_latency=low_latency, max_split_batch=1)
    assert np.array_equal(np.concatenate([piece.samples for piece in pieces]), whole[0])
    assert given.rows == whole.rows
    assert [word for piece in pieces for word in piece.words] == whole.words[0]
    chunks = velocity.infer([OTHER, TEXT], stream=True, guard="retry", **HOW)
    rows = np.concatenate(list(chunks), axis=1)
    assert np.array_equal(rows[1][: len(whole[0])], whole[0])
    assert chunks.rows[1] == whole.rows[0]


def test_no_sound_is_given_before_it_is_checked(
    velocity: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each utterance of the engine is over when its first frames are decoded."""
    scripted(monkeypatch, 1, 0, 0, 2, 0)
    updates = []
    add = WaveformAssembler.add

    def watched(self: WaveformAssembler, update: UtteranceUpdate) -> bool:
        updates.append((update.utterance.index, update.delta.finish, update.attempts))
        return add(self, update)

    monkeypatch.setattr(WaveformAssembler, "add", watched)
    given, _ = stream(velocity, "retry", max_split_batch=1)
    count = len(given.utterances)
    stopped = FinishReason.LENGTH
    assert updates == [(i, stopped, u.attempts) for i, u in enumerate(given.utterances)]
    assert count > 1
    assert updates[0][2] == 2


def test_a_runaway_in_a_guarded_stream_is_tried_again(
    velocity: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ChatTTS.pipeline.speech_pass.longest_seconds", lambda text, settings: 1.0)
    limits = {**SETTINGS, "max_new_token": 2000, "ensure_non_empty": True}
    for guard, tries in (("retry", [0, 1, 2]), ("report", [0])):
        scripted(monkeypatch, 0)
        with Recording(velocity) as recording:
            given = velocity.stream(
                OTHER, skip_refine_text=True, params_infer_code=limits, guard=guard
            )
            list(given)
        assert attempts(recording) == tries


class InterruptedRecording(Recording):
    """An engine whose first step interrupts all calls."""

    def __init__(self, chat: Chat) -> None:
        super().__init__(chat)
        self._interrupt = chat.interrupt

    def generate(
        self, requests: Sequence[GenerationRequest], cancelled: Cancellation
    ) -> Iterator[list[Delta]]:
        for deltas in super().generate(requests, cancelled):
            yield deltas
            self._interrupt()


def test_an_interrupted_utterance_is_given_unchecked(velocity: Chat) -> None:
    """It has no faults, and its stream ends."""
    params = {**SETTINGS, "min_new_token": 900, "max_new_token": 900}
    with InterruptedRecording(velocity):
        given = velocity.stream(
            OTHER, skip_refine_text=True, params_infer_code=params, guard="retry"
        )
        list(given)
    assert given.finish_reason == "abort"
    assert given.rows[0].faults == []


def test_times_count_from_the_beginning_of_the_text(
    velocity: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, 0, 1)
    row = spoken(velocity, TEXT, "report").rows[0]
    later = [u for u in row.utterances if u.faults]
    assert row.faults[0].start_sample == row.start_of(later[0]) + later[0].faults[0].start_sample
    assert TEXT[row.faults[0].start_character : row.faults[0].end_character] == row.faults[0].text


def test_what_is_refused(velocity: Chat) -> None:
    with pytest.raises(ConfigError, match="guard must be"):
        velocity.stream(TEXT, guard="repeat")
    with pytest.raises(ConfigError, match="guard must be"):
        velocity.infer(TEXT, guard="repeat")
