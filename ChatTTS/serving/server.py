"""Starts all interfaces on one service, and ends them in good order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import torch
import uvicorn
from fastapi import FastAPI

from ..core import Chat
from ..errors import ConfigError, EngineUnavailableError, NotLoadedError
from ..lru import CacheCounts
from ..model.velocity.async_llm_engine import AsyncLLMEngine
from ..model.velocity.generator import VelocityGenerator
from ..voices import VoiceLibrary
from .auth import Gate
from .measures import Measures
from .rest import create_app
from .riva import GrpcServer, serve_grpc
from .service import SpeechService
from .settings import Settings
from .voices import Voices
from .websocket import add_to as add_websocket

logger = logging.getLogger(__name__)

# Draws the voice of a checkpoint that brings none: the same on every start.
_FALLBACK_SEED = 2
_CLOSING_SECONDS = 2.0  # for connections that are idle, once all requests are over


def make_service(chat: Chat, settings: Settings) -> SpeechService:
    """The service of a loaded ``Chat``; call it in the asyncio loop that it is for.

    Raises:
        EngineUnavailableError: it was loaded with another engine.
        VoiceError, UnknownVoiceError: the default voice of the settings cannot be used.
    """
    voices = Voices(
        chat.config,
        VoiceLibrary(settings.voices),
        default=settings.default_voice,
        fallback=_fallback(chat),
        most=settings.limits.voices,
    )
    measures = Measures()
    service = SpeechService(chat, voices, settings, measures)
    measures.watch(
        queue=lambda: (service.admission.running, service.admission.waiting),
        engine=_engine(chat).metrics,
        caches=lambda: _caches(service),
    )
    return service


def make_app(service: SpeechService, gate: Gate, settings: Settings) -> FastAPI:
    """REST, WebSocket and the page."""
    app = create_app(service, gate, settings)
    add_websocket(app, service, gate, settings)
    return app


class Server:
    """All interfaces on one service: ``async with Server(chat, settings) as server``.

    Leaving it ends it in good order: nothing new is taken, what runs may finish within
    ``settings.shutdown_seconds``, the rest is dropped and the log says how much.

    Attributes:
        port, grpc_port: that are listened on.
    """

    def __init__(self, chat: Chat, settings: Settings) -> None:
        self.settings = settings
        self.port = settings.port
        self.grpc_port = settings.grpc_port
        self._chat = chat
        self._exit = contextlib.AsyncExitStack()

    @property
    def url(self) -> str:
        """Of REST and the page."""
        scheme = "http" if self.settings.tls_certificate is None else "https"
        host = self.settings.host
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    async def __aenter__(self) -> Server:
        settings = self.settings
        self.service = service = make_service(self._chat, settings)
        gate = Gate(settings.api_keys)
        async with contextlib.AsyncExitStack() as starting:
            starting.callback(service.end)
            app = make_app(service, gate, settings)
            self.port = await starting.enter_async_context(_http(app, settings))
            if settings.grpc_port is not None:
                grpc_server = await serve_grpc(service, gate, settings)
                starting.push_async_callback(_stop, grpc_server)
                self.grpc_port = grpc_server.port
            # Before the interfaces end: their last requests still use them.
            starting.push_async_callback(self._finish)
            await service.warm_up()
            self._exit = starting.pop_all()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._exit.aclose()

    async def _finish(self) -> None:
        dropped = await self.service.close(self.settings.shutdown_seconds)
        if dropped:
            logger.warning("%d requests were dropped, as they took too long to finish", dropped)
        else:
            logger.info("all requests were finished")


async def serve(
    chat: Chat, settings: Settings, announce: Callable[[Server], None] = lambda server: None
) -> None:
    """Serve until SIGINT or SIGTERM; a second signal ends it at once.

    Args:
        announce: called once requests are welcome.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None

    def stopped() -> None:
        if stop.is_set():
            task.cancel()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stopped)
        except NotImplementedError:  # Windows: Ctrl-C raises KeyboardInterrupt instead
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stopped))
    async with Server(chat, settings) as server:
        announce(server)
        await stop.wait()
        logger.info("shutting down")


class _Uvicorn(uvicorn.Server):
    """uvicorn without signal handlers: :func:`serve` has its own."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def _http(app: FastAPI, settings: Settings) -> AsyncIterator[int]:
    """Serve ``app``; gives the port."""
    _check_tls(settings)
    listening = _listen(settings.host, settings.port)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        # Else everybody on this machine could say that he is somebody else.
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        ws_max_size=settings.limits.message_bytes,
        # A ping waits behind the sound that a client has not read yet, which may be minutes of it.
        ws_ping_timeout=settings.limits.idle_seconds,
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
        timeout_graceful_shutdown=int(_CLOSING_SECONDS),
    )
    server = _Uvicorn(config)
    running = asyncio.create_task(server.serve(sockets=[listening]), name="http")
    try:
        while not server.started and not running.done():
            await asyncio.sleep(0.01)
        if running.done():
            running.result()
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        await running
        listening.close()


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens; an error names the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except (OSError, OverflowError) as error:  # the latter: no such port can be
        listening.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"cannot listen on {host}:{port} ({reason}); choose another --port, or another --host"
        ) from error
    return listening


def _check_tls(settings: Settings) -> None:
    """Raise ConfigError if the certificate and its key cannot be used."""
    certificate, key = settings.tls_certificate, settings.tls_key
    if certificate is None:
        return
    try:
        # An empty password, as OpenSSL would ask on the terminal for that of a locked key.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except OSError as error:
        raise ConfigError(
            f"TLS cannot use the certificate {certificate} with the key {key} "
            f"({error.strerror or error}); name files in PEM that belong together, the key without "
            "a password"
        ) from error


async def _stop(server: GrpcServer) -> None:
    await server.stop(_CLOSING_SECONDS)


def _engine(chat: Chat) -> AsyncLLMEngine:
    generator = chat.gpt.engine
    if not isinstance(generator, VelocityGenerator):
        raise EngineUnavailableError(
            "the server needs the velocity engine: load the model with use_vllm=True"
        )
    return generator.engine


def _fallback(chat: Chat) -> str | None:
    """A speaker string for checkpoints that bring no voice."""
    if chat.config.defaults.speakers or not chat.config.spk_stat:
        return None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_FALLBACK_SEED)
        return chat.sample_random_speaker()


def _caches(service: SpeechService) -> dict[str, CacheCounts]:
    known = {"result": service.results.counts, "prompt": service.prompts.counts}
    with contextlib.suppress(NotLoadedError):  # while the server ends
        known |= service.chat.voice_caches
    return known
