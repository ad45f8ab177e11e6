"""``Chat.infer(stream=True)``, ``Chat.stream``, low latency and interrupts."""

import asyncio
import gc
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import pytest

import ChatTTS
from ChatTTS.core import Chat
from ChatTTS.errors import ConfigError, TextError
from ChatTTS.model.generation import Cancellation, Delta, GenerationRequest
from ChatTTS.pipeline.results import Piece
from ChatTTS.pipeline.streams import SpeechStream

from ..support.chat_tools import LIVELY, TEXT, Recording, quick, speak
from ..support.waiting import SECONDS

ENDLESS: dict[str, Any] = {"min_new_token": 900, "max_new_token": 900}


def test_interrupt_ends_what_runs_and_nothing_else(small: Chat) -> None:
    stream = small.infer(TEXT, stream=True, **quick(**ENDLESS))
    first = next(stream)
    small.interrupt()
    rest = list(stream)
    assert first.shape[0] == 1
    assert stream.finish_reasons == ["abort"]
    assert sum(chunk.shape[1] for chunk in [first, *rest]) < 899 * 512
    assert speak(small, TEXT).finish_reasons == ["length"]


def test_one_call_can_be_ended_alone(small: Chat) -> None:
    stop = threading.Event()
    settings = quick(max_new_token=60, min_new_token=60)
    streams = [
        small.infer(TEXT, stream=True, interrupt=event, **settings) for event in (stop, None)
    ]
    stop.set()
    joined = [list(stream) for stream in streams]
    assert [stream.finish_reasons for stream in streams] == [["abort"], ["length"]]
    assert joined[0] == []
    assert sum(chunk.shape[1] for chunk in joined[1]) == 119 * 256


def test_an_interrupt_keeps_what_was_made(small: Chat) -> None:
    class Stops(Recording):
        def generate(
            self, requests: Sequence[GenerationRequest], cancelled: Cancellation
        ) -> Iterator[list[Delta]]:
            for step, deltas in enumerate(super().generate(requests, cancelled)):
                yield deltas
                if step == 9:
                    small.interrupt()

    with Stops(small):
        waveforms = speak(small, TEXT)
    assert waveforms.finish_reasons == ["abort"]
    assert len(waveforms[0]) == 19 * 256


@pytest.mark.parametrize("use_decoder", [True, False])
@pytest.mark.parametrize("texts", [[TEXT], [TEXT, "one.", "come to the water, come now."]])
@pytest.mark.slow_for("standard-texts1-*", "standard-*-False", "velocity-texts1-False")
def test_a_stream_is_the_same_sound(small: Chat, texts: list[str], use_decoder: bool) -> None:
    settings = quick(max_new_token=150)
    settings |= {"use_decoder": use_decoder, "max_split_batch": len(texts)}
    whole = small.infer(texts, **settings)
    stream = small.infer(texts, stream=True, **settings)
    chunks = list(stream)
    assert all(chunk.shape[0] == len(texts) and chunk.shape[1] > 0 for chunk in chunks)
    assert all(chunk.dtype == np.float32 for chunk in chunks)
    joined = np.concatenate(chunks, axis=1)
    assert stream.finish_reasons == whole.finish_reasons
    assert joined.shape[1] == max(len(wav) for wav in whole)
    for row, wav in zip(joined, whole, strict=True):
        np.testing.assert_allclose(row[: len(wav)], wav, atol=1e-4)
        assert not row[len(wav) :].any()


@pytest.mark.parametrize("wrong", [{"spk_emb": "nobody"}, {"temperature": [0.3, 0.3]}])
def test_a_stream_that_cannot_start_says_so_at_once(small: Chat, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"speaker string|2 values"):
        small.infer(TEXT, stream=True, skip_refine_text=True, params_infer_code=wrong)


@pytest.mark.slow_for("standard*")
def test_stream_settings_of_scripts(small: Chat) -> None:
    def lengths(**changes: int) -> list[int]:
        params = {"max_new_token": 200, "min_new_token": 200, **changes}
        return [chunk.shape[1] for chunk in small.infer(TEXT, stream=True, **quick(**params))]

    total = 399 * 256
    assert sum(lengths()) == total
    sized = lengths(stream_speed=5000)
    assert set(sized[:-1]) == {5000}
    assert sum(sized) == total
    held = lengths(pass_first_n_batches=4)
    assert held[0] >= 4 * 24 * 512
    assert sum(held) == total
    assert len(lengths(stream_batch=8)) > len(lengths(stream_batch=48))


def test_a_stream_that_is_left_unfinished_frees_its_work(small: Chat) -> None:
    closed = threading.Event()

    class Watched(Recording):
        def generate(
            self, requests: Sequence[GenerationRequest], cancelled: Cancellation
        ) -> Iterator[list[Delta]]:
            try:
                yield from super().generate(requests, cancelled)
            finally:
                closed.set()

    with Watched(small):
        stream = small.infer(TEXT, stream=True, **quick(**ENDLESS))
        next(stream)
        assert not closed.is_set()
        stream.close()
        assert closed.wait(SECONDS)
    assert list(stream) == []


# ---------------------------------------------------------------- pieces of one text

STORY = "hello the world. this is one good day, come to the water! one more. and now we go home."


def pieces_of(chat: Chat, text: str, **settings: Any) -> tuple[SpeechStream, list[Piece]]:
    params = {"max_new_token": 90, **settings.pop("params", {})}
    stream = chat.stream(text, **quick(**params), **settings)
    return stream, list(stream)


@pytest.mark.parametrize("use_decoder", [True, False])
@pytest.mark.parametrize("max_split_batch", [1, 4])
@pytest.mark.slow_for("standard-1-*", "standard-4-False", "velocity-4-False")
def test_pieces_are_the_waveform(small: Chat, use_decoder: bool, max_split_batch: int) -> None:
    settings: dict[str, Any] = {"use_decoder": use_decoder, "max_split_batch": max_split_batch}
    stream, pieces = pieces_of(small, STORY, **settings)
    whole = small.infer(STORY, **quick(max_new_token=90), **settings)
    assert len(stream.utterances) > 1
    joined = np.concatenate([piece.samples for piece in pieces])
    np.testing.assert_allclose(joined, whole[0], rtol=0, atol=1e-5)
    ends = np.cumsum([len(piece.samples) for piece in pieces])
    assert [piece.position for piece in pieces] == [0, *ends[:-1]]
    assert sorted(piece.utterance for piece in pieces) == [piece.utterance for piece in pieces]
    ended = {piece.utterance: piece.finish_reason for piece in pieces if piece.finish_reason}
    finishes: list[Any] = [u.finish for u in stream.utterances]
    assert ended == {i: finish.value for i, finish in enumerate(finishes)}
    assert [u.text for u in stream.utterances] == [u.text for u in whole.rows[0].utterances]
    assert stream.finish_reason == whole.finish_reasons[0]


@pytest.mark.slow_for("standard*")
def test_a_text_in_parts_sounds_like_the_whole(small: Chat) -> None:
    # The speaker is named, else each part would choose a voice of its own.
    voice: dict[str, Any] = {"spk_emb": small.sample_random_speaker()}
    _, whole = pieces_of(small, STORY, params=voice)
    texts = list(dict.fromkeys(piece.text for piece in whole))
    parts = [
        pieces_of(small, text, first_utterance=n, params=voice)[1] for n, text in enumerate(texts)
    ]
    joined = np.concatenate([piece.samples for part in parts for piece in part])
    np.testing.assert_allclose(
        joined, np.concatenate([piece.samples for piece in whole]), rtol=0, atol=1e-5
    )
    with pytest.raises(ConfigError, match="first_utterance"):
        small.stream(STORY, first_utterance=-1)


def test_streams_of_velocity_are_exact_to_the_bit() -> None:
    chat = Chat()
    chat.load_or_raise("bundled", device="cpu", use_vllm=True, num_threads=1)
    text = "Good morning. We went home."
    params: dict[str, Any] = {"manual_seed": 5}
    plain: dict[str, Any] = {"skip_refine_text": True}
    whole = chat.infer(text, params_infer_code=params, **plain)[0]
    for changes in ({"stream_batch": 7}, {"stream_batch": 1}):
        pieces = list(chat.stream(text, params_infer_code={**params, **changes}, **plain))
        joined = np.concatenate([piece.samples for piece in pieces])
        np.testing.assert_array_equal(joined, whole)
        assert len(pieces) > 4
    streams = [chat.stream(text, params_infer_code=params, **plain) for _ in range(3)]
    for samples in [np.concatenate(parts) for parts in zip_streams(streams)]:
        np.testing.assert_array_equal(samples, whole)


def zip_streams(streams: Sequence[Any]) -> list[list[np.ndarray]]:
    """Read streams by turns; return the samples of each."""
    parts: list[list[np.ndarray]] = [[] for _ in streams]
    running = set(range(len(streams)))
    while running:
        for i in sorted(running):
            piece = next(streams[i], None)
            if piece is None:
                running.remove(i)
            else:
                parts[i].append(piece.samples)
    return parts


@pytest.mark.slow_for("standard*")
def test_a_loop_reads_several_streams_at_once(small: Chat) -> None:
    texts = ["hello the world.", "come to the water, come now.", STORY]
    settings = quick(max_new_token=60)
    wholes = [small.infer(text, **settings)[0] for text in texts]

    async def read(text: str) -> np.ndarray:
        async with small.stream(text, **settings) as stream:
            return np.concatenate([piece.samples async for piece in stream])

    async def read_all() -> list[np.ndarray]:
        return await asyncio.gather(*map(read, texts))

    for samples, whole in zip(asyncio.run(read_all()), wholes, strict=True):
        np.testing.assert_allclose(samples, whole, rtol=0, atol=1e-5)


@pytest.mark.slow_for("standard*")
def test_the_loop_goes_on_meanwhile_and_a_wait_can_be_cancelled(small: Chat) -> None:
    async def impatient() -> list[Any]:
        stream = small.stream(TEXT, **quick(min_new_token=200, max_new_token=200))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(stream), 1e-4)
        return [piece async for piece in stream]

    pieces = asyncio.run(impatient())
    assert sum(len(piece.samples) for piece in pieces) == 399 * 256


def workers() -> set[threading.Thread]:
    return {t for t in threading.enumerate() if t.name in ("speech", "decoding")}


def ends(threads: set[threading.Thread]) -> bool:
    limit = time.monotonic() + 20
    while threads & workers() and time.monotonic() < limit:
        time.sleep(0.01)
    return not threads & workers()


@pytest.mark.slow
@pytest.mark.parametrize("leaves", ["closes", "lets go", "leaves the loop", "with an error"])
def test_a_reader_that_leaves_ends_the_work(small: Chat, leaves: str) -> None:
    before = workers()
    settings = quick(**ENDLESS)
    stream = small.stream(TEXT, **settings)

    async def one_piece() -> None:
        async with stream:
            await anext(stream)

    def broken() -> None:
        with stream:
            next(stream)
            raise OSError("no room left")

    if leaves == "leaves the loop":
        asyncio.run(one_piece())
    elif leaves == "with an error":
        with pytest.raises(OSError, match="no room"):
            broken()
    else:
        next(stream)
    assembler = stream._generation.assembler
    if leaves == "closes":
        stream.close()
        stream.close()
        assert list(stream) == []
    if leaves == "lets go":
        del stream
        gc.collect()
    assert ends(workers() - before)
    assert not assembler.worker._jobs
    assert speak(small, TEXT).finish_reasons == ["length"]


def test_closing_a_stream_ends_the_wait_of_its_reader(small: Chat) -> None:
    async def close_while_another_task_waits() -> list[Any]:
        stream = small.stream(TEXT, **quick(**ENDLESS))

        async def read() -> list[Any]:
            return [piece async for piece in stream]

        reader = asyncio.create_task(read())
        await asyncio.sleep(0.05)
        await stream.aclose()
        return await asyncio.wait_for(reader, 20)

    before = workers()
    asyncio.run(close_while_another_task_waits())
    assert ends(workers() - before)


@pytest.mark.slow
@pytest.mark.parametrize("use_vllm", [False, True])
def test_unloading_ends_streams(use_vllm: bool) -> None:
    chat = Chat()
    chat.load_or_raise("bundled", device="cpu", use_vllm=use_vllm, num_threads=1)
    before = workers()
    stream = chat.stream(TEXT, skip_refine_text=True, params_infer_code=ENDLESS)
    next(stream)
    chat.unload()
    pieces = list(stream)
    assert stream.finish_reason == "abort"
    assert sum(len(piece.samples) for piece in pieces) < 1799 * 256
    assert ends(workers() - before)


def test_the_work_begins_when_the_first_piece_is_asked_for(small: Chat) -> None:
    before = workers()
    stream = small.stream(TEXT, **quick())
    assert workers() == before
    stream.close()
    assert list(stream) == []


def test_errors_of_the_engine_reach_the_reader(small: Chat) -> None:
    class Breaks(Recording):
        def generate(
            self, requests: Sequence[GenerationRequest], cancelled: Cancellation
        ) -> Iterator[list[Delta]]:
            for step, deltas in enumerate(super().generate(requests, cancelled)):
                if step == 30:
                    raise RuntimeError("the engine is on fire")
                yield deltas

    with Breaks(small):
        for stream in (small.stream(TEXT, **quick()), small.infer(TEXT, True, **quick())):
            with pytest.raises(RuntimeError, match="on fire"):
                list(stream)


@pytest.mark.slow_for("standard*")
def test_refining_comes_before_each_batch(small: Chat) -> None:
    settings: dict[str, Any] = {
        "params_infer_code": {**LIVELY, "max_new_token": 60},
        "params_refine_text": {"manual_seed": 1, "max_new_token": 8, "ensure_non_empty": False},
    }
    with Recording(small) as recording:
        stream = small.stream(STORY, max_split_batch=1, **settings)
        pieces = list(stream)
        kinds = [request.key.kind.name for request in recording.requests]
    assert kinds[:4] == ["REFINE", "CODE"] * 2
    whole = small.infer(STORY, **settings)
    assert [u.text for u in stream.utterances] == [u.text for u in whole.rows[0].utterances]
    joined = np.concatenate([piece.samples for piece in pieces])
    np.testing.assert_allclose(joined, whole[0], rtol=0, atol=1e-5)


def test_a_stream_speaks_one_text(small: Chat) -> None:
    with pytest.raises(TextError, match="one text"):
        small.stream(cast(Any, ["one.", "two."]))
    with pytest.raises(TextError, match="one text"):
        next(small.stream(cast(Any, None)))


# ---------------------------------------------------------------- low latency

EARLY: dict[str, Any] = {"first": 2, "lookahead": 3, "growth": 1.5}


@pytest.mark.parametrize("low_latency", [True, EARLY, ChatTTS.LowLatency(first=3)])
@pytest.mark.slow_for("standard*", "velocity-low_latency*")
def test_low_latency_begins_sooner_and_joins_the_exact_stream(
    small: Chat, low_latency: Any
) -> None:
    params: dict[str, Any] = {"min_new_token": 120, "max_new_token": 120}
    _, exact = pieces_of(small, TEXT, params=params)
    _, early = pieces_of(small, TEXT, params=params, low_latency=low_latency)
    _, again = pieces_of(small, TEXT, params=params, low_latency=low_latency)
    chunks = small.infer(TEXT, stream=True, low_latency=low_latency, **quick(**params))
    exact_, early_, again_ = (
        np.concatenate([piece.samples for piece in pieces]) for pieces in (exact, early, again)
    )
    assert len(early_) == len(exact_)
    np.testing.assert_allclose(again_, early_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(np.concatenate(list(chunks), axis=1)[0], early_, rtol=0, atol=1e-6)
    numbers = ChatTTS.params.as_low_latency(low_latency)
    assert numbers is not None
    last = list(numbers.chunks(small._loaded.from_hiddens.reach / 2))[-1][1]
    joined = last * 512 + numbers.fade
    assert np.abs(early_ - exact_)[:joined].max() > 1e-4
    np.testing.assert_allclose(early_[joined:], exact_[joined:], rtol=0, atol=1e-5)


def test_low_latency_is_about_streams(small: Chat) -> None:
    with pytest.raises(ConfigError, match="stream=True"):
        small.infer(TEXT, low_latency=True)
    for wrong, message in (
        ({"first": 0}, "first of LowLatency must be at least 1"),
        ({"growth": 1}, "growth of LowLatency must be above 1"),
        ({"speed": 1}, "LowLatency has no speed"),
        ("fast", "expected LowLatency"),
    ):
        with pytest.raises(ConfigError, match=message):
            small.stream(TEXT, low_latency=cast(Any, wrong))
