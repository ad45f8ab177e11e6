"""``grpc.health.v1``: whether speech can be had."""

from __future__ import annotations

import asyncio

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ..service import SpeechService
from .servicer import NAME as SPEECH

NAME = "grpc.health.v1.Health"
_WATCH_SECONDS = 0.5
_KNOWN = ("", SPEECH)


class HealthServicer(health_pb2_grpc.HealthServicer):
    """Tells the state of a service, which it reads whenever it is asked."""

    def __init__(self, service: SpeechService) -> None:
        self._service = service

    async def Check(  # noqa: N802
        self,
        request: health_pb2.HealthCheckRequest,
        context: grpc.aio.ServicerContext,
    ) -> health_pb2.HealthCheckResponse:
        """The state now; NOT_FOUND for a service that is not here."""
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
        """The state, and again whenever it changes."""
        told = None
        while True:
            status = self._status(request.service)
            if status != told:
                told = status
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
