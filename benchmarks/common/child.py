"""Child processes of the benchmarks. Requests and answers are lines of JSON in pipes.

The sides of a comparison cannot share a process, since both packages are imported as ``ChatTTS``.
Each side is a long-lived child that loads once and then runs on request, so that only one process
computes at a time. This module uses the standard library only, because a child may run in the
environment of the published package.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")

_BENCHMARKS = Path(__file__).resolve().parents[1]
# A child of velocity's may still write its packed weights.
_SECONDS_TO_END = 20.0


class Stopwatch:
    """Add up the time that iterators take for their items, without the time of their readers."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def over(self, items: Iterator[T]) -> Iterator[T]:
        """Yield ``items`` unchanged and time each of them."""
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
    """Run the child's loop: answer requests from standard input until it is closed.

    What the handlers print goes to standard error, so that it cannot mix with the answers.
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


class ChildProcess:
    """The parent's end of a child. It is a context manager that lets the child end, or kills it.

    Args:
        name: for messages.
        python: the interpreter that runs the child.
        module: full name of the module that the child runs, which calls :func:`serve`.
        threads: number of threads that the child may compute on.
        environment: variables of the child, added to those of this process.
        isolated: keep the repository root, and so this project's ``ChatTTS``, off the child's
            ``sys.path``. The child then starts in ``benchmarks/`` and may import only the modules
            below it, by relative imports.
    """

    def __init__(
        self,
        name: str,
        python: Path,
        module: str,
        threads: int,
        environment: Mapping[str, str] | None = None,
        *,
        isolated: bool = False,
    ) -> None:
        self.name = name
        inherited = dict(os.environ)
        inherited.pop("PYTHONSAFEPATH", None)  # -m has to find the module in the child's folder
        if python != Path(sys.executable):
            inherited.pop("PYTHONPATH", None)  # it is for this environment's packages
        # OpenMP and MKL read their number of threads when they are loaded.
        count = {f"{library}_NUM_THREADS": str(threads) for library in ("OMP", "MKL")}
        # The child starts in another folder, from which a relative path would not be found.
        interpreter = python.absolute() if len(python.parts) > 1 else python
        self._process = subprocess.Popen(
            [interpreter, "-m", module.removeprefix("benchmarks.") if isolated else module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            env=inherited | count | dict(environment or {}),
            cwd=_BENCHMARKS if isolated else _BENCHMARKS.parent,
        )

    def call(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Have the child call its handler ``do``, and return the answer.

        Raises:
            RuntimeError: the handler failed or the child ended; the message says how.
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

    def __enter__(self) -> ChildProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(subprocess.TimeoutExpired):
            if kind is None:
                self._process.communicate(timeout=_SECONDS_TO_END)
        self._process.kill()
        self._process.communicate()
