"""Hold the bits of requests that join, end and are aborted by chance against their lone runs.

The full model under traffic, with launches that overlap and without: a read before a launch's wait,
a row in another row's slot, or a result at the turn of another step changes bits here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from ChatTTS.model.generation import GenerationRequest
from ChatTTS.model.kernels.cuda.dependent_launch import OVERLAP_VARIABLE
from ChatTTS.model.velocity.llm_engine import LLMEngine

from .codes import Answer
from .model import engine_args, traffic
from .scale import Task


@dataclass(frozen=True)
class Way:
    """How requests come.

    Attributes:
        overlaps: whether launches may overlap.
        gap: the mean number of steps from one request to the next; 0 if all come at once.
        aborts: whether some are aborted on their way.
    """

    overlaps: bool = True
    gap: float = 1.5
    aborts: bool = True


WAYS = {
    "by chance": Way(),
    "without overlap": Way(overlaps=False),
    "at once": Way(gap=0.0, aborts=False),
}
# One request in so many is aborted, after fewer steps than these.
_ABORTED, _STEPS = 7, 100


def measure(task: Task, dtype: str) -> None:
    """Record how many requests of each way differ from their lone runs.

    On a CPU, whose torch references do not keep bits, only their numbers of ids are compared.

    Raises:
        RuntimeError: a request failed, or differs; the record says which.
    """
    count, longest = task.scale.soak
    requests = [_bounded(each, longest) for each in islice(traffic(task.scale.gpt), count)]
    record, found = task.record, dict[str, Any]()
    record.put(dtype=dtype, requests=count, ways=found)
    args = engine_args(task, dtype)
    alone: dict[str, Answer] = {}
    same = _is_beginning if task.device.type == "cuda" else _is_no_longer
    wrong: list[str] = []
    for name, way in WAYS.items():
        began = time.perf_counter()
        with patch.dict(os.environ, {OVERLAP_VARIABLE: str(int(way.overlaps))}):
            engine = LLMEngine.from_engine_args(args)
            for request in () if alone else tuple(requests):
                alone |= serve(engine, [request], Way(gap=0.0, aborts=False))
            answers = serve(engine, requests, way)
            engine.close()
        differ = [each for each, own in answers.items() if not same(own, alone[each])]
        ended = sum(len(own.ids) == len(alone[each].ids) for each, own in answers.items())
        found[name] = {
            "seconds": time.perf_counter() - began,
            "ids": sum(len(own.ids) for own in answers.values()),
            "ended": ended,
            "differ": differ,
        }
        record.put(ways=found)
        if differ:
            wrong.append(f"{name}: {len(differ)} of {len(answers)} ({', '.join(differ[:5])})")
    if wrong:
        raise RuntimeError(f"requests are not as alone in {dtype}: {'; '.join(wrong)}")


def _bounded(request: GenerationRequest, longest: int) -> GenerationRequest:
    """Return a request with as many ids as before, but no more than ``longest``."""
    most = min(request.sampling.max_new, longest)
    return replace(request, sampling=replace(request.sampling, max_new=most, min_new=most))


def serve(engine: LLMEngine, requests: Sequence[GenerationRequest], way: Way) -> dict[str, Answer]:
    """Return what each request gained; an aborted one gained the beginning of its answer.

    Raises:
        RuntimeError: a request failed.
    """
    random = np.random.default_rng(0)
    waiting = list(requests)
    ids: dict[str, list[np.ndarray]] = {}
    hiddens: dict[str, list[torch.Tensor]] = {}
    left: dict[str, int] = {}  # steps until a request is aborted
    while waiting or engine.has_unfinished_requests():
        arrivals = int(random.poisson(1 / way.gap)) if way.gap else len(waiting)
        joined, waiting = waiting[:arrivals], waiting[arrivals:]
        engine.add(joined)
        for request in joined:
            if way.aborts and random.integers(_ABORTED) == 0:
                left[request.request_id] = int(random.integers(1, _STEPS))
        if not engine.has_unfinished_requests():
            continue
        for output in engine.step():
            if output.error is not None:
                raise RuntimeError(f"{output.request_id} failed: {output.error}")
            for delta in output.deltas:
                ids.setdefault(output.request_id, []).append(delta.ids.numpy())
                hiddens.setdefault(output.request_id, []).append(delta.hiddens.float())
        left = {each: steps - 1 for each, steps in left.items()}
        for each in [each for each, steps in left.items() if steps == 0]:
            engine.abort_request(each)
    return {each: Answer(np.concatenate(ids[each]), torch.cat(hiddens[each])) for each in ids}


def _is_beginning(own: Answer, whole: Answer) -> bool:
    """Return whether an answer has the bits of the beginning of another."""
    count = len(own.ids)
    same = np.array_equal(own.ids, whole.ids[:count])
    return bool(same and torch.equal(own.hiddens, whole.hiddens[:count]))


def _is_no_longer(own: Answer, whole: Answer) -> bool:
    return len(own.ids) <= len(whole.ids)
