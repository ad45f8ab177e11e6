"""A response with a file of the disk, or with one range of its bytes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from anyio import to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import FileResponse, Response
from starlette.types import Receive, Scope, Send

from ...errors import ServingError
from .errors import RangeError
from .head import is_head

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII | re.IGNORECASE)


class FileAnswer(FileResponse):
    """Sends a file; a request for several ranges, or for one that is malformed, gets the whole.

    Starlette sends the bytes. It knows no ``If-None-Match``, answers a malformed range by an error
    (RFC 9110, section 14.2, lets a server ignore it) and merges many ranges in quadratic time
    before 0.49.1. So it gets single ranges of bytes that the file has, and no others.

    Args:
        path: of the file, which is never changed in place.
        media_type: of its content.
        name: under which a browser saves it; of ASCII letters, digits, dots and dashes.
        missing: returns the error for a file that is not there.
        headers: further ones of the answer.
    """

    chunk_size = 1 << 18

    def __init__(
        self,
        path: Path,
        media_type: str,
        name: str,
        missing: Callable[[], ServingError],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        # Each job has a file of its own, which is written once.
        self._tag, self._missing = f'"{name}"', missing
        own = {"etag": self._tag, "cache-control": "private, no-cache"}
        super().__init__(
            path, headers={**(headers or {}), **own}, media_type=media_type, filename=name
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        given = Headers(scope=scope)
        try:
            self.stat_result = await to_thread.run_sync(os.stat, self.path)
        except OSError as error:
            raise self._missing() from error
        self.set_stat_headers(self.stat_result)
        if self._is_known(given.get("if-none-match", "")):
            unchanged = Response(status_code=304, headers=self.headers)
            del unchanged.headers["content-length"]
            await unchanged(scope, receive, send)
            return
        passed = MutableHeaders(raw=list(given.raw))
        del passed["range"]
        if is_head(scope):
            scope = {**scope, "method": "HEAD"}  # ranges are of GET alone
        elif wanted := self._range(given, self.stat_result.st_size):
            passed["range"] = wanted
        await super().__call__({**scope, "headers": passed.raw}, receive, send)

    def _is_known(self, tags: str) -> bool:
        """Return whether the client has the file: its tag is in the list, which may be ``*``."""
        known = (tag.strip().removeprefix("W/") for tag in tags.split(","))
        return any(tag in ("*", self._tag) for tag in known)

    def _range(self, headers: Headers, size: int) -> str | None:
        """Return the range to send; ``None`` for the whole file.

        Raises:
            RangeError: the file has not so many bytes.
        """
        found = _RANGE.fullmatch(headers.get("range", "").replace(" ", ""))
        is_other = headers.get("if-range", self._tag) != self._tag
        if found is None or is_other or not (found[1] or found[2]):
            return None
        if found[1]:
            first = int(found[1])
            end = min(size, int(found[2]) + 1) if found[2] else size
        else:
            first, end = max(0, size - int(found[2])), size
        if first >= end:
            raise RangeError(
                f"the range {found[0]} is outside the file, which has {size} bytes", size
            )
        return f"bytes={first}-{end - 1}"
