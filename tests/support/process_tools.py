"""``python -m ChatTTS serve`` in a process of its own, and a client that listens for long."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import riva.client

from .serving_tools import PATIENCE, eventually

LONG = "The lighthouse had been dark for eleven years. Then somebody lit the lamp again. "
_MAIN = "import sys; from ChatTTS.cli import main; sys.exit(main())"


class Reader:
    """A client that listens to a long text, in a thread, until the end of the block."""

    def __init__(self, url: str, text: str) -> None:
        self._url, self._text = url, text
        self._first = threading.Event()
        self._error: Exception | None = None
        self._bytes = 0
        self._thread = threading.Thread(target=self._listen)

    def __enter__(self) -> Reader:
        self._thread.start()
        assert self._first.wait(PATIENCE)
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def whole(self) -> bool:
        """Wait for the end; return whether the sound came without an error."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self._error is None and self._bytes > 0

    def _listen(self) -> None:
        body = {"input": self._text, "response_format": "pcm", "seed": 3}
        try:
            address = f"{self._url}/v1/audio/speech"
            with httpx.stream("POST", address, json=body, timeout=PATIENCE) as answer:
                for part in answer.iter_raw():
                    self._bytes += len(part)
                    self._first.set()
        except httpx.HTTPError as error:
            self._error = error


class Process:
    """``chattts serve`` on free ports.

    Args:
        folder: the folder of its voices.
        options: further options of the command.
        before: code that the process runs first.
    """

    def __init__(self, folder: Path, *options: str, before: str = "") -> None:
        command = [sys.executable, "-c", f"{before}\n{_MAIN}", "serve", "--model", "bundled"]
        command += [
            "--threads",
            "1",
            "--port",
            "0",
            "--grpc-port",
            "0",
            "--voices",
            str(folder),
            *options,
        ]
        self._process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
        )
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.url = self.said(r"ready: (http://[^ \"]+)").group(1)

    def said(self, pattern: str) -> re.Match[str]:
        """Wait until a line of its log matches; return the match."""

        def found() -> re.Match[str] | None:
            return next(filter(None, (re.search(pattern, line) for line in self._lines)), None)

        def settled() -> bool:
            return found() is not None or not self._reader.is_alive()

        assert eventually(settled, 2 * PATIENCE)
        match = found()
        assert match is not None, "".join(self._lines)
        return match

    def signal(self) -> None:
        """Send SIGTERM."""
        self._process.send_signal(signal.SIGTERM)

    @property
    def grpc_address(self) -> str:
        """Host and port of its gRPC interface."""
        return self.said(r"(127\.0\.0\.1:\d+) \(gRPC").group(1)

    @contextlib.contextmanager
    def riva_client(self) -> Iterator[riva.client.SpeechSynthesisService]:
        """Yield Riva's client until the end of the block."""
        auth = riva.client.Auth(uri=self.grpc_address)
        try:
            yield riva.client.SpeechSynthesisService(auth)
        finally:
            auth.channel.close()

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def status(self) -> int:
        """Wait for the end of the process; return its exit status."""
        return self._process.wait(PATIENCE)

    def words(self) -> str:
        """Wait for the end of the log; return all of it."""
        self._reader.join(PATIENCE)
        return "".join(self._lines)

    def close(self) -> None:
        """Kill the process and wait for its end."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            self._lines.extend(iter(lines.readline, ""))
