"""The server that is measured: ours, one that a command starts, or one that runs already."""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from . import process_tree
from .clients import Ask, by_rest, by_websocket, by_wyoming
from .process import ServerProcess, free_ports

_PATIENCE = 300.0  # seconds until a server must be ready
_POLL = 0.05


@dataclass(frozen=True)
class MeasuredServer:
    """A server that is ready.

    Attributes:
        ways: how it is asked, by the names of its interfaces.
        process: the number of its process; ``None`` for one of another machine.
        ready: seconds from its start until it was ready; ``None`` where it ran before.
    """

    ways: Mapping[str, Ask]
    process: int | None = None
    ready: float | None = None

    def cpu_seconds(self) -> float | None:
        """Return the processor time of the server, of all its processes, up to now."""
        return None if self.process is None else process_tree.cpu_seconds(self.process)

    def megabytes(self) -> float | None:
        """Return the resident memory of the server."""
        return None if self.process is None else process_tree.megabytes(self.process)


def add_server_arguments(parser: ArgumentParser) -> None:
    """Add the options that name the server."""
    parser.add_argument("--model", default="bundled", help="folder of a checkpoint")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--running", type=int, default=16, help="side by side in our server")
    parser.add_argument("--waiting", type=int, default=16, help="that may wait there")
    parser.add_argument("--url", help="of another server of OpenAI's kind")
    parser.add_argument("--command", help="that starts the other server; it is ended afterwards")
    parser.add_argument("--process", type=int, help="number of its process, if it runs already")
    parser.add_argument(
        "--field", action="append", default=[], metavar="NAME=VALUE", help="of the request's body"
    )
    parser.add_argument(
        "--no-seed", dest="seed", action="store_false", help="the server knows no seeds"
    )


@contextlib.contextmanager
def measured_server(args: Namespace) -> Iterator[MeasuredServer]:
    """Yield the server, and end it where this has started it."""
    fields = {name: value_of(text) for name, _, text in (f.partition("=") for f in args.field)}
    if args.url is None:
        with tempfile.TemporaryDirectory() as folder:
            yield from _ours(args, Path(folder), {"model": "chattts", **fields})
        return
    ways = {"rest": by_rest(args.url, fields, with_seed=args.seed)}
    if args.command is None:
        yield MeasuredServer(ways, args.process)
        return
    began = time.monotonic()
    with subprocess.Popen(shlex.split(args.command), stdout=subprocess.DEVNULL) as process:
        try:
            _await(args.url, process)
            yield MeasuredServer(ways, process.pid, time.monotonic() - began)
        finally:
            process.terminate()


def value_of(text: str) -> Any:
    """Return a value of JSON; what is none is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _ours(args: Namespace, folder: Path, fields: dict[str, Any]) -> Iterator[MeasuredServer]:
    [wyoming] = free_ports(1)
    began = time.monotonic()
    with ServerProcess(
        folder,
        running=args.running,
        waiting=args.waiting,
        dtype=args.dtype,
        interfaces=("--no-grpc", "--wyoming-port", str(wyoming)),
        model=args.model,
    ) as server:
        ways = {
            "rest": by_rest(server.url, fields),
            "websocket": by_websocket(server.url, {k: fields[k] for k in fields if k != "model"}),
            "wyoming": by_wyoming(wyoming, fields.get("voice")),
        }
        yield MeasuredServer(ways, server.number, time.monotonic() - began)


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until a server answers about its health."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        if process.poll() is not None:
            raise SystemExit(f"the server ended with status {process.returncode}")
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/health").status_code == 200:
                return
        time.sleep(_POLL)
    raise SystemExit(f"the server was not ready after {_PATIENCE:g} s")
