"""A response with a file of the disk, or with one range of its bytes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..errors import ServingError
from ..service import SpeechService
from .errors import RangeError
from .head import is_head

_BLOCK = 1 << 18
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII | re.IGNORECASE)


class FileAnswer(Response):
    """Sends a file; a request for several ranges gets the whole.

    The file is opened before anything is sent. So it may be deleted while it is sent.

    Args:
        service: has the threads that read.
        path: of the file, which is never changed in place.
        media_type: of its content.
        name: under which a browser saves it; of ASCII letters, digits, dots and dashes.
        missing: returns the error for a file that is not there.
    """

    def __init__(
        self,
        service: SpeechService,
        path: Path,
        media_type: str,
        name: str,
        missing: Callable[[], ServingError],
    ) -> None:
        super().__init__(media_type=media_type)
        self._service, self._path, self._missing = service, path, missing
        self.headers["content-disposition"] = f'attachment; filename="{name}"'
        self.headers["accept-ranges"] = "bytes"
        self.headers["cache-control"] = "private, no-cache"
        # Each job has a file of its own, which is written once.
        self.headers["etag"] = self._tag = f'"{name}"'

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        headers = Headers(scope=scope)
        try:
            file = await self._opened()
        except OSError as error:
            raise self._missing() from error
        try:
            size = await self._service.in_thread(lambda: file.seek(0, 2))
            if self._is_known(headers.get("if-none-match", "")):
                self.status_code, first, end = 304, 0, 0
                del self.headers["content-length"]
            else:
                # Ranges are of GET alone.
                first, end = (0, size) if is_head(scope) else self._range(headers, size)
                self.headers["content-length"] = str(end - first)
            await send(self._start())
            await self._send(file, first, end, send)
        finally:
            # At once: after a shutdown no thread would do it. It has nothing to write.
            file.close()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _opened(self) -> BinaryIO:
        def opened() -> BinaryIO:
            return self._path.open("rb")

        opening = asyncio.ensure_future(self._service.in_thread(opened))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:  # the thread opens it nevertheless
            opening.add_done_callback(_close)
            raise

    def _is_known(self, tags: str) -> bool:
        """Return whether the client has the file: its tag is in the list, which may be ``*``."""
        known = (tag.strip().removeprefix("W/") for tag in tags.split(","))
        return any(tag in ("*", self._tag) for tag in known)

    def _range(self, headers: Headers, size: int) -> tuple[int, int]:
        """Return the first byte to send and the one after the last.

        Raises:
            RangeError: the file has not so many.
        """
        found = _RANGE.fullmatch(headers.get("range", "").replace(" ", ""))
        is_other = headers.get("if-range", self._tag) != self._tag
        if found is None or is_other or not (found[1] or found[2]):
            return 0, size
        if found[1]:
            first = int(found[1])
            end = min(size, int(found[2]) + 1) if found[2] else size
        else:
            first, end = max(0, size - int(found[2])), size
        if first >= end:
            raise RangeError(f"the file has {size} bytes, and no such range: {found[0]}", size)
        self.status_code = 206
        self.headers["content-range"] = f"bytes {first}-{end - 1}/{size}"
        return first, end

    async def _send(self, file: BinaryIO, first: int, end: int, send: Send) -> None:
        await self._service.in_thread(lambda: file.seek(first))
        left = end - first
        while left:
            block = await self._service.in_thread(partial(file.read, min(_BLOCK, left)))
            if not block:  # it was cut, which nothing of this package does
                return
            left -= len(block)
            await send({"type": "http.response.body", "body": block, "more_body": True})

    def _start(self) -> dict[str, Any]:
        return {
            "type": "http.response.start",
            "status": self.status_code,
            "headers": self.raw_headers,
        }


def _close(opening: asyncio.Future[BinaryIO]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
