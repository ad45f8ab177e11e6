"""Announce the server on the local network, so that Home Assistant finds it by itself."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address

from zeroconf import Error as ZeroconfError
from zeroconf import InterfaceChoice, NonUniqueNameException
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

from ...http.connections import is_loopback

logger = logging.getLogger(__name__)

_OUTSIDE = "224.0.0.251"  # of multicast DNS
SERVICE = "_wyoming._tcp.local."


@asynccontextmanager
async def announced(
    port: int, addresses: Sequence[str], interfaces: Sequence[str] | None = None
) -> AsyncIterator[None]:
    """Announce the port within this context; a network that does not allow it is a warning.

    Args:
        port: of Wyoming.
        addresses: of this machine, at which clients reach the port.
        interfaces: addresses of the networks to announce on; all by default.
    """
    host = socket.gethostname().partition(".")[0] or "chattts"
    info = AsyncServiceInfo(
        SERVICE,
        f"chattts-{host}.{SERVICE}",
        addresses=[ip_address(address).packed for address in addresses],
        port=port,
        server=f"chattts-{host}.local.",
    )
    zeroconf: AsyncZeroconf | None = None
    try:
        zeroconf = AsyncZeroconf(interfaces=interfaces or InterfaceChoice.All)
        await zeroconf.async_register_service(info, allow_name_change=True)
    except (OSError, ZeroconfError, NonUniqueNameException) as error:
        reason = str(error) or type(error).__name__
        logger.warning("Home Assistant cannot discover this server: %s", reason)
    try:
        yield
    finally:
        if zeroconf is not None:
            await zeroconf.async_unregister_all_services()
            await zeroconf.async_close()


def reachable_addresses(host: str) -> list[str]:
    """Return the addresses at which other machines reach a server that listens on ``host``.

    There are none where only this machine can connect.
    """
    if is_loopback(host):
        return []
    if host not in ("0.0.0.0", "::"):
        # The name of a machine may stand for its loopback address.
        found = str(socket.getaddrinfo(host, None)[0][4][0])
        return [] if is_loopback(found) else [found]
    # One address is enough, and the system knows which one leads outside. This sends nothing.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((_OUTSIDE, 9))
        except OSError:  # no network
            return []
        return [probe.getsockname()[0]]
