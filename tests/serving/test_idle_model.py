"""A model that is unloaded while there are no requests, and loaded again by the next one."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ChatTTS.errors import AssetError
from ChatTTS.model.velocity.metrics import Metrics
from ChatTTS.serving.errors import UnavailableError
from ChatTTS.serving.observe.engine_metrics import ENGINE_METRICS, EngineState
from ChatTTS.serving.requests.jobs import SpeechJob
from ChatTTS.serving.speech import idle_model
from ChatTTS.serving.speech.idle_model import IdleModel
from ChatTTS.serving.speech.local_model import LocalModel

from ..support.script_tools import ToneModel
from ..support.serving_tools import PATIENCE, brief_chat

JOB = SpeechJob("hello", {}, {}, seed=1)


class Loaded(ToneModel):
    """A model that counts, and knows whether it is closed."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number, self.is_closed = number, False
        self.chat: Any = self
        self.speaker = self._speaker

    def metrics(self) -> Metrics:
        return Metrics(generated_tokens=10, running=self.running, blocks=7)

    def fingerprint(self) -> str:
        return f"weights {self.number}"

    def engines(self) -> list[EngineState]:
        return [EngineState(self.metrics())]

    def close(self) -> None:
        super().close()
        self.is_closed = True


class Loads:
    """Makes an :class:`IdleModel`, and loads what it asks for.

    Attributes:
        models: that were loaded.
        fails: the error of the next loading.
        may_load: loading waits for it.
    """

    def __init__(self) -> None:
        self.models = [Loaded(0)]
        self.fails: Exception | None = None
        self.may_load = threading.Event()
        self.may_load.set()
        self.now = 0.0
        first: Any = self.models[0]
        load: Any = self.load
        self.idle = IdleModel(first, load, 30.0, lambda: self.now)

    def load(self) -> Loaded:
        assert self.may_load.wait(PATIENCE)
        if self.fails is not None:
            raise self.fails
        self.models.append(Loaded(len(self.models)))
        return self.models[-1]

    async def speak(self) -> None:
        stream = await self.idle.open_stream(JOB, threading.Event())
        try:
            await stream.__anext__()
        finally:
            stream.close()

    def unload(self) -> None:
        self.now += 30
        assert self.idle.unload_if_idle()


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Loads:
    """Its models are small, and a full collection of the tests' objects takes long."""
    monkeypatch.setattr(idle_model, "return_free_memory", lambda: None)
    return Loads()


def test_only_an_idle_model_is_unloaded_and_the_next_request_loads_it(loads: Loads) -> None:
    async def speak_and_wait() -> None:
        stream = await loads.idle.open_stream(JOB, threading.Event())
        loads.now += 100
        assert not loads.idle.unload_if_idle()  # a listener still plays
        await stream.__anext__()
        stream.close()
        stream.close()
        assert not loads.idle.unload_if_idle()  # it ended just now

    asyncio.run(speak_and_wait())
    loads.unload()
    assert loads.models[0].is_closed
    assert (loads.idle.is_loaded, loads.idle.unrecorded) == (False, 0)
    assert not loads.idle.unload_if_idle()
    asyncio.run(loads.speak())
    loads.models[1].unrecorded = 3
    assert (loads.idle.is_loaded, loads.idle.unrecorded) == (True, 3)
    assert len(loads.models) == 2


def test_all_that_wait_get_one_model(loads: Loads) -> None:
    async def many() -> None:
        loads.may_load.clear()
        speaking = asyncio.gather(*(loads.speak() for _ in range(20)))
        await asyncio.sleep(0.02)
        loads.may_load.set()
        await asyncio.wait_for(speaking, PATIENCE)

    loads.unload()
    asyncio.run(many())
    assert len(loads.models) == 2
    assert len(loads.models[1].jobs) == 20
    loads.unload()


def test_a_client_that_leaves_while_it_is_loaded_does_not_keep_it(loads: Loads) -> None:
    async def leave() -> None:
        loads.may_load.clear()
        task = asyncio.create_task(loads.speak())
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        loads.may_load.set()
        await asyncio.get_running_loop().shutdown_default_executor()
        await asyncio.sleep(0)

    loads.unload()
    asyncio.run(leave())
    loads.unload()


def test_a_model_that_cannot_be_loaded_is_tried_again(loads: Loads) -> None:
    loads.unload()
    loads.fails = AssetError("the disk is gone")
    with pytest.raises(UnavailableError, match="the log says why") as caught:
        asyncio.run(loads.speak())
    assert caught.value.retry_after
    loads.fails = None
    asyncio.run(loads.speak())
    loads.unload()
    loads.idle.close()
    with pytest.raises(UnavailableError, match="shuts down"):
        asyncio.run(loads.speak())


def test_those_that_wait_for_a_loading_that_fails_do_not_try_again(loads: Loads) -> None:
    tries = 0

    def load() -> Loaded:
        nonlocal tries
        tries += 1
        assert loads.may_load.wait(PATIENCE)
        raise AssetError("the disk is gone")

    async def many() -> list[BaseException | None]:
        loads.may_load.clear()
        speaking = asyncio.gather(*(loads.speak() for _ in range(8)), return_exceptions=True)
        await asyncio.sleep(0.05)
        loads.may_load.set()
        return await asyncio.wait_for(speaking, PATIENCE)

    loads.unload()
    loads.idle._load = load  # type: ignore[assignment]
    assert {type(error) for error in asyncio.run(many())} == {UnavailableError}
    assert tries < 8


def test_a_model_that_cannot_be_closed_is_left(loads: Loads) -> None:
    def fails() -> None:
        raise RuntimeError("the device is gone")

    loads.models[0].close = fails  # type: ignore[method-assign]
    loads.unload()
    asyncio.run(loads.speak())
    assert len(loads.models) == 2


def test_counts_go_on_and_the_state_is_the_present_one(loads: Loads) -> None:
    def shown() -> dict[str, float]:
        engines = loads.idle.engines()
        names = ("chattts_engines", "chattts_engine_tokens_total", "chattts_kv_blocks")
        return {each.name: each.over(engines) for each in ENGINE_METRICS if each.name in names}

    assert list(shown().values()) == [1, 7, 10]
    loads.unload()
    assert list(shown().values()) == [0, 0, 10]
    asyncio.run(loads.speak())
    assert list(shown().values()) == [1, 7, 20]
    loads.unload()
    assert list(shown().values()) == [0, 0, 20]


def test_the_fingerprint_is_that_of_the_weights_that_speak(loads: Loads) -> None:
    assert loads.idle.fingerprint() == "weights 0"
    loads.unload()
    assert loads.idle.fingerprint() == "weights 0"
    assert not loads.idle.is_loaded
    asyncio.run(loads.speak())
    assert loads.idle.fingerprint() == "weights 1"


def test_voices_are_checked_without_loading(loads: Loads) -> None:
    loads.unload()
    loads.idle.interrupt()
    assert loads.idle.caches() == {}
    assert loads.idle.config == loads.models[0].config
    with pytest.raises(Exception, match="speaker"):
        loads.idle.check_speaker("nonsense")
    assert not loads.idle.is_loaded


@pytest.mark.slow
def test_the_sound_is_that_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = IdleModel(LocalModel(brief_chat()), lambda: LocalModel(brief_chat()), 1e-9)

    async def sound() -> list[np.ndarray[Any, Any]]:
        job = replace(JOB, sampling={"manual_seed": 1})
        stream = await idle.open_stream(job, threading.Event())
        pieces = []
        try:
            while True:
                pieces.append((await stream.__anext__()).samples)
        except StopAsyncIteration:
            return pieces
        finally:
            stream.close()

    before = np.concatenate(asyncio.run(sound()))
    assert idle.unload_if_idle()
    again = np.concatenate(asyncio.run(sound()))
    idle.close()
    assert len(before) > 1000
    assert np.array_equal(before, again)
