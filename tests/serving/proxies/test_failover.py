"""A server behind a proxy is killed, drained or too busy."""

from __future__ import annotations

import ast
import contextlib
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import httpx
import pytest

from ...support.listeners import (
    RIVA,
    WAYS,
    Listener,
    Parts,
    Reachable,
    Way,
    by_call,
    by_events,
    by_rest,
    by_riva,
    by_socket,
)
from ...support.places import ROOT
from ...support.process_tools import LONG, Process
from ...support.proxy_tools import (
    KINDS,
    ProxiedServer,
    Proxy,
    places,
    riva_service,
    two_servers,
)
from ...support.serving_tools import PATIENCE, RunningServer, eventually

pytestmark = pytest.mark.slow

SHORT = "We went home."
# Forty seconds of speech: all streams begin before the first one ends.
STORY = LONG * 7
ENDLESS = LONG * 100

Pair = Callable[..., tuple[ProxiedServer, list[Process]]]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def pair(
    kind: str, reference: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Pair]:
    """Start a proxy, and two servers of its own with some options."""
    with contextlib.ExitStack() as stack:

        def started(*options: str) -> tuple[ProxiedServer, list[Process]]:
            servers = stack.enter_context(two_servers(tmp_path / "voices", *options))
            folder = tmp_path / "proxy"
            folder.mkdir()
            proxy = Proxy(kind, folder, places(servers))
            stack.callback(proxy.close)
            monkeypatch.setenv("SSL_CERT_FILE", str(proxy.certificate))
            return ProxiedServer(proxy, reference), servers

        yield started


def load(server: Process) -> tuple[int, int]:
    """Return how many requests the server speaks, and how many wait."""
    queue = httpx.get(f"{server.url}/v1/status", timeout=PATIENCE).json()
    return queue["running"], queue["waiting"]


def holds(servers: Sequence[Process], waiting: int) -> bool:
    """Return whether so many requests wait in all servers together."""
    return sum(load(one)[1] for one in servers) == waiting


def spoken(server: Process) -> Counter[str]:
    """Return the server's number of requests by how they ended."""
    metrics = httpx.get(f"{server.url}/metrics", timeout=PATIENCE).text.splitlines()
    counts: Counter[str] = Counter()
    for line in metrics:
        if line.startswith("chattts_requests_total{"):
            finish = line.partition('finish="')[2].partition('"')[0]
            counts[finish] += int(float(line.rpartition(" ")[2]))
    return counts


def sound(server: Process, text: str) -> bytes:
    """Return the sound of a text, without a proxy."""
    return b"".join(by_rest(server, text))


def streams(server: ProxiedServer, ways: Sequence[Way], text: str) -> list[Listener]:
    """Let two clients listen in each of the ways; each server has one of the two."""
    return [Listener(way, server, text).begun() for way in ways for _ in range(2)]


def bound(server: ProxiedServer, names: Sequence[str]) -> list[Listener]:
    """Let a client of each name, which the proxy binds to a server, listen to a short text."""
    ways = [partial(by_rest, headers={"x-affinity": name}) for name in names]
    return [Listener(way, server, SHORT) for way in ways]


def by_patience(server: Reachable, text: str) -> Parts:
    """Yield the sound of a call that gRPC's client itself repeats, as docs/scaling.md shows."""
    assert isinstance(server, ProxiedServer)
    document = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^POLICY = ({.*?^})$", document, re.MULTILINE | re.DOTALL)
    policy = json.dumps(ast.literal_eval(block))
    with riva_service(server.proxy, ("grpc.service_config", policy)) as client:
        for part in client.synthesize_online(text, **RIVA):
            yield part.audio


def check_cut(begun: Sequence[Listener], story: bytes) -> None:
    """Check that one of each two was cut, which its client noticed, and that the other is whole."""
    for first, second in zip(begun[::2], begun[1::2], strict=True):
        assert first.whole() != second.whole(), first.way
        cut, whole = (second, first) if first.whole() else (first, second)
        assert whole.sound == story
        assert story.startswith(cut.sound)
        assert len(cut.sound) < len(story)


def test_a_killed_server_cuts_what_it_had_begun_and_nothing_else(pair: Pair, kind: str) -> None:
    server, (killed, left) = pair("--max-running", "3", "--max-wait-seconds", "600")
    names = ["anna", "ben", "carla", "dora"]
    assert all(listener.whole() for listener in bound(server, names))
    begun = streams(server, (by_rest, by_events, by_riva), STORY)
    waiting = [Listener(way, server, SHORT) for way in (by_rest, by_patience) for _ in range(4)]
    assert eventually(lambda: [load(one) for one in (killed, left)] == [(3, 4), (3, 4)])
    calls: list[Listener] = []
    for held in (9, 10):  # one after the other: so each server has one of them
        calls.append(Listener(by_call, server, SHORT))
        assert eventually(partial(holds, (killed, left), held))
    assert load(killed) == load(left) == (3, 5)

    killed.close()
    story, short = sound(left, STORY), sound(left, SHORT)

    check_cut(begun, story)
    assert all(listener.whole() and listener.sound == short for listener in waiting)
    # nginx keeps nothing of a call that it has sent; without patience, its client is told.
    assert sum(call.whole() for call in calls) == (1 if kind == "nginx" else 2)
    assert all(call.sound == (short if call.whole() else b"") for call in calls)
    later = [Listener(way, server, SHORT) for way in WAYS for _ in range(2)]
    later += bound(server, names)
    assert all(listener.whole() and listener.sound == short for listener in later)


def test_a_killed_server_cuts_its_websockets(pair: Pair) -> None:
    server, (killed, left) = pair()
    begun = streams(server, (by_socket,), STORY)
    killed.close()
    check_cut(begun, sound(left, STORY))


def test_a_drained_server_loses_nothing(pair: Pair, kind: str) -> None:
    server, (drained, left) = pair("--drain-delay", "15", "--shutdown-seconds", "600")
    begun = streams(server, WAYS, STORY)
    if kind == "nginx":
        server.proxy.take_out((drained.url, drained.grpc_address))
    drained.signal()
    shorts = []
    while drained.is_running:
        round_ = [Listener(way, server, SHORT) for way in WAYS]
        assert all(listener.whole() for listener in round_)
        shorts += round_
        time.sleep(0.5)  # the streams end sooner on cores that speak nothing else
    assert drained.status() == 0
    assert all(listener.whole() for listener in begun)
    assert "all requests have finished" in drained.words()
    story, short = sound(left, STORY), sound(left, SHORT)
    assert {bytes(listener.sound) for listener in begun} == {story}
    assert {bytes(listener.sound) for listener in shorts} == {short}


def test_full_servers_refuse_honestly_and_stay_in_use(pair: Pair) -> None:
    server, servers = pair("--max-running", "1", "--max-waiting", "1", "--max-wait-seconds", "600")
    occupying: list[Listener] = []
    for text in (ENDLESS,) * 4:  # two of them wait
        occupying.append(Listener(by_rest, server, text))
        assert eventually(lambda: sum(sum(load(one)) for one in servers) == len(occupying))
    for _ in range(8):
        body = {"input": SHORT}
        answer = httpx.post(f"{server.url}/v1/audio/speech", json=body, timeout=PATIENCE)
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "server_overloaded"
        assert int(answer.headers["retry-after"]) >= 1
    for listener in occupying:
        listener.leave()
    # Each server notices through the proxy that its clients have left.
    assert eventually(lambda: [load(one) for one in servers] == [(0, 0)] * 2)
    assert [spoken(one)["abort"] for one in servers] == [2, 2]
    assert Listener(by_rest, server, SHORT).whole()


# ------------------------------------------------------------------ servers that stay


def test_requests_with_equal_affinity_go_to_one_server(
    server: ProxiedServer, servers: list[Process]
) -> None:
    used = set()
    for number in range(20):  # so that each server gets some
        before = [spoken(one).total() for one in servers]
        for count in (1, 2):  # HAProxy knows a name once its first request was answered
            assert all(listener.whole() for listener in bound(server, [f"name {number}"] * count))
        rises = [spoken(one).total() - n for one, n in zip(servers, before, strict=True)]
        assert sorted(rises) == [0, 3]
        used.add(rises.index(3))
    assert used == {0, 1}


def test_requests_without_affinity_go_to_the_least_busy_server(
    server: ProxiedServer, servers: list[Process]
) -> None:
    before = [spoken(one).total() for one in servers]
    both = [Listener(by_rest, server, LONG).begun() for _ in range(2)]
    assert all(listener.whole() for listener in both)
    assert [spoken(one).total() - n for one, n in zip(servers, before, strict=True)] == [1, 1]
