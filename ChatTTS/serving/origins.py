"""Pages in browsers: which of them may use a server that is within their reach.

A server on the user's own machine can be asked by every page that is open in a browser there.
Browsers say where a page comes from, and what it called the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from .errors import ForeignPageError
from .settings import Settings

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_READING = ("GET", "HEAD", "OPTIONS")
# Reading it costs as much as a change.
_COSTLY = ("/tts",)


class OriginPolicy:
    """Tells a server's own pages, and those of the origins that were named, from all others.

    Args:
        settings: origins, keys, and names of the server.
    """

    def __init__(self, settings: Settings) -> None:
        self._origins = frozenset(settings.cors_origins)
        # A page may call its own address by the server's number and so become the server's own
        # (DNS rebinding), but not by the server's names. Who needs a key cannot be misled so, and
        # beyond this machine nobody knows the names.
        is_bound = not settings.api_keys and _is_loopback(settings.host)
        self._names = {*_LOOPBACK, settings.host, *settings.names} if is_bound else None

    def check_name(self, headers: Mapping[str, str]) -> None:
        """Raise ForeignPageError if the client calls the server by a name that is not its own."""
        if self._names is None:
            return
        name = _parts(f"//{headers.get('host', '')}").hostname
        if name not in self._names:
            raise ForeignPageError(
                f"this server is not called {str(name)[:80]!r}: ask for localhost, or start it "
                "with --name and the name that a proxy gives it"
            )

    def check_request(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        """Raise ForeignPageError if a page of another host may not ask this."""
        is_harmless = method in _READING and path not in _COSTLY
        site = headers.get("sec-fetch-site")
        # Browsers say the site to hosts that they trust only: not to a number without TLS.
        is_foreign = site == "cross-site" or (site is None and not self._is_near(headers))
        if is_foreign and not is_harmless and not self._is_named(headers.get("origin")):
            raise ForeignPageError(
                "pages of other hosts may not do this: name their origin in the server's settings"
            )

    def may_open_socket(self, headers: Mapping[str, str]) -> bool:
        """Whether a page may connect; browsers let every page try. Programs send no origin."""
        return self._is_near(headers) or self._is_named(headers.get("origin"))

    def _is_near(self, headers: Mapping[str, str]) -> bool:
        """Whether it is a program, or a page of the server's own."""
        origin = headers.get("origin")
        return origin is None or _parts(origin).netloc == headers.get("host")

    def _is_named(self, origin: str | None) -> bool:
        return bool({"*", origin} & self._origins)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host in _LOOPBACK


def _parts(address: str) -> SplitResult:
    """Of an address that may come from anybody; of one that is none, nothing."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")
