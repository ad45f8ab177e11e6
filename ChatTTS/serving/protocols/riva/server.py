"""Serve gRPC."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from ....errors import ConfigError
from ...http.auth import Authenticator
from ...settings import Limits, Settings
from ...speech.service import SpeechService
from . import health
from .generated import riva_audio_pb2, riva_common_pb2, riva_tts_pb2
from .health import HealthServicer
from .servicer import NAME, RivaServicer

_PING_MS, _PONG_MS = 60_000, 20_000


@dataclass(frozen=True)
class GrpcServer:
    """A server that is listening.

    Attributes:
        port: its port.
        stop: accepts no more calls, and cancels those that have not ended within so many seconds.
    """

    port: int
    stop: Callable[[float], Coroutine[Any, Any, None]]


async def serve_grpc(
    service: SpeechService,
    authenticator: Authenticator,
    settings: Settings,
    most: int | None = None,
) -> GrpcServer:
    """Listen on ``settings.host`` and ``settings.grpc_port``; call it in the service's event loop.

    Args:
        most: limit of concurrent connections; ``settings.limits.connections`` by default.

    Raises:
        ConfigError: no port is set, the address is not available, or a TLS file cannot be read.
    """
    if settings.grpc_port is None:
        raise ConfigError("grpc_port is None: give a port, or 0 for any free one")
    server = grpc.aio.server(options=_options(settings.limits, most))
    server.add_generic_rpc_handlers((RivaServicer(service, authenticator, settings).handler(),))
    health_pb2_grpc.add_HealthServicer_to_server(HealthServicer(service), server)
    names = (NAME, health.NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server, pool=_reflection_pool())
    port = _bind(server, settings)
    await server.start()
    return GrpcServer(port, server.stop)


def _options(limits: Limits, most: int | None) -> list[tuple[str, int]]:
    return [
        ("grpc.max_allowed_incoming_connections", limits.connections if most is None else most),
        # For clients that connect and send nothing, and for idle ones that stay connected.
        ("grpc.server_handshake_timeout_ms", round(limits.head_seconds * 1000)),
        ("grpc.max_connection_idle_ms", round(limits.idle_seconds * 1000)),
        # A message may carry a recording; parse_speech_request limits the rest of it separately.
        ("grpc.max_receive_message_length", limits.message_bytes + limits.upload_bytes),
        # Otherwise two servers could share a port, and each would get part of the clients.
        ("grpc.so_reuseport", 0),
        # Unanswered pings end the calls of a client that lost its network.
        ("grpc.keepalive_time_ms", _PING_MS),
        ("grpc.keepalive_timeout_ms", _PONG_MS),
    ]


def _reflection_pool() -> DescriptorPool:
    """Return the descriptors of all services here, for reflection."""
    pool = DescriptorPool()
    ours = (riva_audio_pb2, riva_common_pb2, riva_tts_pb2)
    for module in (*ours, health_pb2, reflection_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    return pool


def _bind(server: grpc.aio.Server, settings: Settings) -> int:
    """Bind the port and return its number."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"{host}:{settings.grpc_port}"
    certificate, key = settings.tls_certificate, settings.tls_key
    try:
        if certificate is None or key is None:
            return int(server.add_insecure_port(address))
        pair = (_read(key), _read(certificate))
        return int(server.add_secure_port(address, grpc.ssl_server_credentials([pair])))
    except RuntimeError as error:
        raise ConfigError(
            f"gRPC cannot listen on {address} ({error}): choose another grpc_port (--grpc-port), "
            "or None for none (--no-grpc)"
        ) from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}, for TLS, cannot be read: {error.strerror or error}") from error
