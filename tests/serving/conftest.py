"""Fixtures of several modules of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import httpx

    from ..support.serving_tools import RunningServer
    from ..support.websocket_tools import Speaker

# A plain install has no server.
collect_ignore_glob = ["*"] if find_spec("httpx") is None else []


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[httpx.Client]:
    """A client of HTTP, of the server of the module."""
    import httpx

    with httpx.Client(base_url=server.url, timeout=60) as one:
        yield one


@pytest.fixture
def socket(server: RunningServer) -> Iterator[Speaker]:
    """A client on a speech socket of the server of the module, where nothing is left behind it."""
    from ..support.websocket_tools import is_over, speaker

    with speaker(server) as one:
        yield one
    assert is_over(server)
