"""Tells a client what comes of the text of one context, in our own messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ....pipeline.results import Fault, Word
from ...encoding.base64_blocks import to_base64
from ...errors import ServingError
from ...live.listener import Listener, Utterance
from ...live.run import Run, RunEnd
from ...live.send_queue import SendQueue
from ...requests.words import fault_fields, lexicon_fields, word_fields
from .config import ContextConfig

INTERFACE = "websocket"
"""The name of this interface in logs."""


@dataclass(frozen=True)
class ContextSender(Listener):
    """Sends the messages of one context.

    Attributes:
        queue: of the socket.
        context_id: goes into every message; ``None`` for the default context.
        needs_framing: returns whether an ``audio.chunk`` must precede each binary frame, so that
            the client knows which context it belongs to.
    """

    interface = INTERFACE

    queue: SendQueue
    context_id: str | None
    needs_framing: Callable[[], bool]

    async def send(self, kind: str, **fields: Any) -> None:
        """Send a JSON message."""
        await self.queue.put(self._message(kind, fields))

    async def send_error(self, error: ServingError) -> None:
        """Send an ``error`` message; the socket and its contexts go on."""
        body = error.as_json()
        if error.retry_after is not None:
            body["retry_after"] = error.retry_after
        await self.send("error", error=body)

    async def run_started(self, run: Run) -> None:
        """Send ``audio.start``."""
        await self.send(
            "audio.start",
            sample_rate=run.config.rate,
            format=run.config.format.value,
            seed=run.seed_state.seed,
            **({"voice": run.voice} if run.voice else {}),
            request_id=run.request_id,
        )

    async def utterance_started(self, run: Run, utterance: Utterance) -> None:
        """Send ``text.spoken``."""
        uses = [lexicon_fields(use) for use in utterance.lexicon_uses]
        await self.send(
            "text.spoken",
            utterance=utterance.number,
            text=utterance.text,
            position=run.sent_samples,
            **({"lexicon": uses} if uses else {}),
            **({"left_out": list(utterance.left_out)} if utterance.left_out else {}),
            **({"warnings": list(utterance.warnings)} if utterance.warnings else {}),
        )

    async def words_known(self, run: Run, words: Sequence[Word]) -> None:
        """Send ``text.words``."""
        speed = run.config.speed
        await self.send("text.words", words=[word_fields(word, speed) for word in words])

    async def faults_found(self, run: Run, faults: Sequence[Fault]) -> None:
        """Send ``text.faults``."""
        speed = run.config.speed
        await self.send("text.faults", faults=[fault_fields(fault, speed) for fault in faults])

    async def sound(self, run: Run, data: bytes) -> None:
        """Send encoded sound, as a frame or in JSON."""
        position = run.sent_samples
        if isinstance(run.config, ContextConfig) and run.config.is_base64:
            await self.send("audio.delta", audio=to_base64(data), position=position)
        elif self.needs_framing():
            header = self._message("audio.chunk", {"bytes": len(data), "position": position})
            await self.queue.put(header, data)
        else:
            await self.queue.put(data)

    async def run_ended(self, end: RunEnd) -> None:
        """Send ``audio.done``, unless the client neither sent text nor asked for it."""
        run = end.run
        if end.is_requested or run.has_text:
            await self.send(
                "audio.done",
                total_bytes=run.sent_bytes,
                total_samples=run.sent_samples,
                text=run.timeline.text,
                finish_reason=run.finish_reason,
            )

    async def context_ended(self) -> None:
        """Send ``session.done``."""
        await self.send("session.done")

    async def failed(self, run: Run, error: ServingError) -> None:
        """Send the error of an utterance."""
        await self.send_error(error)

    def _message(self, kind: str, fields: dict[str, Any]) -> str:
        name = {} if self.context_id is None else {"context_id": self.context_id}
        return json.dumps({"type": kind, **name, **fields})
