"""The web page: its files are read once, at the start."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import Response

from ...errors import NotFoundError

WEB = Path(__file__).parents[2] / "web"
_INDEX = "index.html"
_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".webmanifest": "application/manifest+json",
}
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "media-src blob:",  # a recording that is heard before it is sent
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)


@dataclass(frozen=True)
class _File:
    data: bytes
    media_type: str
    tag: str

    @classmethod
    def read(cls, path: Path) -> _File:
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        return cls(data, _MEDIA_TYPES[path.suffix], f'"{digest[:32]}"')

    def answer(self, request: Request) -> Response:
        headers = {
            "ETag": self.tag,
            # A cached old script must not be used with a new version of the server.
            "Cache-Control": "no-cache",
            "Content-Security-Policy": _POLICY,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "same-origin",
        }
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=headers)
        return Response(self.data, headers=headers | {"Content-Type": self.media_type})


def is_page(path: str) -> bool:
    """Return whether a path belongs to the page."""
    return path == "/" or path.startswith("/static/")


def page_routes(folder: Path = WEB) -> APIRouter:
    """Return the routes of the page and its files; requests never access the file system."""
    router = APIRouter(include_in_schema=False)
    files = {p.name: _File.read(p) for p in sorted(folder.iterdir()) if p.suffix in _MEDIA_TYPES}

    def answer(name: str, request: Request) -> Response:
        if name not in files:
            raise NotFoundError(f"the page has no file {name[:80]!r}")
        return files[name].answer(request)

    @router.get("/")
    async def index(request: Request) -> Response:
        return answer(_INDEX, request)

    @router.get("/static/{name}")
    async def static(name: str, request: Request) -> Response:
        return answer(name, request)

    return router
