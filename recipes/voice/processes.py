"""Work in other processes, with the results in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def in_processes(
    function: Callable[[A], B], items: Iterable[A], workers: int | None = None, ahead: int = 2
) -> Generator[B, None, None]:
    """Yield ``function`` of each item, in order, computed by worker processes.

    Processes are spawned, since forks of a process with threads can hang. At most ``ahead`` results
    per worker are pending, so memory stays small when the reader is slow. If a worker dies, this
    generator raises an error.

    Args:
        function: a function that can be imported by name, or a ``partial`` of one.
        items: its arguments.
        workers: number of processes; None takes one for each core, 0 computes in this process.
        ahead: number of pending items per worker.
    """
    if workers == 0:
        yield from map(function, items)
        return
    count = workers or os.cpu_count() or 1
    pool = ProcessPoolExecutor(count, get_context("spawn"))
    pending: deque[Future[B]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > count * ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
