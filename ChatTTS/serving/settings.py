"""Every setting of the server."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import ConfigError

MEBI = 1 << 20
_PRINTABLE = re.compile("[!-~]+")


@dataclass(frozen=True)
class Limits:
    """How much the server takes at a time.

    Attributes:
        running: requests that are spoken side by side.
        waiting: requests that wait for their turn, of all clients.
        waiting_per_client: of one client.
        wait_seconds: that a request waits at most.
        ageing_seconds: after which a batch request counts as an interactive one.
        characters: of a text.
        batch_items: texts of a batch request.
        upload_bytes: of a recording.
        message_bytes: of a WebSocket or gRPC message, and of the body of a REST request; a
            recording may come on top.
        contexts: of a WebSocket.
        connections: of HTTP and WebSocket at a time, and as many of gRPC; fewer where the process
            may not open so many files.
        connections_per_address: of one address; this machine and trusted proxies may have all.
        sockets: WebSockets at a time.
        head_seconds: in which a connection must have sent the head of its next request.
        body_seconds: in which a request's body must have come.
        idle_seconds: after which a WebSocket or gRPC stream is closed that says or takes nothing.
        stalled_seconds: after which a REST client that takes nothing of a stream is cut off.
        voices: uploaded voices that are kept.
        prompts: recordings of requests that need not be encoded again; their strings are 15 kB for
            half a minute.
    """

    running: int = 16
    waiting: int = 64
    waiting_per_client: int = 32
    wait_seconds: float = 30.0
    ageing_seconds: float = 10.0
    characters: int = 10_000
    batch_items: int = 64
    upload_bytes: int = 10 * MEBI
    message_bytes: int = MEBI
    contexts: int = 8
    connections: int = 1000
    connections_per_address: int = 100
    sockets: int = 256
    head_seconds: float = 10.0
    body_seconds: float = 60.0
    idle_seconds: float = 300.0
    stalled_seconds: float = 60.0
    voices: int = 1000
    prompts: int = 256

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ConfigError(f"{name} must be above 0, not {value!r}")


@dataclass(frozen=True)
class Settings:
    """Where and how the server runs.

    Attributes:
        host, port: of REST, WebSocket and the page; port 0 takes any that is free.
        grpc_port: of gRPC on the same host; ``None`` does without.
        default_voice: of requests that name none; the checkpoint's own without one.
        voices: folder of the voices; the user's library by default.
        api_keys: who may ask, all of them strangers to one another; nobody is asked for a key
            where there are none.
        needs_keys: true refuses to start without keys; false says that it is meant to be open to
            every machine that reaches it; ``None`` warns, unless it listens to this machine alone.
        tls_certificate, tls_key: files in PEM; both or none.
        cors_origins: pages of other hosts that may ask, or ``*``.
        names: by which the server is called, beside those of this machine, where a proxy stands
            before it.
        trusted_proxies: addresses of proxies that are believed about whom they speak for.
        result_cache_bytes: of finished speech that is kept for identical requests with a seed; 0
            keeps none.
        drain_seconds: at the end, in which ``/ready`` says no and requests are still taken: so that
            a balancer sends them elsewhere in time.
        shutdown_seconds: that running requests may take to finish after that.
        log_texts: whether texts may stand in the logs.
        limits: see there.

    Raises:
        ConfigError: settings that contradict each other.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    grpc_port: int | None = 50051
    default_voice: str | None = None
    voices: Path | None = None
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    needs_keys: bool | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    cors_origins: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    result_cache_bytes: int = 0
    drain_seconds: float = 0.0
    shutdown_seconds: float = 20.0
    log_texts: bool = False
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if not self.host:  # a socket would take it for every address
            raise ConfigError("host must be named: 127.0.0.1 is this machine alone, 0.0.0.0 is all")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigError("TLS needs both a certificate and a key: give both or none")
        if self.result_cache_bytes < 0:
            raise ConfigError("result_cache_bytes must be 0 or more")
        for name in ("drain_seconds", "shutdown_seconds"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name} must be 0 or more")
        if self.port and self.port == self.grpc_port:
            raise ConfigError(f"port and grpc_port are both {self.port}: choose two")
        if not all(_PRINTABLE.fullmatch(key) for key in self.api_keys):
            # A header brings nothing else unchanged.
            raise ConfigError("an API key must be of ASCII letters, digits and signs, no spaces")
        if self.needs_keys and not self.api_keys:
            raise ConfigError(
                "this server must not start without API keys: set CHATTTS_API_KEYS or name a file "
                "with --api-keys; or say with --open that every machine may ask"
            )
