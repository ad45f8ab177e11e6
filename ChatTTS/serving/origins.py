"""The origin policy: which web pages may send requests to the server.

Every page that is open in a browser can send requests to a server on the same machine. Browsers
send the page's origin, and the host name under which the page addressed the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from .connections import is_loopback
from .errors import ForeignPageError
from .settings import Settings

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
# Paths where GET generates speech, so it is checked like POST.
_COSTLY_PATHS = ("/tts",)
_FOREIGN = "pages of other hosts may not do this: name their origin in the server's settings"


class OriginPolicy:
    """Allows the server's own page and the configured origins, and refuses all others.

    Args:
        settings: allowed origins, API keys, and host names of the server.
    """

    def __init__(self, settings: Settings) -> None:
        self._origins = frozenset(settings.cors_origins)
        # DNS rebinding: a foreign page can let its own host name resolve to the server's address,
        # and then has the server's origin. Its requests still carry the foreign host name, so this
        # name is checked. Where keys are needed, the page has none; and where the server listens
        # to a network, its host names are not known.
        checks_names = not settings.api_keys and is_loopback(settings.host)
        self._names = {*_LOOPBACK, settings.host, *settings.names} if checks_names else None

    def check_name(self, headers: Mapping[str, str]) -> None:
        """Raise ForeignPageError if the ``Host`` header is not a name of this server."""
        if self._names is None:
            return
        name = _parts(f"//{headers.get('host', '')}").hostname
        if name not in self._names:
            raise ForeignPageError(
                f"this server is not called {str(name)[:80]!r}: ask for localhost, or start it "
                "with --name and the name that a proxy gives it"
            )

    def check_request(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        """Raise ForeignPageError if the request comes from a page that may not send it."""
        is_harmless = method in _SAFE_METHODS and path not in _COSTLY_PATHS
        site = headers.get("sec-fetch-site")
        # Browsers omit this header for IP addresses without TLS; then the origin decides.
        is_foreign = site == "cross-site" or (site is None and not self._is_own(headers))
        if is_foreign and not is_harmless and not self._is_allowed(headers.get("origin")):
            raise ForeignPageError(_FOREIGN)

    def check_socket(self, headers: Mapping[str, str]) -> None:
        """Raise ForeignPageError if the client may not open a WebSocket.

        Browsers let every page try this.
        """
        if not (self._is_own(headers) or self._is_allowed(headers.get("origin"))):
            raise ForeignPageError(_FOREIGN)

    def _is_own(self, headers: Mapping[str, str]) -> bool:
        """Return whether the client is the server's own page, or a program (without origin)."""
        origin = headers.get("origin")
        return origin is None or _parts(origin).netloc == headers.get("host")

    def _is_allowed(self, origin: str | None) -> bool:
        return bool({"*", origin} & self._origins)


def _parts(address: str) -> SplitResult:
    """Return the parts of an untrusted URL; all are empty if it is malformed."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")
