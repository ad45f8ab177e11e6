"""Listens for gRPC."""

from __future__ import annotations

from pathlib import Path

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from ...errors import ConfigError
from ..auth import Authenticator
from ..service import SpeechService
from ..settings import Limits, Settings
from . import health
from .generated import riva_audio_pb2, riva_common_pb2, riva_tts_pb2
from .health import HealthServicer
from .servicer import NAME, RivaServicer

_PING_MS, _PONG_MS = 60_000, 20_000


class GrpcServer:
    """A server that listens.

    Attributes:
        port: on which.
    """

    def __init__(self, server: grpc.aio.Server, port: int) -> None:
        self._server = server
        self.port = port

    async def stop(self, grace: float) -> None:
        """Take no more calls; those that are not over within ``grace`` seconds are cancelled."""
        await self._server.stop(grace)


async def serve_grpc(
    service: SpeechService, gate: Authenticator, settings: Settings, most: int | None = None
) -> GrpcServer:
    """Listen on ``settings.host`` and ``settings.grpc_port``; call it in the service's loop.

    Args:
        most: connections at a time; those of the settings' limits by default.

    Raises:
        ConfigError: no port is set, the address cannot be had, or the files for TLS not be read.
    """
    if settings.grpc_port is None:
        raise ConfigError("grpc_port is None: name a port, or 0 for any that is free")
    server = grpc.aio.server(options=_options(settings.limits, most))
    server.add_generic_rpc_handlers((RivaServicer(service, gate, settings).handler(),))
    health_pb2_grpc.add_HealthServicer_to_server(HealthServicer(service), server)
    names = (NAME, health.NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server, pool=_described())
    port = _listen(server, settings)
    await server.start()
    return GrpcServer(server, port)


def _options(limits: Limits, most: int | None) -> list[tuple[str, int]]:
    return [
        ("grpc.max_allowed_incoming_connections", limits.connections if most is None else most),
        # For clients that connect and say nothing, and for those that are done and stay.
        ("grpc.server_handshake_timeout_ms", round(limits.head_seconds * 1000)),
        ("grpc.max_connection_idle_ms", round(limits.idle_seconds * 1000)),
        # A message may carry a recording; what else is in it has a limit of its own.
        ("grpc.max_receive_message_length", limits.message_bytes + limits.upload_bytes),
        # Two servers on one port would each answer every second client.
        ("grpc.so_reuseport", 0),
        # A client whose network is gone says nothing; unanswered pings end its calls.
        ("grpc.keepalive_time_ms", _PING_MS),
        ("grpc.keepalive_timeout_ms", _PONG_MS),
    ]


def _described() -> DescriptorPool:
    """What reflection tells of: all files of the services here."""
    pool = DescriptorPool()
    ours = (riva_audio_pb2, riva_common_pb2, riva_tts_pb2)
    for module in (*ours, health_pb2, reflection_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    return pool


def _listen(server: grpc.aio.Server, settings: Settings) -> int:
    """Bind the port, and give its number."""
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
