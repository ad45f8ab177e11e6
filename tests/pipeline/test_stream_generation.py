"""Streams without threads of their own: runs that the decode worker advances."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from ChatTTS.core import Chat
from ChatTTS.errors import EngineDeadError, OutOfThreadsError
from ChatTTS.model.generation import Cancellation, Delta, FinishReason, Gain, GenerationRequest
from ChatTTS.params import InferCodeParams
from ChatTTS.pipeline import assembly
from ChatTTS.pipeline.routines import Routine, Tell, run, told_by
from ChatTTS.pipeline.speech_pass import SpeechPass
from ChatTTS.pipeline.stream_generation import GenerationRun, GenerationThread, _joined
from ChatTTS.pipeline.streams import SpeechStream
from ChatTTS.pipeline.utterance import Utterance, UtteranceUpdate

from ..support.chat_tools import TEXT, Recording, quick
from ..support.places import DATA
from ..support.pushed_tools import PushingFake, run_of, sound_of, speak
from ..support.waiting import wait_until

PARAMS = InferCodeParams(ensure_non_empty=False)
STORY = "hello the world. this is one good day, come to the water! one more. and now we go home."


@pytest.fixture(scope="module")
def small_velocity() -> Chat:
    chat = Chat()
    chat.load_or_raise(
        "custom", custom_path=DATA / "model-a", device="cpu", use_vllm=True, num_threads=1
    )
    assert chat._model is not None
    # With heads named, word times search for none, and leave no file beside the checkpoint.
    defaults = replace(chat.config.defaults, alignment_heads=((0, 0), (1, 1)))
    chat._model = replace(chat._model, config=replace(chat.config, defaults=defaults))
    return chat


def test_twenty_streams_have_no_thread_of_their_own(small_velocity: Chat) -> None:
    before = set(threading.enumerate())
    seen: set[threading.Thread] = set()

    async def speak_all() -> list[int]:
        async def one(seed: int) -> int:
            stream = small_velocity.stream(TEXT, **quick(manual_seed=seed))
            samples = 0
            async for piece in stream:
                samples += len(piece.samples)
                seen.update(set(threading.enumerate()) - before)
            return samples

        return await asyncio.gather(*map(one, range(20)))

    assert all(asyncio.run(speak_all()))
    assert {thread.name for thread in seen} <= {"velocity", "decoding"}


def test_a_run_that_is_far_ahead_asks_for_nothing_new(
    small_velocity: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = quick(max_new_token=60)
    whole = small_velocity.infer(STORY, **settings)
    monkeypatch.setattr(assembly, "_GENERATED_AHEAD", 1)
    with Recording(small_velocity) as recording:
        stream = small_velocity.stream(STORY, max_split_batch=1, **settings)
        pieces = [next(stream)]
        generation: Any = stream._generation
        held = generation.assembler.worker._held
        wait_until(lambda: generation in held)
        asked = len(recording.requests)
        pieces += list(stream)
    assert asked < len(recording.requests) == len(stream.utterances)
    assert generation not in held
    joined = np.concatenate([piece.samples for piece in pieces])
    np.testing.assert_array_equal(joined, whole[0])


@pytest.mark.parametrize("text", ["12 words", ["12 words", "another text"]])
def test_a_call_that_calls_back_has_a_thread(small_velocity: Chat, text: Any) -> None:
    """A function of the caller's that takes long holds up no other stream."""

    def generation(**options: Any) -> Any:
        return small_velocity.infer(text, stream=True, **quick(), **options)._generation

    assert isinstance(generation(word_times=True), GenerationRun)
    small_velocity.normalizer.register("en", str.lower)
    try:
        assert isinstance(generation(word_times=True), GenerationThread)
        assert isinstance(generation(), GenerationRun)
    finally:
        small_velocity.normalizer.unregister("en")


def test_the_samples_of_a_run_are_those_of_its_frames() -> None:
    stream = SpeechStream(run_of(PushingFake()), PARAMS)
    np.testing.assert_array_equal(np.concatenate([piece.samples for piece in stream]), sound_of(4))
    worker = stream._generation.assembler.worker
    wait_until(lambda: not worker._runs and not worker._jobs)


def test_what_came_since_the_last_look_is_joined_for_each_request() -> None:
    def delta(index: int, frame: int, finish: FinishReason | None = None) -> Delta:
        return Delta(index, torch.full((1, 4), frame), torch.full((1, 2), float(frame)), finish)

    def fail() -> list[Delta]:
        raise EngineDeadError("the engine was closed")

    steps = [[delta(1, 0), delta(0, 1)], [delta(1, 2, FinishReason.STOP)], [delta(0, 3)]]
    gains = deque[Gain]([*(partial(list, step) for step in steps), fail, partial(list, steps[0])])
    second, first = _joined(gains)
    assert (first.index, first.ids[:, 0].tolist(), first.finish) == (0, [1, 3], None)
    assert (second.index, second.ids[:, 0].tolist()) == (1, [0, 2])
    assert second.finish is FinishReason.STOP
    torch.testing.assert_close(first.hiddens, first.ids[:, :2].float(), rtol=0, atol=0)
    with pytest.raises(EngineDeadError, match="was closed"):  # behind what came before it
        _joined(gains)


def test_the_engine_may_push_while_a_run_begins() -> None:
    """Nothing is lost of what comes before the worker knows the run."""
    engine = PushingFake(pushes_at_once=True)
    stream = SpeechStream(run_of(engine), PARAMS)
    np.testing.assert_array_equal(np.concatenate([piece.samples for piece in stream]), sound_of(4))


@pytest.mark.parametrize("when", ["at the first request", "at a later step"])
def test_the_error_of_a_run_reaches_its_reader_each_time(when: str) -> None:
    error = EngineDeadError("the engine was closed")
    is_first = when == "at the first request"
    engine = PushingFake(refuses=error) if is_first else PushingFake(breaks=error)
    stream = SpeechStream(run_of(engine), PARAMS)
    for _ in range(2):
        with pytest.raises(EngineDeadError, match="was closed"):
            list(stream)
    worker = stream._generation.assembler.worker
    wait_until(lambda: not worker._runs)


def test_a_run_without_a_thread_to_begin_with_may_begin_again() -> None:
    engine = PushingFake(refuses=OutOfThreadsError("no thread"))
    stream = SpeechStream(run_of(engine), PARAMS)
    with pytest.raises(OutOfThreadsError):
        next(stream)
    engine.refuses = None
    np.testing.assert_array_equal(np.concatenate([piece.samples for piece in stream]), sound_of(4))


def test_a_run_that_could_not_begin_keeps_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = PushingFake(holds=True)
    generation = run_of(engine)
    worker = generation.assembler.worker

    def refuse(part: object) -> None:
        raise OutOfThreadsError("no thread")

    with monkeypatch.context() as patched:
        patched.setattr(worker._loop, "begin", refuse)
        with pytest.raises(OutOfThreadsError):
            generation.begin()
    assert not worker._runs
    worker.begin(generation)  # as where Ctrl-C came a little later
    generation.close()
    worker.look_at(generation)
    wait_until(lambda: not worker._runs and worker._loop._thread is None)
    assert engine.answered[0].is_abandoned


def test_an_interrupt_asks_for_no_further_batch(
    small_velocity: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpt: Any = small_velocity.gpt
    engine, asked, stop = gpt.engine.engine, [], threading.Event()
    submit = engine.submit

    def counted(requests: Any, output_queue: Any) -> None:
        asked.append(len(requests))
        submit(requests, output_queue)
        stop.set()

    monkeypatch.setattr(engine, "submit", counted)
    stream = small_velocity.stream(STORY, max_split_batch=1, interrupt=stop, **quick())
    list(stream)
    assert asked == [1]
    assert {utterance.finish for utterance in stream.utterances} == {FinishReason.ABORT}


def test_answers_that_a_run_gave_up_are_not_heard() -> None:
    """After Ctrl-C at its beginning a run asks again; the engine may still push the old answers."""
    engine = PushingFake(holds=True)
    generation = run_of(engine)
    generation.begin()
    generation._has_begun = False  # the interrupt came just before it was set
    generation.begin()
    assert [answers.is_abandoned for answers in engine.answered] == [True, False]
    for answers in engine.answered:
        answers.push_all()
    stream = SpeechStream(generation, PARAMS)
    np.testing.assert_array_equal(np.concatenate([piece.samples for piece in stream]), sound_of(4))


def test_a_closed_run_ends_its_requests_and_its_routine() -> None:
    ended = []

    def endless(tell: Tell[UtteranceUpdate]) -> Routine[None]:
        try:
            yield from speak(tell)
        finally:
            ended.append(True)

    engine = PushingFake(holds=True)
    generation = run_of(engine, endless)
    generation.begin()
    [answers] = engine.answered
    answers.push_all(1)
    generation.close()
    answers.push_all()  # the engine ends them, since the call is cancelled
    wait_until(lambda: not generation.assembler.worker._runs)
    assert ended
    assert answers.is_abandoned


def test_a_run_that_was_closed_never_begins() -> None:
    engine = PushingFake()
    generation = run_of(engine)
    generation.close()
    generation.begin()
    assert not engine.answered
    assert not generation.assembler.worker._runs


# ---------------------------------------------------------------- routines in a caller's thread


def counting(rounds: int, tell: Tell[int]) -> Routine[str]:
    tell(-1)
    for number in range(rounds):
        deltas = yield [REQUEST] * 2
        tell(10 * number + len(deltas))
        deltas = yield ()
        tell(10 * number + len(deltas))
    return f"{rounds} rounds"


REQUEST: Any = object()


class TwoSteps:
    """An engine whose requests end with the second step."""

    calls = 0

    def generate(self, requests: Sequence[GenerationRequest], cancelled: Cancellation) -> Any:
        assert len(requests) == 2
        self.calls += 1
        yield [None]
        yield [None, None]


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_a_routine_in_a_caller_s_thread(rounds: int) -> None:
    told: list[int] = []
    gpt: Any = TwoSteps()
    assert run(counting(rounds, told.append), gpt, Cancellation()) == f"{rounds} rounds"
    assert told == [-1, *(10 * number + count for number in range(rounds) for count in (1, 2))]
    assert list(told_by(partial(counting, rounds), gpt, Cancellation())) == told
    assert gpt.calls == 2 * rounds


def test_news_are_handed_over_where_nothing_runs() -> None:
    gpt: Any = TwoSteps()
    done = []

    def alone(tell: Tell[int]) -> Routine[None]:
        for number in range(2):
            tell(number)
            yield ()
            done.append(number)
        yield from counting(1, tell)

    news = told_by(alone, gpt, Cancellation())
    assert (next(news), done) == (0, [])
    assert (next(news), done) == (1, [0])
    assert list(news) == [-1, 1, 2]
    run(alone(done.append), gpt, Cancellation())
    assert done == [0, 1, 0, 0, 1, 1, -1, 1, 2]


def test_the_engine_steps_only_when_its_news_were_taken() -> None:
    steps = []

    class Watched:
        def generate(self, *_: object) -> Any:
            for step in (1, 2):
                steps.append(step)
                yield [None] * step

    gpt: Any = Watched()
    news = told_by(partial(counting, 1), gpt, Cancellation())
    assert (next(news), steps) == (-1, [])
    assert (next(news), steps) == (1, [1])
    assert (next(news), steps) == (2, [1, 2])


def test_each_request_is_made_once(small_velocity: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    make = SpeechPass.request

    def request(self: SpeechPass, u: Utterance, *args: Any, **kwargs: Any) -> GenerationRequest:
        made.append(u.text)
        return make(self, u, *args, **kwargs)

    monkeypatch.setattr(SpeechPass, "request", request)
    # Without a voice, the first utterance is the voice of the others.
    speaker = small_velocity.sample_random_speaker()
    stream = small_velocity.stream(STORY, **quick(max_new_token=8, spk_emb=speaker))
    assert len(made) > 1
    asked = list(made)
    list(stream)
    assert made == asked == [utterance.text for utterance in stream.utterances]
