"""Engines of ranks that are actors of a Ray cluster."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ChatTTS.errors import ConfigError, EngineDeadError, EngineUnavailableError
from ChatTTS.model.generation import Cancellation
from ChatTTS.model.velocity.executor.ranks import ray_actors
from ChatTTS.model.velocity.executor.ranks.executor import RanksExecutor
from ChatTTS.utils import ray_cluster

from .....support.matrix_tools import (
    FOLDERS,
    Engine,
    check_every_bit,
    collect,
    plain,
    requests_of,
    velocity,
)
from .....support.places import ROOT
from .....support.system_tools import is_gone
from .....support.waiting import wait_until

NAME = "model-a"
PATIENCE = 300  # for a script that starts Ray on a busy machine


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
    pids = cluster.get([channel.actor.pid.remote() for channel in group.channels])
    os.kill(pids[1], how)
    with pytest.raises(EngineDeadError, match="rank 1"):
        for _ in steps:
            pass
    engine.generator.close()
    wait_until(lambda: all(map(is_gone, pids)))


@pytest.mark.slow
def test_a_cluster_without_room(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_actors, "_PLACEMENT_SECONDS", 1)
    with pytest.raises(ConfigError, match=r"3 ranks need \{'CPU': 2\} each"):
        velocity(NAME, tensor_parallel_size=3, distributed_executor_backend="ray", num_threads=2)


LOADING = f"""
import json, os
from ChatTTS.model.velocity.llm import LLM
from tests.support.system_tools import descendants, listening_addresses
def load(**options):
    return LLM({str(FOLDERS[NAME])!r}, device="cpu", num_threads=1, tensor_parallel_size=2,
               distributed_executor_backend="ray", kv_memory="64MB", **options)
"""
OWN = """
llm = load()
below = descendants(os.getpid())
found = {"actors": [pid for pid, line in below.items() if "RankActor" in line],
         "all": list(below), "addresses": sorted(listening_addresses({os.getpid(), *below})),
         "mode": os.environ["RAY_AUTH_MODE"], "token": len(os.environ["RAY_AUTH_TOKEN"])}
"""


def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script without a ``__main__`` guard."""
    return subprocess.run(
        [sys.executable, "-c", LOADING + code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


@pytest.mark.slow
def test_a_private_cluster_is_closed_to_others_and_ends_with_its_engines() -> None:
    pytest.importorskip("ray", reason="needs the extra scale")
    done = run(
        OWN
        + "llm.close()\n"
        + "import ray\nfound['connected'] = ray.is_initialized()\n"
        + "found['left'] = sorted(descendants(os.getpid()).values())\n"
        + "load().close()\n"  # a second cluster, in the process of the first
        + "print(json.dumps(found))"
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found["actors"]) == 2
    assert found["mode"] == "token"
    assert found["token"] == 64
    assert found["addresses"] == ["127.0.0.1"]
    assert not found["connected"]
    assert found["left"] == []


@pytest.mark.slow
def test_a_script_that_ends_without_closing_leaves_nothing() -> None:
    pytest.importorskip("ray", reason="needs the extra scale")
    done = run(OWN + "print(json.dumps(found))")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    pids = json.loads(done.stdout.splitlines()[-1])["all"]
    assert len(pids) > 3
    wait_until(lambda: all(map(is_gone, pids)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "address", "message"),
    [
        ("load()", "127.0.0.1:9", "cannot use a Ray cluster at 127.0.0.1:9 .*RAY_ADDRESS"),
        ("load()", "ray://127.0.0.1:10001", "RAY_ADDRESS .* is for Ray clients"),
        ("import ray; load()", "", "Ray was imported before"),
        ("load(max_num_seqs=4)", "", r"2 ranks need .* each, .* \(it has "),
    ],
)
def test_what_cannot_run_ends_with_one_error(code: str, address: str, message: str) -> None:
    pytest.importorskip("ray", reason="needs the extra scale")
    few = "from ChatTTS.utils import machine\nmachine.usable_cores = lambda: 1\n"
    done = run(few + code, RAY_ADDRESS=address)
    assert done.returncode == 1
    assert re.search(message, done.stderr.splitlines()[-1]), done.stderr


def test_a_fork_does_not_end_the_actors_of_its_parent() -> None:
    group = ray_actors.ActorGroup.__new__(ray_actors.ActorGroup)
    group._owner, group._lost = os.getpid() + 1, None
    with pytest.raises(EngineDeadError, match="fork"):
        group.check()
    group.close()  # touches nothing of the parent's


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "is_connected", lambda: False)
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "ray" else found(name, *rest),
    )
    with pytest.raises(EngineUnavailableError, match=r"'chattts-velocity\[serve,scale\]'"):
        velocity(NAME, tensor_parallel_size=2, distributed_executor_backend="ray")
