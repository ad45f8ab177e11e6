"""One call of a client: who it is, what it is told, and how it is refused."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import grpc

from ..auth import Gate
from ..errors import ServingError, as_serving_error
from ..logs import log_failure, log_refusal
from ..measures import Measures
from ..requests import new_request_id
from ..speech import Speech


class RpcCall:
    """What is known of a call.

    Args:
        context: of grpc.

    Attributes:
        request_id: what logs and answers call it.
        client: who asks; see :meth:`authenticate`.
        speech: what is spoken for it, or is to be.
    """

    def __init__(self, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        self.context = context
        self.request_id = new_request_id()
        self.client = ""
        self.speech: Speech | None = None
        self._is_metadata_sent = False

    def authenticate(self, gate: Gate) -> None:
        """Find out who asks.

        Raises:
            AuthenticationError: no key, or one that does not open.
        """
        # Keys of gRPC's metadata are in lower case.
        given = dict(self.context.invocation_metadata() or ()).get("authorization")
        authorization = given.decode("latin-1") if isinstance(given, bytes) else given
        self.client = gate.client(authorization, _address(self.context.peer()))

    @property
    def remaining(self) -> float | None:
        """Seconds to the call's deadline; None without one."""
        seconds: float | None = self.context.time_remaining()
        return None if seconds is None else max(0.0, seconds)

    async def send_metadata(self, seed: int) -> None:
        """Tell what the call and its draws are called; a second time does nothing."""
        if not self._is_metadata_sent:
            self._is_metadata_sent = True
            head = (("x-request-id", self.request_id), ("x-seed", str(seed)))
            await self.context.send_initial_metadata(head)

    async def refuse(self, error: Exception, measures: Measures) -> None:
        """End the call with what is told of ``error``."""
        told = as_serving_error(error)
        if told.grpc == "INTERNAL":
            log_failure(f"request {self.request_id}", told, with_text=False)
        if self.speech is None or self.speech.record.whole is None:
            measures.refused(told)
            client = self.client or _address(self.context.peer())
            log_refusal(told, "grpc", client=client, request_id=self.request_id)
        tail = [("x-request-id", self.request_id)]
        if told.retry_after is not None:
            tail.append(("retry-after", f"{told.retry_after:g}"))
        await self.context.abort(_status(told), str(told), tuple(tail))


def _status(error: ServingError) -> grpc.StatusCode:
    return grpc.StatusCode[error.grpc]


def _address(peer: str) -> str:
    """The host of a peer such as ``ipv4:10.0.0.1:51234`` or ``ipv6:%5B::1%5D:51234``."""
    family, _, address = unquote(peer).partition(":")
    if family not in ("ipv4", "ipv6"):
        return family
    return address.rpartition(":")[0].strip("[]")
