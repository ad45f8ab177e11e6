"""The servers of a soak, each a process with a folder of its own for temporary files."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import httpx
from prometheus_client.parser import text_string_to_metric_families

from ..process import free_ports
from .requests import Place
from .watch import Holding, descendants, files_in, holding, is_there

_READY = re.compile(r"(?:ready:|serving) http://127\.0\.0\.1:(\d+)")
_START_SECONDS = 300.0
_END_SECONDS = 120.0
_REPLICA = "ray::ServeReplica"
_GAUGES = (
    "chattts_running",
    "chattts_waiting",
    "chattts_kv_blocks_used",
    "chattts_connections",
    "chattts_engines",
    "chattts_scripts_queued",
    "chattts_scripts_running",
)
# Lines of a log that tell of an error of the program.
_TROUBLE = re.compile(r"Traceback \(most recent call last\)|Task exception was never retrieved")


class SoakServer:
    """A server in a process of its own; a context manager that ends it.

    Args:
        name: of it, in reports.
        folder: for its log and its temporary files.
        arguments: of ``chattts``.
        place: its ports, with 0 for HTTP where the log tells it.

    Attributes:
        place: its ports.
        status: the exit status, once it has ended.
        left: temporary files, and processes, that it left.
    """

    def __init__(
        self, name: str, folder: Path, arguments: Sequence[str | Path], place: Place
    ) -> None:
        self.name, self.place = name, place
        self._arguments = [str(argument) for argument in arguments]
        self._temporary = folder / name[0]  # short: paths of sockets are limited
        self._temporary.mkdir(parents=True)
        self.log = folder / f"{name}.log"
        self.status: int | None = None
        self.left: list[str] = []

    def __enter__(self) -> SoakServer:
        environment = {**os.environ, "TMPDIR": str(self._temporary), "OMP_NUM_THREADS": "1"}
        with self.log.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ChatTTS", *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        below = descendants(self.pid)
        self._process.terminate()
        try:
            self.status = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self.status = self._process.wait()
        # Two agents of Ray may stay for a while; they are no processes of ours.
        self.left = [line for pid, line in below.items() if is_there(pid) and _REPLICA in line]
        self.left += [name for name in files_in(self._temporary) if not name.startswith("ray-")]

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Return whether the process has not ended."""
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Wait until it answers; learn the port of HTTP.

        Raises:
            SystemExit: it does not start.
        """
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until and self.runs:
            if self.place.mcp:
                if _answers(self.place.mcp):
                    return
            elif match := _READY.search(self.log.read_text(encoding="utf-8", errors="replace")):
                self.place = Place(int(match[1]), self.place.grpc, self.place.wyoming)
                return
            time.sleep(0.2)
        raise SystemExit(f"the server {self.name} did not start:\n" + self._last_lines())

    def replicas(self) -> list[int]:
        """Return the numbers of the processes of its replicas."""
        below = descendants(self.pid)
        return sorted(pid for pid, line in below.items() if line.startswith(_REPLICA))

    def holdings(self) -> dict[str, Holding]:
        """Return what its processes hold: of the server by its name, of others by their role."""
        found: dict[str, Holding] = {}
        below = {self.pid: self.name}
        for pid, line in descendants(self.pid).items():
            is_replica = line.startswith(_REPLICA)
            below[pid] = f"replica {pid}" if is_replica else f"beside {self.name} {pid}"
        for pid, role in below.items():
            if (held := holding(pid)) is not None:
                found[role] = held
        return found

    async def gauges(self) -> dict[str, float]:
        """Return the gauges of its metrics; none where it has no metrics or does not answer."""
        if not self.place.http:
            return {}
        try:
            async with httpx.AsyncClient(timeout=20, verify=False, trust_env=False) as client:
                text = (await client.get(f"{self.place.url}/metrics")).text
        except httpx.HTTPError:
            return {}
        return {
            sample.name: sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name in _GAUGES
        }

    def temporary_files(self) -> list[str]:
        """Return its temporary files, without those of Ray."""
        return [name for name in files_in(self._temporary) if not name.startswith("ray-")]

    def troubles(self) -> list[str]:
        """Return the lines of the log that tell of an error of the program, with the next ones."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        places = [number for number, line in enumerate(lines) if _TROUBLE.search(line)]
        return ["\n".join(lines[max(0, place - 1) : place + 30]) for place in places]

    def _last_lines(self) -> str:
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:])


def _answers(port: int) -> bool:
    try:
        httpx.get(f"http://127.0.0.1:{port}/mcp", timeout=5, trust_env=False)
    except httpx.HTTPError:
        return False
    return True


def has(*packages: str) -> bool:
    """Return whether all packages are installed."""
    return all(importlib.util.find_spec(package) is not None for package in packages)


def started(
    stack: ExitStack, folder: Path, names: Sequence[str], model: str, adapters: Mapping[str, Path]
) -> dict[str, SoakServer]:
    """Start servers and return them once all answer.

    Args:
        stack: ends them.
        folder: for their files.
        names: of ``plain``, ``front`` (two replicas), ``idle`` (unloads) and ``mcp``.
        model: a checkpoint.
        adapters: folders by names.
    """
    wyoming, grpc, their_wyoming, their_grpc, mcp = free_ports(5)
    loaded = [f"--adapter={name}={path}" for name, path in adapters.items()]
    own = ["--model", model, "--threads", "1", *loaded]
    serve: list[str | Path] = [
        "serve",
        "--port",
        "0",
        *own,
        "--dtype",
        "float32",
        "--voices",
        folder / "voices",
    ]
    serve += ["--max-wait-seconds", "120"]

    def with_doors(name: str, wyoming: int, grpc: int, *more: str) -> SoakServer:
        doors: list[str] = ["--scripts", str(folder / f"scripts-{name}"), "--no-announce"]
        doors += ["--wyoming-port", str(wyoming)] if has("wyoming", "zeroconf") else []
        doors += ["--grpc-port", str(grpc)] if has("grpc", "riva") else ["--no-grpc"]
        return SoakServer(name, folder, [*serve, *doors, *more], Place(0, grpc, wyoming))

    made = {
        "plain": lambda: with_doors("plain", wyoming, grpc),
        "front": lambda: with_doors(
            "front", their_wyoming, their_grpc, "--data-parallel-size", "2"
        ),
        "idle": lambda: SoakServer(
            "idle",
            folder,
            [*serve, "--scripts", folder / "scripts-idle", "--no-grpc", "--idle-unload", "20"],
            Place(),
        ),
        "mcp": lambda: SoakServer("mcp", folder, ["mcp", "--http", str(mcp), *own], Place(mcp=mcp)),
    }
    servers = {name: stack.enter_context(made[name]()) for name in names}
    for server in servers.values():
        server.wait_until_ready()
    return servers
