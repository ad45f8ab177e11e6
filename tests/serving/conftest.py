"""Fixtures of several modules of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from ..support.serving_tools import RunningServer


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[httpx.Client]:
    """A client of HTTP, of the server of the module."""
    with httpx.Client(base_url=server.url, timeout=60) as one:
        yield one
