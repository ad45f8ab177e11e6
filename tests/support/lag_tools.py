"""Watches the event loop of a server from another process: how long it stands still, and why."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class WatchedServer:
    """A server in a process of its own.

    Attributes:
        url: of HTTP.
        grpc_address: host and port of gRPC.
        wyoming_port: of Wyoming, if it is served.
        process: the server's.
    """

    url: str
    grpc_address: str
    wyoming_port: int | None
    process: subprocess.Popen[str]

    def longest_gap(self) -> float:
        """Return the seconds of the longest gap since the last look."""
        gap: float = self._look()["gap"]
        return gap

    def imported(self) -> list[str]:
        """Return the names of the modules that were imported since the last look."""
        names: list[str] = self._look()["imported"]
        return names

    def _look(self) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def gap_of(self, attack: Callable[[], object], tries: int = 3) -> float:
        """Return the least of the longest gaps of several tries: the machine has other work."""
        gaps = []
        for _ in range(tries):
            self.longest_gap()
            attack()
            time.sleep(0.05)
            gaps.append(self.longest_gap())
        return min(gaps)


@contextlib.contextmanager
def watched_server(**settings: Any) -> Iterator[WatchedServer]:
    """Run a server in a process of its own within this context.

    Args:
        settings: fields of ``Settings`` that JSON can hold.
    """
    command = [sys.executable, "-m", "tests.support.lag_child", json.dumps(settings)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        try:
            yield WatchedServer(told["url"], told["grpc"], told["wyoming"], process)
        finally:
            process.stdin.close()
            process.wait(60)
