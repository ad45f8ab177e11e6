"""Replicas in this process, with the bundled voice: what they send, and streams that go on."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ChatTTS.checkpoints import assets
from ChatTTS.core import Chat
from ChatTTS.errors import EngineDeadError, NothingToSpeakError
from ChatTTS.model.kernels.cpu.build import BuildError
from ChatTTS.pipeline.results import Piece
from ChatTTS.serving.replicas import worker
from ChatTTS.serving.replicas.failover import FailoverStream, Patience
from ChatTTS.serving.replicas.messages import Alive, Ended, Failed, Fingerprint, Message, Opened
from ChatTTS.serving.replicas.pool import ReplicaLostError
from ChatTTS.serving.replicas.worker import Replica, fingerprint_of, with_signs_of_life
from ChatTTS.serving.requests.jobs import RefineJob, SpeechJob
from ChatTTS.serving.speech.local_model import open_stream

from ...support.bundled_voice import UNKNOWN
from ...support.serving_tools import eventually, loaded_chat

SHORT = {"manual_seed": 3, "max_new_token": 30}


@pytest.fixture(scope="module")
def chat() -> Iterator[Chat]:
    chat = loaded_chat()
    yield chat
    chat.unload()


@pytest.fixture(scope="module")
def fingerprint(chat: Chat) -> Fingerprint:
    return fingerprint_of(chat, assets.locate("bundled"))


@pytest.fixture
def replica(chat: Chat, fingerprint: Fingerprint) -> Replica:
    return Replica(chat, fingerprint, "first")


@pytest.fixture
def job(chat: Chat) -> SpeechJob:
    voice = {"spk_emb": chat.config.defaults.speakers["edith"]}
    return SpeechJob("We went home. It was late.", voice, SHORT, 3, low_latency=True)


async def messages_of(replica: Replica, job: SpeechJob) -> list[Message]:
    return [message async for message in replica.speak(job)]


@pytest.mark.slow
def test_a_replica_sends_the_whole_stream(replica: Replica, job: SpeechJob, chat: Chat) -> None:
    with open_stream(chat, job, threading.Event()) as stream:
        expected = b"".join(piece.samples.tobytes() for piece in stream)
        reason = stream.finish_reason
    opened, *pieces, ended = asyncio.run(messages_of(replica, job))
    assert isinstance(opened, Opened)
    assert isinstance(ended, Ended)
    assert b"".join(p.samples.tobytes() for p in pieces if isinstance(p, Piece)) == expected
    assert ended.finish_reason == reason
    assert len(opened.utterances) == len(stream.utterances)
    assert opened.state.replica == ended.state.replica == replica.name
    assert ended.state.metrics.steps > opened.state.metrics.steps
    travelled = pickle.loads(pickle.dumps([job, opened, *pieces, ended]))
    assert travelled[0] == job
    assert travelled[1] == opened


class Dying:
    """A pool of one replica whose process is gone after so many messages of the first calls."""

    def __init__(self, replica: Replica, *cuts: int) -> None:
        self._replica, self._cuts = replica, list(cuts)

    async def speak(self, job: SpeechJob) -> AsyncGenerator[Message, None]:
        cut = self._cuts.pop(0) if self._cuts else None
        async with aclosing(self._replica.speak(job)) as messages:
            count = 0
            async for message in messages:
                if count == cut:
                    raise ReplicaLostError("the process is gone")
                yield message
                count += 1


@pytest.mark.slow
@pytest.mark.parametrize("cuts", [(0,), (1,), (2,), (3, 2)])
def test_a_stream_of_the_model_goes_on(
    replica: Replica, job: SpeechJob, cuts: tuple[int, ...]
) -> None:
    async def main(pool: Any) -> tuple[bytes, int]:
        stream = FailoverStream(job, pool, Patience(pause=0), lambda state: None)
        await stream.open()
        heard = b"".join([piece.samples.tobytes() async for piece in stream])
        return heard, stream.lost

    undisturbed, none = asyncio.run(main(Dying(replica)))
    assert none == 0
    assert asyncio.run(main(Dying(replica, *cuts))) == (undisturbed, len(cuts))


def test_a_slow_stream_shows_that_it_is_alive() -> None:
    async def slow() -> AsyncGenerator[int, None]:
        yield 1
        await asyncio.sleep(0.05)
        yield 2

    async def main() -> tuple[list[Any], bool]:
        pieces: Any = slow()
        got = [item async for item in with_signs_of_life(pieces, 0.01)]
        left: Any = slow()
        messages = with_signs_of_life(left, 0.01)
        for _ in range(2):
            await messages.__anext__()  # now it waits
        await messages.aclose()
        return got, left.ag_frame is None

    got, is_closed = asyncio.run(main())
    assert [item for item in got if not isinstance(item, Alive)] == [1, 2]
    assert isinstance(got[1], Alive)
    assert is_closed


def test_errors_travel_as_messages(
    replica: Replica, job: SpeechJob, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    [failed] = asyncio.run(messages_of(replica, replace(job, text="!!!")))
    assert isinstance(failed, Failed)
    assert failed.kind == "NothingToSpeakError"
    [failed] = asyncio.run(messages_of(replica, replace(job, text=UNKNOWN)))
    assert isinstance(failed, Failed)
    error = failed.error()
    assert isinstance(error, NothingToSpeakError)
    assert (error.left_out, error.languages) == (tuple(UNKNOWN), ("en", "zh"))
    assert str(error) == failed.message
    [opened, *_] = asyncio.run(messages_of(replica, replace(job, text=f"{UNKNOWN} We went.")))
    assert isinstance(opened, Opened)
    assert opened.left_out == tuple(UNKNOWN)
    [failed] = asyncio.run(messages_of(replica, replace(job, voice={"spk_emb": "no voice"})))
    assert isinstance(failed, Failed)
    assert failed.kind == "VoiceError"
    refused = replica.refine(RefineJob("!!!", {}), threading.Event())
    assert isinstance(refused, Failed)
    silent = replica.encode_sample(np.zeros(48_000, dtype=np.float32), 24_000)
    assert isinstance(silent, Failed)
    assert silent.kind == "AudioError"

    def dead(*args: Any, **options: Any) -> Any:
        raise EngineDeadError("a step failed")

    monkeypatch.setattr(chat, "stream", dead)
    [failed] = asyncio.run(messages_of(replica, job))
    assert isinstance(failed, Failed)
    assert failed.is_of_replica


def test_a_listener_that_leaves_ends_the_generation(
    replica: Replica, job: SpeechJob, chat: Chat
) -> None:
    long = replace(job, text=job.text * 20, sampling={"manual_seed": 3}, low_latency=False)

    def is_idle() -> bool:
        metrics = replica.state().metrics
        return metrics.running + metrics.waiting + metrics.used_blocks == 0

    async def main() -> None:
        messages = replica.speak(long)
        assert isinstance(await messages.__anext__(), Opened)
        await messages.__anext__()
        assert not is_idle()
        await messages.aclose()
        leaving = asyncio.ensure_future(messages_of(replica, long))
        await asyncio.sleep(0)  # the stream is being opened
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving

    asyncio.run(main())
    assert eventually(is_idle)


def test_replicas_without_a_name_differ(chat: Chat, fingerprint: Fingerprint) -> None:
    assert len({Replica(chat, fingerprint).name for _ in range(2)}) == 2


def test_a_check_of_health_goes_through_the_engine(
    replica: Replica, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert replica.state().replica == replica.name == "first"
    steps = replica.state().metrics.steps
    replica.check_health()
    assert replica.state().metrics.steps > steps

    def dead(*args: Any) -> Any:
        raise EngineDeadError("a step failed")

    engine: Any = chat.gpt.engine
    monkeypatch.setattr(engine.engine, "submit", dead)
    with pytest.raises(EngineDeadError):
        replica.check_health()


def test_fingerprints_tell_what_computes(
    chat: Chat, fingerprint: Fingerprint, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = assets.locate("bundled")
    assert fingerprint_of(chat, folder) == fingerprint
    assert fingerprint.dtype == "float32"
    assert len(fingerprint.checkpoint) == 64

    def none() -> Any:
        raise BuildError("no compiler")

    monkeypatch.setattr(worker, "load_kernels", none)
    monkeypatch.setattr(worker, "cpu_features", lambda: ["avx2"])
    other = fingerprint_of(chat, folder)
    assert other.kernels == "torch"
    assert len(fingerprint.differences(other)) == 2
    assert not other.differences(copy.copy(other))
