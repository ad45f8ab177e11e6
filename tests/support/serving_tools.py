"""A server for tests: the bundled voice on the velocity engine, on a free port of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import uvicorn
from fastapi import FastAPI
from numpy.typing import NDArray

from ChatTTS.core import Chat
from ChatTTS.params import InferCodeParams
from ChatTTS.serving.http.auth import Authenticator
from ChatTTS.serving.protocols.rest.app import create_app
from ChatTTS.serving.scripts import ScriptJobs
from ChatTTS.serving.server import make_service
from ChatTTS.serving.settings import Settings
from ChatTTS.serving.speech.local_model import LocalModel
from ChatTTS.serving.speech.service import SpeechService

T = TypeVar("T")

# Adds routes to the app, such as those of WebSockets.
Extend = Callable[[FastAPI, SpeechService, Authenticator, Settings], None]

PATIENCE = 120.0  # seconds; more than any call needs, even on a busy machine


@dataclass
class Brief(InferCodeParams):
    """Parameters for utterances of at most 0.4 seconds, which cost little."""

    max_new_token: int = 20


class RunningServer:
    """A server in a thread of its own.

    Attributes:
        url: URL of its root, without a slash at the end.
        service: belongs to the server's loop; use :meth:`run` for more than reading attributes.
        scripts: the jobs of its scripts; so do they.
        settings: its settings.
        loop: its asyncio loop.
    """

    def __init__(
        self,
        url: str,
        service: SpeechService,
        scripts: ScriptJobs,
        settings: Settings,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.url, self.service, self.scripts = url, service, scripts
        self.settings, self.loop = settings, loop

    @property
    def address(self) -> str:
        """The host and port of the server."""
        return self.url.partition("://")[2]

    @property
    def chat(self) -> Chat:
        """The service's ``Chat``, for calls that bypass the server."""
        model = self.service.model
        assert isinstance(model, LocalModel)
        return model.chat

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine that runs in the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE)

    def call(self, work: Callable[[], T]) -> T:
        """Return the result of a function that is called in the server's loop."""

        async def called() -> T:
            return work()

        return self.run(called())

    def offline(self, text: str, seed: int, voice: str | None = None) -> NDArray[np.float32]:
        """Return the waveform (n,) that ``infer`` gives for a request without the refine pass."""
        params = self.service.voices.parameters(voice) | {"manual_seed": seed}
        waveforms = self.chat.infer(text, skip_refine_text=True, params_infer_code=params)
        waveform: NDArray[np.float32] = waveforms[0]
        return waveform

    def becomes_idle(self) -> bool:
        """Wait until nothing runs or waits and no block is held; return whether it came so."""
        return eventually(lambda: not self.busy())

    def busy(self) -> dict[str, int]:
        """Return the counts of what is in use now; empty when nothing is."""
        metrics = self.chat.gpt.engine.engine.metrics()  # type: ignore[attr-defined]
        admission = self.service.admission
        held = {
            "running": admission.running,
            "waiting": admission.waiting,
            "sequences": metrics.running + metrics.waiting + metrics.swapped,
            "blocks": metrics.used_blocks,
        }
        return {name: count for name, count in held.items() if count}


def eventually(condition: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Wait until ``condition`` holds; return whether it did in time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


@contextlib.contextmanager
def running_server(
    *,
    extend: Sequence[Extend] = (),
    warm: bool = True,
    chat: Chat | None = None,
    brief: bool = True,
    **settings: Any,
) -> Iterator[RunningServer]:
    """Run a server within this context.

    Args:
        extend: functions that add routes to its app.
        warm: whether it is ready when the context begins.
        chat: speaks, and stays loaded at the end; by default one of its own, which is unloaded.
        brief: whether that cuts its utterances short.
        settings: fields of ``Settings``; the voices are in a folder that is deleted at the end.
    """
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        scripts = stack.enter_context(tempfile.TemporaryDirectory())
        folders = {"voices": Path(folder), "scripts": Path(scripts)}
        chosen = Settings(**{"port": 0, "grpc_port": None, **folders, **settings})
        speaker = chat
        if speaker is None:
            speaker = brief_chat() if brief else loaded_chat()
            stack.callback(speaker.unload)
        thread = _ServerThread(speaker, chosen, extend, warm)
        thread.start()
        stack.callback(thread.end)
        yield thread.running()


def loaded_chat() -> Chat:
    """Return the bundled voice on the velocity engine, in float32.

    It uses one thread: test processes run in parallel, and threads on one core wait for each other.
    """
    chat = Chat()
    chat.load_or_raise("bundled", device="cpu", use_vllm=True, num_threads=1)
    return chat


def brief_chat() -> Chat:
    """Return what :func:`loaded_chat` does, with utterances that are cut short.

    What interfaces do with sound does not depend on its length. The result cache keeps nothing
    that was cut.
    """
    chat = loaded_chat()
    chat.InferCodeParams = Brief
    return chat


def with_limits(**limits: Any) -> dict[str, Any]:
    """Return the setting ``limits`` with these fields, and defaults for the others."""
    return {"limits": dataclasses.replace(Settings().limits, **limits)}


class _ServerThread(threading.Thread):
    """Runs uvicorn in an asyncio loop of its own."""

    def __init__(
        self, chat: Chat, settings: Settings, extend: Sequence[Extend], warm: bool
    ) -> None:
        super().__init__(name="server", daemon=True)
        self._chat, self._settings, self._extend, self._warm = chat, settings, extend, warm
        self._server: uvicorn.Server | None = None
        self._running: RunningServer | None = None
        self._error: BaseException | None = None
        self._settled = threading.Event()

    def run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # raised in the thread that waits
            self._error = error
        finally:
            self._settled.set()

    def running(self) -> RunningServer:
        """Return the server, as soon as it answers."""
        assert self._settled.wait(PATIENCE), "the server did not start"
        if self._running is None:
            raise RuntimeError("the server did not start") from self._error
        return self._running

    def end(self) -> None:
        """Stop it."""
        if self._server is not None:
            self._server.should_exit = True
        self.join(PATIENCE)
        assert not self.is_alive(), "the server did not stop"
        if self._error is not None:
            raise self._error

    async def _serve(self) -> None:
        settings, chat = self._settings, self._chat
        service = make_service(chat, settings)
        authenticator = Authenticator(settings.api_keys)
        scripts = ScriptJobs(service)
        app = create_app(service, authenticator, settings, scripts)
        for add in self._extend:
            add(app, service, authenticator, settings)
        if self._warm:
            await service.warm_up()
        await scripts.start()
        config = uvicorn.Config(
            app, host=settings.host, port=settings.port, log_level="warning", lifespan="off",
            timeout_graceful_shutdown=2,
        )  # fmt: skip
        self._server = server = uvicorn.Server(config)
        # Signals are the test runner's.
        server.capture_signals = contextlib.nullcontext  # type: ignore[assignment,method-assign]
        task = asyncio.create_task(server.serve())
        while not server.started and not task.done():
            await asyncio.sleep(0.005)
        if server.started:
            port = server.servers[0].sockets[0].getsockname()[1]
            url = f"http://{settings.host}:{port}"
            self._running = RunningServer(
                url, service, scripts, settings, asyncio.get_running_loop()
            )
        self._settled.set()
        await task
        await scripts.close()
