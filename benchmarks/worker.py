"""A benchmark's side in a process of its own: requests and answers as JSON lines.

The sides of a comparison cannot share a process, since all are imported as ``ChatTTS``. Each is a
long-lived child that loads once and runs when it is told to, so that only one computes at a
time. Standard library only: the children may run in foreign environments.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")


class Stopwatch:
    """Adds up the time that iterators take to give their items, without that of their readers."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def over(self, items: Iterator[T]) -> Iterator[T]:
        """The same items, timed."""
        done = object()
        while True:
            start = time.perf_counter()
            try:
                item: Any = next(items, done)
            finally:
                self.seconds += time.perf_counter() - start
            if item is done:
                return
            yield item


def serve(handlers: Mapping[str, Callable[..., dict[str, Any]]]) -> None:
    """Be a child: answer requests from standard input until it ends.

    What the handlers print goes to standard error, where it cannot get between the answers.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = handlers[request.pop("do")](**request)
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


class Worker:
    """The parent's end of a child, and a context that ends it.

    Args:
        name: for messages.
        python: the interpreter that the child runs on.
        script: the file that the child runs, beside this one.
        threads: that the child may compute on.
        environment: variables of the child beside this process's own.
    """

    def __init__(
        self,
        name: str,
        python: Path,
        script: str,
        threads: int,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        keep = dict(os.environ)
        if python != Path(sys.executable):
            keep.pop("PYTHONPATH", None)  # it is for this environment's packages
        # The libraries below torch read their threads when they are loaded.
        count = {f"{library}_NUM_THREADS": str(threads) for library in ("OMP", "MKL")}
        self._process = subprocess.Popen(
            [python, Path(__file__).parent / script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            env=keep | count | dict(environment or {}),
        )

    def call(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Have the child ``do`` something, and wait for its answer.

        Raises:
            RuntimeError: it failed, or ended; the message says how.
        """
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            print(json.dumps({"do": do, **arguments}), file=process.stdin, flush=True)
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RuntimeError(f"{self.name} ended in {do!r} with exit status {process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{self.name} failed in {do!r}:\n{answer['error']}")
        return answer

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()
