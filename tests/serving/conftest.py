"""Fixtures of several modules of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import httpx

    from ..support.serving_tools import RunningServer


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[httpx.Client]:
    """A client of HTTP, of the server of the module."""
    import httpx  # a plain install collects these tests without it

    with httpx.Client(base_url=server.url, timeout=60) as one:
        yield one
