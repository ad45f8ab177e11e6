"""Engines of ranks that are processes: the bits of one process, and the loss of a rank."""

from __future__ import annotations

import errno
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

from ChatTTS.core import Chat
from ChatTTS.errors import ConfigError, EngineDeadError, EngineUnavailableError
from ChatTTS.model.generation import Cancellation
from ChatTTS.model.velocity.configs import EngineArgs
from ChatTTS.model.velocity.executor.ranks import executor as ranks
from ChatTTS.model.velocity.executor.ranks import processes
from ChatTTS.model.velocity.executor.ranks.channels import BEATS, RankGroup
from ChatTTS.model.velocity.executor.ranks.executor import RanksExecutor
from ChatTTS.model.velocity.executor.ranks.messages import Failed, encode
from ChatTTS.model.velocity.executor.ranks.processes import (
    HOST,
    ProcessChannel,
    ProcessGroup,
    start_processes,
)
from ChatTTS.model.velocity.metrics import Metrics

from .....support.matrix_tools import (
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
from .....support.places import ROOT
from .....support.system_tools import listening_addresses
from .....support.velocity_fakes import in_thread
from .....support.waiting import wait_until

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
        group = group_of(engine)
        pids = [channel.process.pid for channel in group.channels]
        assert len(pids) == ranks * stages
        assert listening_addresses([os.getpid(), *pids]) == {HOST}
        for _ in range(2):
            check_every_bit(collect(engine.generator, requests_of(name)), plain(name))
        if name == "model-a":
            found = collect(engine.generator, asking(name))
            check_attention(found, plain_attention(name), 0)
        metrics = engine.metrics
    assert all(map(is_gone, pids))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, group.port), PATIENCE)
    return metrics


@pytest.mark.slow
def test_two_ranks_give_the_bits_of_one() -> None:
    compare("model-a", (2, 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("model-a", (1, 2)),
        ("model-b", (2, 2)),
        pytest.param("model-a", (3, 1), marks=pytest.mark.thorough),
        pytest.param("model-b", (4, 1), marks=pytest.mark.thorough),
    ],
    ids=str,
)
def test_any_number_of_ranks_gives_the_bits_of_one(name: str, sizes: tuple[int, int]) -> None:
    compare(name, sizes)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sizes", [(1, 2), pytest.param((3, 1), marks=pytest.mark.thorough)], ids=str
)
def test_the_bundled_voice(sizes: tuple[int, int]) -> None:
    compare("bundled", sizes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "swap"), [((2, 1), True), ((1, 2), False)], ids=["swap", "recompute"]
)
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
    parallel = {"tensor_parallel_size": 3, "pipeline_parallel_size": 2}
    with velocity("model-a", **half, **parallel) as engine:
        check_every_bit(collect(engine.generator, requests_of("model-a")), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(2, 1), (2, 2)], ids=str)
def test_calls_that_leave_change_no_bit_of_others(sizes: tuple[int, int]) -> None:
    """They leave while plans with their sequences are in flight."""
    parallel = dict(zip(("tensor_parallel_size", "pipeline_parallel_size"), sizes, strict=True))
    requests = requests_of("model-a")
    with velocity("model-a", **parallel) as engine:
        found = in_thread(lambda: collect(engine.generator, requests))
        for count in range(12):
            steps = engine.generator.generate(requests[count % 3 :: 3], Cancellation())
            for _ in range(1 + count % 4):
                next(steps)
            steps.close()
        check_every_bit(found(), plain("model-a"))
        check_every_bit(collect(engine.generator, requests), plain("model-a"))
        wait_until(lambda: engine.metrics.used_blocks == 0)


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
        Chat().load_or_raise("bundled", device="cpu", use_vllm=False, tensor_parallel_size=2)


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
    os.kill(group.channels[number].process.pid, how)
    for thread in threads:
        thread.join(PATIENCE)
    assert len(told) == 2
    wait_until(lambda: all(is_gone(channel.process.pid) for channel in group.channels))
    with pytest.raises(EngineDeadError):
        next(engine.generator.generate([long], Cancellation()))
    return told[0]


def test_callers_are_told_of_a_rank_that_was_killed(endless: Engine) -> None:
    told = lose(endless, 1, signal.SIGKILL)
    assert "rank 1" in told
    assert "ended with code -9" in told
    assert "load the model again" in told


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 2])
def test_callers_are_told_of_a_rank_of_a_pipeline(number: int) -> None:
    """As many plans are in flight as there are stages."""
    engine = velocity("model-a", pipeline_parallel_size=3)
    told = lose(engine, number, signal.SIGKILL)
    assert f"rank {number}" in told
    engine.generator.close()


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
        "print(*[l.process.pid for l in llm.engine.engine.executor._group.channels], flush=True)\n"
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


def test_a_rank_that_cannot_be_started_takes_the_others_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def limited(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        if len(started) == 2:
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        started.append(program(*args, **options))
        return started[-1]

    program = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", limited)
    with pytest.raises(EngineUnavailableError, match=r"3 ranks .*temporarily unavailable"):
        ProcessGroup(["cpu"] * 3, 1)
    assert [process.returncode for process in started] == [-signal.SIGKILL] * 2
    for process in started:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdin.closed
        wait_until(lambda pipe=process.stdout: pipe.closed)  # type: ignore[misc]


class FakeProcess:
    """A process that runs, or has ended by itself."""

    pid = 1

    def __init__(self, code: int | None) -> None:
        self._code = code

    def poll(self) -> int | None:
        return self._code

    def wait(self, timeout: float | None = None) -> int | None:
        return self._code

    def kill(self) -> None:
        pass


def test_an_error_of_a_rank_is_told_and_not_the_end_of_its_process() -> None:
    """The second rank fails because the first one is gone, which had told why."""
    group = ProcessGroup.__new__(ProcessGroup)
    group._lock, group._lost, group._closed = threading.Lock(), None, threading.Event()
    group.channels = [ProcessChannel.__new__(ProcessChannel) for _ in range(2)]
    for number, channel in enumerate(group.channels):
        channel.number, channel.has_failed, channel.beats = number, False, 0
        channel.process = FakeProcess(None if number else 0)  # type: ignore[assignment]
        channel.replies = SimpleQueue()
    first, second = (encode(Failed("ConfigError", words)) for words in ("a cause", "it is gone"))
    group.fail(group.channels[0], first)
    group.fail(group.channels[1], second)
    for channel in group.channels:
        assert channel.replies.get_nowait() == first
        assert channel.replies.get_nowait() is None
        assert channel.replies.empty()


@pytest.mark.parametrize("is_dropped", [True, False])
def test_ranks_are_closed_once_their_user_is_gone(
    monkeypatch: pytest.MonkeyPatch, is_dropped: bool
) -> None:
    """A rank that hangs is found by the second look at it, if there is one."""
    monkeypatch.setattr(processes, "BEAT_SECONDS", 0)
    group = ProcessGroup.__new__(ProcessGroup)
    group._lost, group._closed = None, threading.Event()
    channel = ProcessChannel.__new__(ProcessChannel)
    group.channels, channel.beats = [channel], BEATS - 1
    ends: list[str] = []

    def lose(channel: ProcessChannel, how: str) -> None:
        ends.append("lost")
        group._closed.set()

    monkeypatch.setattr(group, "close", lambda: ends.append("closed"))
    monkeypatch.setattr(group, "lose", lose)
    group.user = weakref.ref(ProcessChannel.__new__(ProcessChannel) if is_dropped else channel)
    group._watch()
    assert ends == ["closed" if is_dropped else "lost"]


def test_an_error_of_a_rank_closes_the_ranks() -> None:
    """Those of Ray do not end by themselves."""

    class FailingRanks(RankGroup):
        is_closed = False

        def __init__(self) -> None:
            self.channels = [self]  # type: ignore[list-item]

        def receive(self) -> bytes:
            return encode(Failed("ConfigError", "a cause"))

        def close(self) -> None:
            self.is_closed = True

    config = EngineArgs(FOLDERS["model-a"], tensor_parallel_size=2).create_engine_config()
    executor = RanksExecutor(config, start_processes)
    executor._group = group = FailingRanks()
    with pytest.raises(ConfigError, match="a cause"):
        executor._reply(0, Failed)
    assert group.is_closed


PRINTS = """
import os, threading, time
def print_for_ever():
    while True:
        os.write(1, b"a library prints")
        time.sleep(0.001)
threading.Thread(target=print_for_ever, daemon=True).start()
time.sleep(0.05)
"""


@pytest.mark.slow
def test_a_rank_may_print_and_imports_nothing_from_where_it_is_started(tmp_path: Path) -> None:
    """A relative path of the checkpoint is one of the folder where the script is started."""
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    (own / "sitecustomize.py").write_text(PRINTS)
    (own / "script.py").write_text(
        "from ChatTTS.model.velocity.llm import LLM\n"
        "with LLM('model', device='cpu', tensor_parallel_size=2) as llm:\n"
        "    assert len(llm.generate(['hello'], seeds=1)) == 1\n"
    )
    (other / "queue.py").write_text("raise ImportError('this is no module of Python')\n")
    (other / "model").symlink_to(FOLDERS["model-a"])
    done = subprocess.run(
        [sys.executable, str(own / "script.py")],
        cwd=other,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(own), str(ROOT)])},
        capture_output=True,
        timeout=PATIENCE * 10,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]


def test_the_host_reads_the_embeddings_for_a_script_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    config = EngineArgs(FOLDERS["model-a"], tensor_parallel_size=2).create_engine_config()
    executor = RanksExecutor(config, start_processes)
    files: list[str] = []

    def load(file: Path, *sizes: object) -> object:
        files.append(file.name)
        return sizes

    monkeypatch.setattr(ranks, "load_embed", load)
    executor._read_sizes()
    assert not files
    assert executor.embed is executor.embed
    assert files == ["Embed.safetensors"]


@pytest.mark.slow
def test_ranks_end_with_an_engine_that_is_dropped() -> None:
    engine = velocity("model-a", tensor_parallel_size=2)
    pids = [channel.process.pid for channel in group_of(engine).channels]
    del engine
    gc.collect()
    wait_until(lambda: all(map(is_gone, pids)))


@pytest.mark.slow
def test_ctrl_c_does_not_reach_the_ranks() -> None:
    """A terminal sends it to all processes of its group."""
    with velocity("model-a", tensor_parallel_size=2) as engine:
        own = os.getpgid(0)
        assert all(os.getpgid(channel.process.pid) != own for channel in group_of(engine).channels)
