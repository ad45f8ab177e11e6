"""``Chat.infer(stream=True)`` and interrupts."""

import threading
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from ChatTTS.core import Chat
from ChatTTS.model.generation import Cancellation, Delta, GenerationRequest

from .chat_tools import LIVELY, TEXT, Recording, speak


def test_interrupt_ends_what_runs_and_nothing_else(small: Chat) -> None:
    endless = {"max_new_token": 900, "min_new_token": 900}
    stream = small.infer(
        TEXT, stream=True, skip_refine_text=True, params_infer_code={**LIVELY, **endless}
    )
    first = next(stream)
    small.interrupt()
    rest = list(stream)
    assert first.shape[0] == 1
    assert stream.finish_reasons == ["abort"]
    assert sum(chunk.shape[1] for chunk in [first, *rest]) < 899 * 512
    assert speak(small, TEXT).finish_reasons == ["length"]


def test_one_call_can_be_ended_alone(small: Chat) -> None:
    stop = threading.Event()
    params = {**LIVELY, "max_new_token": 60, "min_new_token": 60}
    streams = [
        small.infer(
            TEXT, stream=True, skip_refine_text=True, params_infer_code=params, interrupt=event
        )
        for event in (stop, None)
    ]
    stop.set()
    joined = [list(stream) for stream in streams]
    assert [stream.finish_reasons for stream in streams] == [["abort"], ["length"]]
    assert joined[0] == []
    assert sum(chunk.shape[1] for chunk in joined[1]) == 119 * 256


def test_an_interrupt_keeps_what_was_made(small: Chat) -> None:
    with Recording(small) as recording:
        inner = recording.inner

        class Stops:
            def generate(
                self, requests: Sequence[GenerationRequest], cancelled: Cancellation
            ) -> Iterator[list[Delta]]:
                for step, deltas in enumerate(inner.generate(requests, cancelled)):
                    yield deltas
                    if step == 9:
                        small.interrupt()

        small.gpt.engine = Stops()
        waveforms = speak(small, TEXT)
    assert waveforms.finish_reasons == ["abort"]
    assert len(waveforms[0]) == 19 * 256


@pytest.mark.parametrize("use_decoder", [True, False])
@pytest.mark.parametrize("texts", [[TEXT], [TEXT, "one.", "come to the water, come now."]])
def test_a_stream_is_the_same_sound(small: Chat, texts: list[str], use_decoder: bool) -> None:
    params = {**LIVELY, "max_new_token": 150}
    settings = {
        "skip_refine_text": True,
        "use_decoder": use_decoder,
        "params_infer_code": params,
        "max_split_batch": len(texts),
    }
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
def test_a_stream_that_cannot_start_says_so_at_once(small: Chat, wrong: dict) -> None:
    with pytest.raises(ValueError, match=r"speaker string|2 values"):
        small.infer(TEXT, stream=True, skip_refine_text=True, params_infer_code=wrong)


def test_stream_settings_of_scripts(small: Chat) -> None:
    def lengths(**changes: int) -> list[int]:
        params = {**LIVELY, "max_new_token": 200, "min_new_token": 200, **changes}
        stream = small.infer(TEXT, stream=True, skip_refine_text=True, params_infer_code=params)
        return [chunk.shape[1] for chunk in stream]

    total = 399 * 256
    assert sum(lengths()) == total
    sized = lengths(stream_speed=5000)
    assert set(sized[:-1]) == {5000}
    assert sum(sized) == total
    held = lengths(pass_first_n_batches=4)
    assert held[0] >= 4 * 24 * 512
    assert sum(held) == total
    assert len(lengths(stream_batch=8)) > len(lengths(stream_batch=48))


def test_a_stream_that_nobody_finishes_frees_its_work(small: Chat) -> None:
    closed = threading.Event()
    with Recording(small) as recording:
        inner = recording.inner

        class Watched:
            def generate(
                self, requests: Sequence[GenerationRequest], cancelled: Cancellation
            ) -> Iterator[list[Delta]]:
                try:
                    yield from inner.generate(requests, cancelled)
                finally:
                    closed.set()

        small.gpt.engine = Watched()
        stream = small.infer(
            TEXT,
            stream=True,
            skip_refine_text=True,
            params_infer_code={**LIVELY, "min_new_token": 900, "max_new_token": 900},
        )
        next(stream)
        assert not closed.is_set()
        stream.close()
        assert closed.is_set()
    assert list(stream) == []
