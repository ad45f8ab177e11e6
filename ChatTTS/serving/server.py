"""The server: starts all interfaces on one service, and shuts them down in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from importlib import import_module

from ..core import Chat
from ..errors import ConfigError, EngineDeadError
from ..utils.lru import CacheCounts
from ..voices import VoiceLibrary
from .http.auth import Authenticator
from .http.connections import Connections
from .http.listener import bind, connection_limits
from .http.uvicorn_server import serve_http
from .observe.loop_lag import watch_loop
from .observe.metrics import ServerMetrics
from .protocols.rest import create_app
from .protocols.riva.realtime import add_to as add_realtime
from .protocols.websocket import add_to as add_websocket
from .scripts import ScriptJobs
from .settings import Settings
from .speech.first_use import load_readers_and_codecs, open_app
from .speech.idle_model import IdleModel
from .speech.local_model import LocalModel
from .speech.service import SpeechService
from .speech.speech_model import SpeechModel
from .speech.voices import Voices
from .startup import log_memory, reserve, warn_if_open
from .stop_signals import stop_event

logger = logging.getLogger(__name__)

_CLOSING_SECONDS = 0.3  # for gRPC to send its last answers, once all requests are over


def make_service(chat: Chat | SpeechModel, settings: Settings) -> SpeechService:
    """Return the service of a loaded ``Chat``, or of another model.

    Call it in the asyncio loop that will use it.

    Raises:
        EngineUnavailableError: the ``Chat`` was loaded with another engine.
        ConfigError: the settings want a guard, and the times of words are not known.
        VoiceError, UnknownVoiceError: the default voice of the settings cannot be used.
    """
    model = LocalModel(chat) if isinstance(chat, Chat) else chat
    voices = Voices(
        model.config,
        VoiceLibrary(settings.voices),
        default=settings.default_voice,
        fallback=model.fallback,
        most=settings.limits.voices,
        aliases=settings.aliases,
        adapters=model.adapters,
        may_shadow=bool(settings.api_keys) if settings.may_shadow is None else settings.may_shadow,
        takes_unknown=settings.unknown_voice == "default",
    )
    metrics = ServerMetrics()
    if settings.guard is not None and not (model.gives_attention and model.has_alignment_heads):
        raise ConfigError(
            "a guard needs word times, which this checkpoint or its engine does not provide: run "
            "`chattts align`, or leave the guard out"
        )
    service = SpeechService(model, voices, settings, metrics)
    metrics.watch(
        queue=lambda: (service.admission.running, service.admission.waiting),
        engines=model.engines,
        caches=lambda: _caches(service),
    )
    return service


class Server:
    """All interfaces on one service: ``async with Server(chat, settings) as server``.

    At the end of this context, new requests are refused and running ones may finish within
    ``settings.shutdown_seconds``. Then the rest is aborted, and the log says how many.

    Args:
        chat: a ``Chat``, loaded with the velocity engine, or another model; closed at the end.
        settings: of the server.
        bound: the socket of :func:`.startup.reserve`, if that was called before the model was
            loaded.

    Attributes:
        port, grpc_port, wyoming_port: that the server listens on.
    """

    def __init__(
        self, chat: Chat | SpeechModel, settings: Settings, bound: socket.socket | None = None
    ) -> None:
        self.settings = settings
        self._bound = bound
        self.port = settings.port
        self.grpc_port = settings.grpc_port
        self.wyoming_port = settings.wyoming_port
        self._chat = chat
        self._exit = contextlib.AsyncExitStack()

    @property
    def url(self) -> str:
        """URL of REST and the web page."""
        scheme = "http" if self.settings.tls_certificate is None else "https"
        host = self.settings.host
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    async def __aenter__(self) -> Server:
        settings = self.settings
        async with contextlib.AsyncExitStack() as starting:
            bound = reserve(settings) if self._bound is None else self._bound
            starting.callback(bound.close)
            self.service = service = make_service(self._chat, settings)
            starting.callback(service.shut_down_threads)
            lag = asyncio.create_task(watch_loop(service.metrics.observe_loop_lag), name="loop lag")
            starting.callback(lag.cancel)
            authenticator = Authenticator(settings.api_keys)
            self.scripts = scripts = ScriptJobs(service)
            starting.push_async_callback(scripts.close)
            app = create_app(service, authenticator, settings, scripts)
            add_realtime(app, service, authenticator, settings)
            add_websocket(app, service, authenticator, settings)
            for name in settings.protocols:
                vendor = import_module(f".protocols.{name}", __package__)
                vendor.add_to(app, service, authenticator, settings)
            await open_app(app)
            metrics = service.metrics
            most, most_grpc = connection_limits(settings)
            connections = Connections(settings, most=most, closed=metrics.count_closed_connection)
            metrics.watch_connections(lambda: len(connections))
            await starting.enter_async_context(serve_http(app, settings, bound, connections))
            self.port = bound.getsockname()[1]
            if settings.grpc_port is not None:
                from .protocols.riva import serve_grpc

                grpc_server = await serve_grpc(service, authenticator, settings, most_grpc)
                starting.push_async_callback(grpc_server.stop, _CLOSING_SECONDS)
                self.grpc_port = grpc_server.port
            if settings.wyoming_port is not None:
                await self._serve_wyoming(settings.wyoming_port, starting)
            # This runs before the interfaces end, since the last requests still use them.
            starting.push_async_callback(self._finish)
            await service.in_reader_thread(load_readers_and_codecs)
            await service.warm_up()
            await scripts.start()
            if isinstance(service.model, IdleModel):
                watching = asyncio.create_task(service.model.watch(), name="idle model")
                starting.callback(watching.cancel)
            log_memory(service.model.engines(), settings)
            self._exit = starting.pop_all()
        return self

    async def _serve_wyoming(self, port: int, starting: contextlib.AsyncExitStack) -> None:
        from .protocols.wyoming import announced, reachable_addresses, serve_wyoming

        settings = self.settings
        bound = bind(settings.host, port, "--wyoming-port")
        starting.callback(bound.close)
        self.wyoming_port = bound.getsockname()[1]
        most = settings.limits.sockets
        await starting.enter_async_context(serve_wyoming(self.service, settings, bound, most))
        addresses = reachable_addresses(settings.host) if settings.announces else []
        if addresses:
            await starting.enter_async_context(announced(self.wyoming_port, addresses))

    async def __aexit__(self, *error: object) -> None:
        await self._exit.aclose()

    async def _finish(self) -> None:
        await self.scripts.close()
        aborted = await self.service.close(self.settings.shutdown_seconds)
        if aborted:
            logger.warning("%d requests were dropped, as they took too long to finish", aborted)
        else:
            logger.info("all requests have finished")


async def serve(
    chat: Chat | SpeechModel,
    settings: Settings,
    announce: Callable[[Server], None] = lambda server: None,
    bound: socket.socket | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; a second signal ends the server at once.

    Args:
        chat: a ``Chat``, loaded with the velocity engine, or another model; closed at the end.
        settings: of the server.
        announce: called once the server is ready.
        bound: see :class:`Server`.

    Raises:
        EngineDeadError: the engine failed. Every client was told, and the model is unloaded.
    """
    stop = stop_event()
    warn_if_open(settings)
    async with Server(chat, settings, bound) as server:
        service = server.service
        announce(server)
        await _wait_for_any(stop, service.failed)
        if not service.failed.is_set():
            if settings.drain_seconds:
                logger.info("requests are still accepted for %g s", settings.drain_seconds)
                service.start_draining()
                await _wait_for_any(service.failed, seconds=settings.drain_seconds)
            logger.info("shutting down")
    if service.failed.is_set():
        raise EngineDeadError("the engine failed (the log has the cause): restart the server")


async def _wait_for_any(*events: asyncio.Event, seconds: float | None = None) -> None:
    """Wait until one of the events is set, or the time is over."""
    tasks = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _caches(service: SpeechService) -> dict[str, CacheCounts]:
    own = {"result": service.results.counts, "prompt": service.prompts.counts}
    return {**own, **service.model.caches()}
