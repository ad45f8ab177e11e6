"""Load the model behind the first answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...speech.service import SpeechService

# Importing torch stops the event loop for up to a second. The first answer is sent before.
_PAUSE = 0.1


class Loading:
    """Loads the service once: when it is wanted, or soon after a client's first message.

    Args:
        load: loads it.
    """

    def __init__(self, load: Callable[[], Awaitable[SpeechService]]) -> None:
        self._load = load
        self._task: asyncio.Task[SpeechService] | None = None

    def begin(self) -> asyncio.Task[SpeechService]:
        """Begin to load, unless that was done."""
        if self._task is None:
            self._task = asyncio.create_task(self._loaded(), name="loading")
        return self._task

    async def service(self) -> SpeechService:
        """Return the service once it is loaded; a cancelled call leaves the loading to others."""
        return await asyncio.shield(self.begin())

    async def after_answer(self, ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        """Answer a message as a layer of the library's server, and begin to load after it."""
        try:
            return await call_next(ctx)
        finally:
            if self._task is None:
                asyncio.get_running_loop().call_later(_PAUSE, self.begin)

    async def close(self) -> None:
        """Unload the service, if any was loaded; raise the error of the loading."""
        if self._task is not None:
            service = await self._task
            await service.close(0)
            service.shut_down_threads()

    async def _loaded(self) -> SpeechService:
        return await self._load()
