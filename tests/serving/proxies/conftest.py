"""Two servers behind a proxy, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ...support.process_tools import Process
from ...support.proxy_tools import KINDS, ProxiedServer, Proxy, places, two_servers
from ...support.serving_tools import RunningServer, running_server


@pytest.fixture(scope="package")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Process]]:
    """Two `chattts serve`, which no test ends."""
    with two_servers(tmp_path_factory.mktemp("voices"), "--trust-proxy", "127.0.0.1") as running:
        yield running


@pytest.fixture(scope="package")
def reference() -> Iterator[RunningServer]:
    """A server in this process; it says what the library gives."""
    with running_server(brief=False) as running:
        yield running


@pytest.fixture(scope="package", params=KINDS)
def server(
    request: pytest.FixtureRequest,
    servers: list[Process],
    reference: RunningServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ProxiedServer]:
    """Each proxy in turn, in front of the two servers."""
    proxy = Proxy(request.param, tmp_path_factory.mktemp(request.param), places(servers))
    with pytest.MonkeyPatch.context() as patch:
        # The clients of HTTP and WebSocket trust its certificate.
        patch.setenv("SSL_CERT_FILE", str(proxy.certificate))
        yield ProxiedServer(proxy, reference)
    proxy.close()
