"""A server in a process of its own, and the resources that it holds."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import httpx
from prometheus_client.parser import text_string_to_metric_families

_URL = re.compile(r"http://[\w.:\[\]]+")


@dataclass(frozen=True)
class Usage:
    """The resources that the server holds at a moment.

    Attributes:
        running, waiting: numbers of requests.
        blocks: blocks of the KV cache that sequences hold.
        megabytes: resident memory.
        files: open files and sockets.
        threads: threads of the process.
    """

    running: int
    waiting: int
    blocks: int
    megabytes: float
    files: int
    threads: int


class ServerProcess:
    """`chattts serve` on a free port; a context manager that starts and ends it.

    Args:
        folder: of the voices.
        running, waiting: most requests that are spoken, and that wait.
        dtype: of the language model.
        interfaces: options of the interfaces beside HTTP.
        model: the bundled voice, or the folder of a checkpoint.
        program: what Python runs, with the options of ``chattts serve`` behind it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        running: int,
        waiting: int,
        dtype: str,
        interfaces: Sequence[str] = ("--no-grpc",),
        model: str = "bundled",
        program: Sequence[str] = ("-m", "ChatTTS", "serve"),
    ) -> None:
        self._command = [
            *(sys.executable, *program, "--port", "0", *interfaces),
            *("--model", model, "--dtype", dtype, "--voices", str(folder)),
            *("--max-running", str(running), "--max-waiting", str(waiting)),
        ]
        self.url = ""

    def __enter__(self) -> ServerProcess:
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        said = []
        for line in self._process.stderr:
            said.append(line)
            if found := _URL.search(line):
                self.url = found[0]
                break
        else:
            raise SystemExit("the server did not start:\n" + "".join(said))
        # The server would block once the pipe of its log is full, so a thread reads it.
        threading.Thread(target=_drain, args=[self._process.stderr], daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait(60)

    @property
    def number(self) -> int:
        """The number of the process."""
        return self._process.pid

    async def usage(self) -> Usage:
        """Return the resources that the server holds now."""
        async with httpx.AsyncClient() as client:
            text = (await client.get(f"{self.url}/metrics")).text
        values = {
            sample.name: sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
        process = Path("/proc") / str(self._process.pid)
        pages = int((process / "statm").read_text().split()[1])
        return Usage(
            running=int(values["chattts_running"]),
            waiting=int(values["chattts_waiting"]),
            blocks=int(values["chattts_kv_blocks_used"]),
            megabytes=pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
            files=len(list((process / "fd").iterdir())),
            threads=len(list((process / "task").iterdir())),
        )


def free_ports(count: int) -> list[int]:
    """Return ports of this machine that nothing listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _drain(lines: Iterable[str]) -> None:
    for _ in lines:
        pass
