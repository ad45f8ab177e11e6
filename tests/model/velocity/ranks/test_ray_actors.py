"""Engines of ranks that are actors of a Ray cluster."""

from __future__ import annotations

import importlib.util
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ChatTTS.errors import ConfigError, EngineDeadError, EngineUnavailableError
from ChatTTS.model.generation import Cancellation
from ChatTTS.model.velocity.ranks import ray_actors
from ChatTTS.model.velocity.ranks.executor import RanksExecutor

from ....support.matrix_tools import Engine, check_every_bit, collect, plain, requests_of, velocity
from ....support.velocity_fakes import wait_until

NAME = "model-a"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of this machine, for which four ranks are not too many."""
    ray = pytest.importorskip("ray", reason="needs the extra scale")
    ray.init(num_cpus=4, include_dashboard=False)
    yield ray
    ray.shutdown()


def start(ranks: int, stages: int) -> Engine:
    return velocity(
        NAME,
        tensor_parallel_size=ranks,
        pipeline_parallel_size=stages,
        distributed_executor_backend="ray",
    )


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(2, 1), (2, 2)], ids=str)
def test_actors_give_the_bits_of_one_rank(cluster: Any, sizes: tuple[int, int]) -> None:
    with start(*sizes) as engine:
        check_every_bit(collect(engine.generator, requests_of(NAME)), plain(NAME))
    wait_until(lambda: cluster.available_resources().get("CPU") == 4)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_callers_are_told_of_a_rank_that_is_lost(cluster: Any, how: signal.Signals) -> None:
    engine = start(2, 1)
    executor = engine.generator.engine.engine.executor
    assert isinstance(executor, RanksExecutor)
    group = executor._group
    assert isinstance(group, ray_actors.ActorGroup)
    long = replace(requests_of(NAME)[0].sampling, min_new=900, max_new=900)
    steps = engine.generator.generate(
        [replace(requests_of(NAME)[0], sampling=long)], Cancellation()
    )
    next(steps)
    os.kill(cluster.get(group.links[1].actor.pid.remote()), how)
    with pytest.raises(EngineDeadError, match="rank 1"):
        for _ in steps:
            pass
    engine.generator.close()


@pytest.mark.slow
def test_a_cluster_without_room(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_actors, "_PLACEMENT_SECONDS", 1)
    with pytest.raises(ConfigError, match=r"3 ranks need \{'CPU': 2\} each"):
        velocity(NAME, tensor_parallel_size=3, distributed_executor_backend="ray", num_threads=2)


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "ray" else found(name, *rest),
    )
    with pytest.raises(EngineUnavailableError, match=r"chattts\[scale\]"):
        velocity(NAME, tensor_parallel_size=2, distributed_executor_backend="ray")
