"""The service behind all interfaces: its threads, its result cache, its shutdown."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from ChatTTS.core import Chat
from ChatTTS.serving.errors import OverloadedError
from ChatTTS.serving.http.auth import Authenticator
from ChatTTS.serving.observe.metrics import RequestRecord
from ChatTTS.serving.protocols.rest import create_app
from ChatTTS.serving.requests.request import SpeechRequest
from ChatTTS.serving.server import make_service
from ChatTTS.serving.settings import Limits, Settings
from ChatTTS.serving.speech.service import SpeechService

from ..support.serving_tools import PATIENCE, loaded_chat

TEXT = "Hello there."
MANY = 20  # more than the service has threads for short work


@pytest.fixture(scope="module")
def chat() -> Iterator[Chat]:
    chat = loaded_chat()
    yield chat
    chat.unload()


def make(chat: Chat, folder: Path, **settings: Any) -> SpeechService:
    return make_service(chat, Settings(voices=folder, **settings))


async def samples(service: SpeechService, seed: int = 7) -> int:
    async with service.speak(SpeechRequest(TEXT, seed=seed)) as speech:
        return sum([len(piece.samples) async for piece in speech])


@pytest.mark.slow
def test_warming_up_leaves_no_trace_in_the_caches(chat: Chat, tmp_path: Path) -> None:
    async def main() -> None:
        service = make(chat, tmp_path)
        try:
            await service.warm_up()
        finally:
            service.shut_down_threads()
        assert service.state == "ready"
        assert service.prompts.counts.misses == 0

    asyncio.run(main())


def test_clients_that_refine_leave_threads_to_clients_that_speak(
    chat: Chat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = threading.Event()

    def slow(*args: Any, **options: Any) -> str:
        assert may_go_on.wait(PATIENCE)
        return TEXT

    async def main() -> None:
        service = make(chat, tmp_path, limits=Limits(running=MANY + 1))
        try:
            with monkeypatch.context() as patch:
                patch.setattr(chat, "infer", slow)
                refined = [
                    asyncio.ensure_future(service.refine(SpeechRequest(TEXT))) for _ in range(MANY)
                ]
                while service.admission.running < MANY:
                    await asyncio.sleep(0)
                try:
                    assert await asyncio.wait_for(samples(service), PATIENCE / 2) > 0
                finally:
                    may_go_on.set()
                assert await asyncio.gather(*refined) == [[TEXT]] * MANY
        finally:
            service.shut_down_threads()

    asyncio.run(main())


def test_clients_that_send_recordings_leave_threads_to_clients_that_speak(
    chat: Chat, tmp_path: Path
) -> None:
    may_go_on = threading.Event()

    async def main() -> None:
        service = make(chat, tmp_path)
        read = [
            asyncio.ensure_future(service.in_reader_thread(lambda: may_go_on.wait(PATIENCE)))
            for _ in range(MANY)
        ]
        try:
            assert await asyncio.wait_for(samples(service), PATIENCE / 2) > 0
        finally:
            may_go_on.set()
            await asyncio.gather(*read)
            service.shut_down_threads()

    asyncio.run(main())


def test_results_are_not_given_by_a_server_that_ends(chat: Chat, tmp_path: Path) -> None:
    async def main() -> None:
        service = make(chat, tmp_path, result_cache_bytes=1 << 20)
        try:
            assert await samples(service) == await samples(service)
            assert service.results.counts.hits == 1
            service.admission.drain()
            with pytest.raises(OverloadedError) as caught:
                await samples(service)
            assert caught.value.draining
        finally:
            service.shut_down_threads()

    asyncio.run(main())


def test_a_text_behind_a_kept_result_continues_its_numbers(chat: Chat, tmp_path: Path) -> None:
    async def main() -> None:
        service = make(chat, tmp_path, result_cache_bytes=1 << 20)
        request = SpeechRequest(TEXT, seed=7, first_utterance=3)
        numbers = []
        try:
            for _ in range(2):
                async with service.speak(request) as speech:
                    numbers.append(speech.next_utterance)
                    assert [piece async for piece in speech]
                    numbers.append(speech.next_utterance)
            assert service.results.counts.hits == 1
            assert numbers == [4] * 4
        finally:
            service.shut_down_threads()

    asyncio.run(main())


@pytest.mark.slow
def test_a_stream_that_ends_between_two_utterances_is_incomplete(
    chat: Chat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        service = make(chat, tmp_path, result_cache_bytes=1 << 20)
        try:
            async with service.speak(SpeechRequest(TEXT, seed=7)) as speech:
                pieces = [piece async for piece in speech]
            assert pieces[-1].finish_reason == speech.finish_reason == "stop"
            # The next utterance of a longer text is aborted before its first sample.
            request = SpeechRequest(f"{TEXT} It is very late now.", seed=7)
            async with service.speak(request) as speech:
                assert speech._stream is not None
                monkeypatch.setattr(type(speech._stream), "finish_reason", "abort")
                async for piece in speech:
                    assert piece.finish_reason in (None, "stop")
            assert speech.finish_reason == "abort"
            assert service.results.counts.size == 1
        finally:
            service.shut_down_threads()

    asyncio.run(main())


def test_a_batch_that_was_taken_is_spoken_wholly(chat: Chat, tmp_path: Path) -> None:
    async def main() -> None:
        service = make(chat, tmp_path, limits=Limits(running=1))
        app = create_app(service, Authenticator(()), service.settings)
        batch = {"items": [{"input": TEXT}] * 3, "response_format": "pcm"}
        try:
            async with httpx.AsyncClient(
                transport=httpx.ASGITransport(app), base_url="http://localhost"
            ) as client:
                asked = asyncio.ensure_future(client.post("/v1/audio/speech/batch", json=batch))
                while not service.admission.running:
                    await asyncio.sleep(0)
                service.admission.drain()
                results = (await asked).json()["data"]
                assert [result["error"] for result in results] == [None] * 3
                late = (await client.post("/v1/audio/speech/batch", json=batch)).json()["data"]
                assert {result["error"]["code"] for result in late} == {"shutting_down"}
        finally:
            service.shut_down_threads()

    asyncio.run(main())


def test_a_stream_that_is_not_read_gives_its_place_and_goes_on_later(
    chat: Chat, tmp_path: Path
) -> None:
    text = "It was very cold last night. There was snow on the road."

    async def main() -> None:
        service = make(chat, tmp_path, limits=Limits(running=1, wait_seconds=PATIENCE))
        admission = service.admission
        admission.limits = dataclasses.replace(admission.limits, stalled_seconds=0.05)
        try:
            async with service.speak(SpeechRequest(text, seed=7)) as slow:
                heard = [await anext(slow)]
                # All places are taken by a client that reads no more: another one is spoken.
                assert await asyncio.wait_for(samples(service), PATIENCE)
                heard += [piece async for piece in slow]
            assert slow.finish_reason == "stop"
            sound = np.concatenate([piece.samples for piece in heard])
            assert [piece.position for piece in heard[1:]] == list(
                np.cumsum([len(piece.samples) for piece in heard])[:-1]
            )
            params = service.voices.parameters(None) | {"manual_seed": 7}
            whole = chat.infer(text, skip_refine_text=True, params_infer_code=params)[0]
            np.testing.assert_array_equal(sound, whole)
            assert (admission.running, admission.waiting) == (0, 0)
        finally:
            service.shut_down_threads()

    asyncio.run(main())


def test_a_stream_that_gave_way_ends_with_its_server(chat: Chat, tmp_path: Path) -> None:
    async def main() -> None:
        service = make(chat, tmp_path, limits=Limits(running=1))
        limits = dataclasses.replace(service.admission.limits, stalled_seconds=0.05)
        service.admission.limits = limits
        async with service.speak(SpeechRequest(TEXT * 20, seed=7)) as slow:
            await anext(slow)
            await samples(service)
            slow.abort()
            with pytest.raises(StopAsyncIteration):
                await anext(slow)
        assert slow.finish_reason == "abort"
        service.shut_down_threads()

    asyncio.run(main())


def test_a_faster_tempo_needs_the_samples_sooner() -> None:
    now = 0.0
    record = RequestRecord(SpeechRequest(TEXT, speed=2.0), clock=lambda: now)
    record.add_samples(24_000)  # half a second at this tempo
    now = 0.4
    record.add_samples(2_400)
    assert record.underruns == 0
    now = 0.7
    record.add_samples(2_400)
    assert record.underruns == 1
