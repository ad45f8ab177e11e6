"""A server in a process of its own."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

_URL = re.compile(r"http://[\w.:\[\]]+")


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
