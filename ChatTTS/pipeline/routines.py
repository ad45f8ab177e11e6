"""Routines: work that needs an engine, and holds no thread while the engine computes.

A routine is a generator. It yields requests, and is sent what they gained in a step of the engine;
then it yields nothing new (``()``) for the next step, until all of them have ended. Then it may
yield other requests, or return its result. What it has to say meanwhile goes to a callback. While
none of its requests runs, ``()`` only hands over what it has said: it goes on at once.

So one thread can advance the routines of many calls, each when its requests have news.
:func:`run` and :func:`told_by` advance one alone, in the thread of a caller that waits.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TypeAlias, TypeVar

from ..model.generation import Cancellation, Delta, GenerationRequest
from ..model.gpt import GPT

R = TypeVar("R")
T = TypeVar("T")

Routine: TypeAlias = Generator[Sequence[GenerationRequest], list[Delta], R]
# Takes the news of a routine.
Tell: TypeAlias = Callable[[T], object]


def run(routine: Routine[R], gpt: GPT, cancelled: Cancellation) -> R:
    """Run ``routine`` in this thread; return its result.

    Args:
        cancelled: ends its requests.
    """
    try:
        requests = next(routine)
        while True:
            for gained in _steps(gpt, requests, cancelled):
                requests = routine.send(gained)
    except StopIteration as end:
        result: R = end.value
        return result


def told_by(
    routine: Callable[[Tell[T]], Routine[object]], gpt: GPT, cancelled: Cancellation
) -> Iterator[T]:
    """Run a routine in this thread; yield what it tells.

    The engine makes a step only when the news of the step before are taken.

    Args:
        routine: made for a callback.
    """
    news: list[T] = []
    running = routine(news.append)
    requests = next(running, None)
    yield from _taken(news)
    while requests is not None:
        for gained in _steps(gpt, requests, cancelled):
            try:
                requests = running.send(gained)
            except StopIteration:
                requests = None
            yield from _taken(news)


def _taken(news: list[T]) -> list[T]:
    """Return all of ``news``, and leave it empty."""
    taken = news[:]
    news.clear()
    return taken


def _steps(
    gpt: GPT, requests: Sequence[GenerationRequest], cancelled: Cancellation
) -> Iterable[list[Delta]]:
    """Return what requests gain step by step; without any, one step that gains nothing."""
    return gpt.generate(requests, cancelled) if requests else ([],)
