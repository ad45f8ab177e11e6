"""One gRPC call: its authentication, its metadata, and its refusal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import grpc

from ...errors import as_serving_error
from ...http.auth import Authenticator
from ...observe.metrics import ServerMetrics
from ...observe.request_logs import log_failure, log_refusal
from ...requests.request import new_request_id
from ...speech.speech import Speech

INTERFACE = "grpc"
"""The name of this interface in logs."""


class RpcCall:
    """The state of a call.

    Args:
        context: grpc's context of the call.
        told: further initial metadata of answers with speech.

    Attributes:
        request_id: its name in logs and metadata.
        client: the client's identity; empty before :meth:`authenticate`.
        speech: the text that is being spoken; ``None`` between texts.
    """

    def __init__(
        self, context: grpc.aio.ServicerContext[Any, Any], told: Mapping[str, str]
    ) -> None:
        self.context, self._told = context, told
        self.request_id = new_request_id()
        self.client = ""
        self.speech: Speech | None = None
        self._is_metadata_sent = False

    def authenticate(self, authenticator: Authenticator) -> None:
        """Check the client's key and set :attr:`client`.

        Raises:
            AuthenticationError: the key is missing or wrong.
        """
        # Keys of gRPC's metadata are in lower case.
        value = dict(self.context.invocation_metadata() or ()).get("authorization")
        authorization = value.decode("latin-1") if isinstance(value, bytes) else value
        self.client = authenticator.client(authorization, _address(self.context.peer()))

    @property
    def remaining(self) -> float | None:
        """Seconds until the call's deadline; ``None`` without one."""
        seconds: float | None = self.context.time_remaining()
        return None if seconds is None else max(0.0, seconds)

    async def send_metadata(self, speech: Speech) -> None:
        """Send the request id, and of the call's first text seed, voice and what is left out.

        Later calls of this method send nothing: they are initial metadata.

        Raises:
            asyncio.CancelledError: the client has gone.
        """
        if not self._is_metadata_sent:
            self._is_metadata_sent = True
            request = speech.request
            metadata = [("x-request-id", self.request_id), ("x-seed", str(request.seed))]
            metadata += self._told.items()
            if speech.voice_name:
                metadata.append(("x-voice", speech.shown_voice))
            if speech.left_out:
                metadata.append(("x-left-out", speech.shown_left_out))
            if request.warnings:
                metadata.append(("x-warnings", json.dumps(request.shown_warnings)))
            try:
                await self.context.send_initial_metadata(tuple(metadata))
            except grpc.aio.InternalError as error:  # all that gRPC says of a client that has gone
                raise asyncio.CancelledError from error

    async def refuse(self, error: Exception, metrics: ServerMetrics) -> None:
        """End the call with the status of ``error``; always raises."""
        refusal = as_serving_error(error)
        if refusal.grpc == "INTERNAL":
            log_failure(f"request {self.request_id}", refusal, with_text=False)
        if self.speech is None or not self.speech.was_counted:
            metrics.count_refusal(refusal)
            client = self.client or _address(self.context.peer())
            log_refusal(refusal, INTERFACE, client=client, request_id=self.request_id)
        metadata = [("x-request-id", self.request_id)]
        if refusal.retry_after is not None:
            metadata.append(("retry-after", f"{refusal.retry_after:g}"))
        await self.context.abort(grpc.StatusCode[refusal.grpc], str(refusal), tuple(metadata))


def _address(peer: str) -> str:
    """Return the host of a peer such as ``ipv4:10.0.0.1:51234`` or ``ipv6:%5B::1%5D:51234``."""
    family, _, address = unquote(peer).partition(":")
    if family not in ("ipv4", "ipv6"):
        return family
    return address.rpartition(":")[0].strip("[]")
