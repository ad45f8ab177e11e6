"""The origin policy: which web pages may send requests to the server.

Every page that is open in a browser can send requests to a server on the same machine or network.
Browsers send where a request comes from, and the host name under which the page addressed the
server. Programs send none of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from ..errors import ForeignPageError
from ..settings import Settings
from .connections import is_loopback

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
# Names that no stranger can let resolve to an address of this network.
_PRIVATE_ENDINGS = (".local", ".localhost", ".lan", ".home", ".internal", ".home.arpa")
_OWN_SITES = ("same-origin", "none")  # "none": the user typed the address
_FOREIGN = "pages of other hosts may not do this: name their origin in the server's settings"
_SILENT = (
    "the browser does not tell the origin of this request, so a page of another host may have made "
    "it: use the server's page (/), https, or localhost on the server's machine"
)


class OriginPolicy:
    """Allows programs, the server's own page and the configured origins, and no other pages.

    One rule holds for requests of every method and path, and for sockets.

    Args:
        settings: allowed origins, API keys, and host names of the server.
    """

    def __init__(self, settings: Settings) -> None:
        self._origins = frozenset(settings.cors_origins)
        self._names = {*_LOOPBACK, settings.host, *settings.names}
        # DNS rebinding: a foreign page can let its own host name resolve to the server's address,
        # and then has the server's origin. Its requests still carry the foreign host name, so this
        # name is checked. Where keys are needed, the page has none.
        self._needs_keys = bool(settings.api_keys)
        self._is_loopback = is_loopback(settings.host)

    def check_name(self, headers: Mapping[str, str]) -> None:
        """Raise ForeignPageError if the ``Host`` header is not a name of this server.

        Where the server listens to a network, its names are not all known. Then only names of the
        public DNS are refused, and only to browsers.
        """
        name = _parts(f"//{headers.get('host', '')}").hostname
        if self._needs_keys or name in self._names:
            return
        if not self._is_loopback and (not _is_browser(headers) or _is_private(name)):
            return
        raise ForeignPageError(
            f"this server does not answer to the name {str(name)[:80]!r}: use localhost, or "
            "start it with --name and the name that its proxy uses"
        )

    def is_silent_browser(self, headers: Mapping[str, str]) -> bool:
        """Return whether a browser sent a request that tells nothing of where it comes from.

        It may be an address that the user typed, or any page that opens it.
        """
        told = ("origin", "sec-fetch-site", "referer")
        is_allowed = "*" in self._origins
        return not is_allowed and _is_browser(headers) and not any(name in headers for name in told)

    def check_page(self, headers: Mapping[str, str]) -> None:
        """Raise ForeignPageError if the request or socket comes from a page of another host."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        # A page can leave out the referrer, but name no other one. Tags send it alone.
        referrer = _origin_of(headers.get("referer"))
        if {"*", origin or referrer} & self._origins:
            return
        if site is not None:
            is_own = site in _OWN_SITES
        elif origin is not None or referrer is not None:
            # Browsers omit the site for addresses without TLS, except this machine's.
            is_own = _parts(origin or referrer or "").netloc == headers.get("host")
        else:
            if _is_browser(headers):
                raise ForeignPageError(_SILENT)
            return
        if not is_own:
            raise ForeignPageError(_FOREIGN)


def _is_browser(headers: Mapping[str, str]) -> bool:
    """Return whether a browser sent these headers, for all that they say."""
    if "sec-fetch-site" in headers or "origin" in headers:
        return True
    # A page can change neither of them to nothing; a program seldom sends both.
    return headers.get("user-agent", "").startswith("Mozilla/") and "accept-language" in headers


def _is_private(name: str | None) -> bool:
    """Return whether a host name is an address, or a name of a private network."""
    if name is None or "." not in name or name.endswith(_PRIVATE_ENDINGS):
        return name is not None
    try:
        return bool(ip_address(name))
    except ValueError:
        return False


def _origin_of(address: str | None) -> str | None:
    """Return the origin of a page's address."""
    parts = _parts(address or "")
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else None


def _parts(address: str) -> SplitResult:
    """Return the parts of an untrusted URL; all are empty if it is malformed."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")
