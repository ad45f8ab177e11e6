"""All settings of the server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..config.mark import Mark
from ..errors import ConfigError
from ..text.lexicon import Lexicon
from .protocol_names import PROTOCOLS

if TYPE_CHECKING:
    from ..audio.content_credentials import Credentials

MEBI = 1 << 20
_PRINTABLE = re.compile("[!-~]+")


@dataclass(frozen=True)
class Limits:
    """Upper limits of the server; all are above 0.

    Attributes:
        running: requests that are spoken at a time.
        running_per_client: of one client; ``None`` is the rule of :class:`Settings`.
        waiting: requests of all clients that wait for their turn.
        waiting_per_client: requests of one client that wait for their turn.
        wait_seconds: time that a request may wait for its turn.
        ageing_seconds: time after which a waiting batch request counts as an interactive one.
        characters: length of a text.
        batch_items: texts of a batch request.
        upload_bytes: size of a recording.
        message_bytes: size of a WebSocket or gRPC message, and of the body of a REST request
            without its recording.
        contexts: contexts of a WebSocket.
        connections: open connections of HTTP and WebSocket together, and as many of gRPC; fewer if
            the process may not open so many files.
        connections_per_address: open connections of one address. It does not apply to this machine
            and to trusted proxies.
        sockets: open WebSockets.
        head_seconds: time for a connection to send the head of its next request.
        body_seconds: time for a client to send the body of a request.
        idle_seconds: time after which a WebSocket or gRPC stream is closed whose client sends
            nothing or does not read.
        stalled_seconds: time after which a REST stream is closed whose client does not read.
        voices: uploaded voices.
        prompts: encoded recordings that are cached; each is a string of 15 kB for 30 s.
        scripts: scripts that are kept, of all clients: those that wait, run, or are done.
        scripts_per_client: scripts of one client that are kept.
        scripts_running: scripts that are spoken at a time.
        script_lines: lines of all scripts that are spoken at a time; never more than half of
            ``running``, so that other requests find places.
        script_bytes: size of a script, as text or as a file.
        script_characters: characters of all lines of a script.
        script_seconds: length of the speech of a script, as it is estimated before.
        script_disk_bytes: size of all that is kept of scripts; an hour takes 350 MB while it is
            spoken.
        script_age_seconds: time after which a script that is done or failed is deleted.
        script_watchers: streams of progress of one client.
    """

    running: int = 16
    running_per_client: int | None = None
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
    scripts: int = 64
    scripts_per_client: int = 16
    scripts_running: int = 4
    script_lines: int = 8
    script_bytes: int = 16 * MEBI
    script_characters: int = 1_000_000
    script_seconds: float = 86_400.0
    script_disk_bytes: int = 16 * 1024 * MEBI
    script_age_seconds: float = 7 * 86_400.0
    script_watchers: int = 16

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and not value > 0:
                raise ConfigError(f"{name} must be above 0, not {value!r}")


@dataclass(frozen=True)
class Settings:
    """Settings of the server.

    Attributes:
        host, port: address of REST, WebSocket and the web page; port 0 takes a free one.
        grpc_port: port of gRPC on the same host; ``None`` disables gRPC.
        wyoming_port: port of the Wyoming protocol on the same host; ``None`` disables it.
        wyoming_without_keys: whether Wyoming, which has no keys, is served although the other
            interfaces need them.
        announces: whether Wyoming's port is announced on the local network (multicast DNS), unless
            only this machine can connect.
        default_voice: voice of requests that name none; ``None`` means the checkpoint's default.
        voices: folder of the voices; ``None`` means the user's voice library.
        aliases: further names of voices, with the voice that each stands for; they take precedence
            over other voices of these names.
        unknown_voice: what a request gets that names no voice: ``refuse`` is an error, ``default``
            the default voice.
        may_shadow: whether an uploaded voice may take a name of the server, such as ``alloy``;
            ``None`` allows it where clients need keys.
        scripts: folder in which scripts and their speech are kept, for this server alone; ``None``
            means one in the user's data folder, which is made for the first script.
        api_keys: keys of the clients; each key is a client of its own. Without keys, requests
            need none.
        needs_keys: ``True`` refuses to start without keys; ``False`` states that every machine
            that reaches the server may use it; ``None`` warns of that, unless the server listens
            on a loopback address.
        tls_certificate, tls_key: files in PEM; both or none.
        cors_origins: origins of other web pages that may send requests, or ``*``.
        names: further host names of the server, such as those that a proxy uses.
        trusted_proxies: addresses of proxies whose ``X-Forwarded-For`` is believed.
        result_cache_bytes: size of the cache of finished speech, for identical requests with a
            seed; 0 disables it.
        drain_seconds: time at the end in which ``/ready`` fails and requests are still accepted,
            so that a load balancer sends them to other servers.
        shutdown_seconds: time after that for running requests to finish.
        log_texts: whether logs may contain texts.
        guard: the guard of requests that name none: ``retry``, ``report`` or ``None``. Speech that
            is sent while it is generated then has ``report`` in place of ``retry``.
        lexicon: words and their sayings, for all requests; those of a request replace them.
        mark: what answers with speech and files of scripts say of it: that it is synthetic, and by
            what it was made; ``None`` leaves that out.
        credentials: sign the files of scripts in formats that C2PA supports; ``None`` signs none.
        protocols: those of ``PROTOCOLS`` that are served.
        limits: upper limits.

    Raises:
        ConfigError: settings contradict each other.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    grpc_port: int | None = 50051
    wyoming_port: int | None = None
    wyoming_without_keys: bool = False
    announces: bool = True
    default_voice: str | None = None
    voices: Path | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    unknown_voice: str = "refuse"
    may_shadow: bool | None = None
    scripts: Path | None = None
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
    guard: str | None = None
    lexicon: Lexicon = field(default_factory=Lexicon, repr=False)
    mark: Mark | None = field(default_factory=Mark)
    credentials: Credentials | None = None
    protocols: tuple[str, ...] = PROTOCOLS
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        for name in self.protocols:
            if name not in PROTOCOLS:
                known = ", ".join(PROTOCOLS)
                raise ConfigError(f"unknown protocol {name!r}: choose from {known}, or none")
        if not self.host:  # a socket would bind every address
            raise ConfigError(
                "host must be given: 127.0.0.1 accepts connections from this machine only, "
                "0.0.0.0 from all"
            )
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigError("TLS needs both a certificate and a key: give both or none")
        if self.result_cache_bytes < 0:
            raise ConfigError("result_cache_bytes must be 0 or more")
        if self.guard not in (None, "retry", "report"):
            raise ConfigError(f"guard must be retry, report or None, not {self.guard!r}")
        if self.unknown_voice not in ("refuse", "default"):
            raise ConfigError(
                f"unknown_voice must be refuse or default, not {self.unknown_voice!r}"
            )
        for name in ("drain_seconds", "shutdown_seconds"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name} must be 0 or more")
        ports = [port for port in (self.port, self.grpc_port, self.wyoming_port) if port]
        if len(ports) != len(set(ports)):
            raise ConfigError(
                f"port, grpc_port and wyoming_port must differ: they are {self.port}, "
                f"{self.grpc_port} and {self.wyoming_port}"
            )
        if self.wyoming_port is not None and self.api_keys and not self.wyoming_without_keys:
            raise ConfigError(
                "the Wyoming protocol has no API keys, so its clients would need none: leave out "
                "wyoming_port (--wyoming-port), or allow this with --wyoming-without-keys"
            )
        if not all(_PRINTABLE.fullmatch(key) for key in self.api_keys):
            # An HTTP header transports no other characters unchanged.
            raise ConfigError(
                "an API key may contain only ASCII letters, digits and punctuation, no spaces"
            )
        if self.needs_keys and not self.api_keys:
            raise ConfigError(
                "this server must not start without API keys: set CHATTTS_API_KEYS or give a "
                "file with --api-keys, or allow every machine with --open"
            )

    @property
    def running_per_client(self) -> int:
        """The number of requests of one client that are spoken at a time.

        With keys a quarter of the places is left to other clients. Without keys a client is an
        address: one program or proxy may be all that asks, and has all places.
        """
        running, own = self.limits.running, self.limits.running_per_client
        if own is not None:
            return own
        return max(1, running - running // 4) if self.api_keys else running
