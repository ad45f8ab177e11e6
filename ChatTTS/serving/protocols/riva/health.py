"""``grpc.health.v1``: whether the server can speak."""

from __future__ import annotations

import asyncio

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ...speech.service import SpeechService
from .servicer import NAME as SPEECH

NAME = "grpc.health.v1.Health"
_WATCH_SECONDS = 0.5
_KNOWN = ("", SPEECH)


class HealthServicer(health_pb2_grpc.HealthServicer):
    """Reports the current state of the service."""

    def __init__(self, service: SpeechService) -> None:
        self._service = service

    async def Check(  # noqa: N802
        self,
        request: health_pb2.HealthCheckRequest,
        context: grpc.aio.ServicerContext,
    ) -> health_pb2.HealthCheckResponse:
        """Return the current state; NOT_FOUND for an unknown service."""
        if request.service not in _KNOWN:
            await context.abort(
                grpc.StatusCode.NOT_FOUND, f"there is no service {request.service[:80]!r} here"
            )
        return health_pb2.HealthCheckResponse(status=self._status(request.service))

    async def Watch(  # noqa: N802
        self,
        request: health_pb2.HealthCheckRequest,
        context: grpc.aio.ServicerContext,
    ) -> None:
        """Send the current state, and each new state when it changes."""
        last_sent = None
        while True:
            status = self._status(request.service)
            if status != last_sent:
                last_sent = status
                await context.write(health_pb2.HealthCheckResponse(status=status))
            await asyncio.sleep(_WATCH_SECONDS)

    def _status(self, service: str) -> int:
        if service not in _KNOWN:
            status = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        elif self._service.is_ready:
            status = health_pb2.HealthCheckResponse.SERVING
        else:
            status = health_pb2.HealthCheckResponse.NOT_SERVING
        return int(status)
