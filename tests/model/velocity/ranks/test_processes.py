"""Engines of ranks that are processes: the bits of one process, and the loss of a rank."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ChatTTS.core import Chat
from ChatTTS.errors import ConfigError, EngineDeadError
from ChatTTS.model.generation import Cancellation
from ChatTTS.model.velocity.metrics import Metrics
from ChatTTS.model.velocity.ranks.executor import RanksExecutor
from ChatTTS.model.velocity.ranks.links import RankLostError
from ChatTTS.model.velocity.ranks.processes import ProcessGroup

from ....support.matrix_tools import (
    FOLDERS,
    Engine,
    asking,
    check_attention,
    check_every_bit,
    collect,
    plain,
    plain_attention,
    requests_of,
    tight_pool,
    velocity,
)
from ....support.places import ROOT

# A lost rank is noticed within two seconds; the rest is for a busy machine.
PATIENCE = 20


def group_of(engine: Engine) -> ProcessGroup:
    executor = engine.generator.engine.engine.executor
    assert isinstance(executor, RanksExecutor)
    group = executor._group
    assert isinstance(group, ProcessGroup)
    return group


def is_gone(pid: int) -> bool:
    """Whether a process has ended and was waited for."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def compare(name: str, sizes: tuple[int, int], **settings: Any) -> Metrics:
    """Compare with a single rank twice, the second time with what the prefix cache kept."""
    ranks, stages = sizes
    parallel = {"tensor_parallel_size": ranks, "pipeline_parallel_size": stages}
    with velocity(name, **parallel, **settings) as engine:
        pids = [link.process.pid for link in group_of(engine).links]
        assert len(pids) == ranks * stages
        for _ in range(2):
            check_every_bit(collect(engine.generator, requests_of(name)), plain(name))
        if name == "model-a":
            found = collect(engine.generator, asking(name))
            check_attention(found, plain_attention(name), 0)
        metrics = engine.metrics
    assert all(map(is_gone, pids))
    return metrics


def test_two_ranks_give_the_bits_of_one() -> None:
    compare("model-a", (2, 1))


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(1, 2), (2, 2), (3, 1), (4, 1)], ids=str)
@pytest.mark.parametrize("name", ["model-a", "model-b"])
def test_any_number_of_ranks_gives_the_bits_of_one(name: str, sizes: tuple[int, int]) -> None:
    compare(name, sizes)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(2, 1), (1, 2), (3, 1), (2, 2)], ids=str)
def test_the_bundled_voice(sizes: tuple[int, int]) -> None:
    compare("bundled", sizes)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(2, 1), (1, 2)], ids=str)
@pytest.mark.parametrize("swap", [False, True], ids=["recompute", "swap"])
def test_what_is_preempted_comes_back(sizes: tuple[int, int], swap: bool) -> None:
    settings = tight_pool("model-a") | {"enable_prefix_caching": False}
    metrics = compare("model-a", sizes, **settings, swap_memory="64MB" if swap else None)
    assert (metrics.preempted_swap if swap else metrics.preempted_recompute) > 0


@pytest.mark.slow
def test_torch_alone_gives_the_bits_of_one() -> None:
    """In float16 there are no CPU kernels."""
    half = {"dtype": "float16"}
    with velocity("model-a", **half) as alone:
        wanted = collect(alone.generator, requests_of("model-a"))
    for sizes in ((3, 1), (2, 2)):
        parallel = dict(zip(("tensor_parallel_size", "pipeline_parallel_size"), sizes, strict=True))
        with velocity("model-a", **half, **parallel) as engine:
            check_every_bit(collect(engine.generator, requests_of("model-a")), wanted)


@pytest.mark.slow
def test_a_chat_speaks_equal_samples() -> None:
    """Two stages of one rank, with the times of words."""
    spoken = []
    for stages in (1, 2):
        chat = Chat()
        chat.load_or_raise("bundled", device="cpu", use_vllm=True, pipeline_parallel_size=stages)
        spoken.append(
            chat.infer(
                ["Good morning to you all.", "One, two, three."],
                skip_refine_text=True,
                word_times=True,
                params_infer_code={"manual_seed": 5},
            )
        )
        chat.unload()
    one, two = spoken
    assert all(map(np.array_equal, one, two))
    assert one.words == two.words


def test_the_standard_path_has_no_ranks() -> None:
    with pytest.raises(ConfigError, match="use_vllm=True"):
        Chat().load_or_raise("bundled", device="cpu", tensor_parallel_size=2)


# ---------------------------------------------------------------- the end of a rank


@pytest.fixture
def endless() -> Iterator[Engine]:
    """An engine of two ranks."""
    engine = velocity("model-a", tensor_parallel_size=2)
    yield engine
    engine.generator.close()


def lose(engine: Engine, number: int, how: signal.Signals) -> str:
    """Send a signal to a rank while two calls listen; return what they are told."""
    group, told = group_of(engine), []
    long = replace(
        requests_of("model-a")[0],
        sampling=replace(requests_of("model-a")[0].sampling, min_new=900, max_new=900),
    )
    began = threading.Barrier(3)

    def listen() -> None:
        steps = engine.generator.generate([long], Cancellation())
        next(steps)
        began.wait(PATIENCE)
        try:
            for _ in steps:
                pass
        except EngineDeadError as error:
            told.append(str(error))

    threads = [threading.Thread(target=listen) for _ in range(2)]
    for thread in threads:
        thread.start()
    began.wait(PATIENCE)
    os.kill(group.links[number].process.pid, how)
    for thread in threads:
        thread.join(PATIENCE)
    assert len(told) == 2
    assert all(is_gone(link.process.pid) for link in group.links)
    with pytest.raises(EngineDeadError):
        next(engine.generator.generate([long], Cancellation()))
    return told[0]


def test_callers_are_told_of_a_rank_that_was_killed(endless: Engine) -> None:
    told = lose(endless, 1, signal.SIGKILL)
    assert "rank 1" in told
    assert "ended with code -9" in told
    assert "load the model again" in told


@pytest.mark.slow
def test_callers_are_told_of_a_rank_that_hangs(endless: Engine) -> None:
    told = lose(endless, 0, signal.SIGSTOP)
    assert "rank 0" in told
    assert "does not answer" in told


@pytest.mark.parametrize(
    ("sizes", "name"),
    [
        ({"tensor_parallel_size": 5}, "4 heads"),
        ({"pipeline_parallel_size": 4}, "3 layers"),
        ({"tensor_parallel_size": 0}, "at least 1"),
        ({"distributed_executor_backend": "mpi"}, "'mp', 'ray'"),
    ],
)
def test_sizes_that_do_not_fit_start_nothing(sizes: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        velocity("model-a", **sizes)


@pytest.mark.slow
def test_an_error_of_a_rank_is_the_callers(tmp_path: Path) -> None:
    """The cache that is asked for is too small for a block, which only the ranks know."""
    with pytest.raises(ConfigError, match="kv_memory is 1000 bytes"):
        velocity("model-a", tensor_parallel_size=2, kv_memory=1000)


@pytest.mark.slow
def test_ranks_end_with_the_process_that_started_them() -> None:
    """A script without a ``__main__`` guard, which is killed."""
    script = (
        "from ChatTTS.model.velocity.llm import LLM\n"
        f"llm = LLM({str(FOLDERS['model-a'])!r}, device='cpu', tensor_parallel_size=2)\n"
        "print(*[l.process.pid for l in llm.engine.engine.executor._group.links], flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert len(pids) == 2
        process.kill()
    end = time.monotonic() + PATIENCE
    while not all(map(is_gone, pids)):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_fork_does_not_speak_for_its_parent() -> None:
    group = ProcessGroup.__new__(ProcessGroup)
    group._owner, group._lost = os.getpid() + 1, None
    with pytest.raises(RankLostError, match="fork"):
        group.check()


@pytest.mark.slow
def test_ctrl_c_does_not_reach_the_ranks() -> None:
    """A terminal sends it to all processes of its group."""
    with velocity("model-a", tensor_parallel_size=2) as engine:
        own = os.getpgid(0)
        assert all(os.getpgid(link.process.pid) != own for link in group_of(engine).links)
