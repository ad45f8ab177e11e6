"""Proxies that cut the connection in the middle of the sound: the server keeps nothing of it."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable, Iterator
from typing import cast

import httpx
import pytest

from ..support.cutting_proxy import CuttingProxy, cutting_proxy
from ..support.listeners import CUT, Parts, Reachable, by_events, by_rest, by_socket
from ..support.server_tools import WholeServer, whole_server
from ..support.serving_tools import PATIENCE, eventually

LONG = "The lighthouse had been dark for eleven years. Then somebody lit the lamp again. " * 10
MOST = 12_000  # bytes: a quarter of a second of speech


def by_wyoming(proxy: CuttingProxy) -> Parts:
    with socket.create_connection(("127.0.0.1", proxy.port), PATIENCE) as connection:
        event = {"type": "synthesize", "data": {"text": LONG}}
        connection.sendall(json.dumps(event).encode() + b"\n")
        while data := connection.recv(4096):
            yield data
    raise EOFError("the connection ended without the last event")


WAYS: dict[str, Callable[[CuttingProxy], Parts]] = {
    "REST": lambda proxy: by_rest(cast(Reachable, proxy), LONG),
    "events": lambda proxy: by_events(cast(Reachable, proxy), LONG),
    "WebSocket": lambda proxy: by_socket(cast(Reachable, proxy), LONG),
    "Wyoming": by_wyoming,
}


@pytest.fixture(scope="module")
def server() -> Iterator[WholeServer]:
    with whole_server(wyoming_port=0, grpc_port=None) as server:
        yield server


def open_connections(server: WholeServer) -> float:
    found = httpx.get(f"{server.url}/metrics").text.splitlines()
    lines = [line for line in found if line.startswith("chattts_connections ")]
    return float(lines[0].split()[1])


@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_cut_leaves_nothing(
    way: str, resets: bool, server: WholeServer, caplog: pytest.LogCaptureFixture
) -> None:
    service = server.service
    port = server.wyoming_port if way == "Wyoming" else int(server.url.rpartition(":")[2])
    assert port is not None
    with (
        caplog.at_level(logging.WARNING),
        cutting_proxy(port, MOST, resets=resets) as proxy,
    ):
        with pytest.raises((*CUT, OSError)):
            list(WAYS[way](proxy))
        assert proxy.cuts == 1
        assert eventually(lambda: not (service.admission.running or service.admission.waiting))
    assert eventually(lambda: not (service.model.engines()[0].metrics.running or service._speaking))
    # The question itself has a connection.
    assert eventually(lambda: open_connections(server) <= 1)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
