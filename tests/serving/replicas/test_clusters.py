"""Replicas on a Ray that runs already, with several ranks each; autoscaling; affinity."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ...support.places import ROOT
from ...support.process_tools import Process
from ...support.replica_tools import Crowd, ReplicatedProcess, Task, by_rest
from ...support.serving_tools import PATIENCE, eventually
from ...support.system_tools import descendants, is_gone

pytest.importorskip("ray", reason="replicas need Ray: pip install 'chattts-velocity[serve,scale]'")

pytestmark = pytest.mark.slow

TEXT = "The lighthouse had been dark for eleven years. Then somebody lit the lamp again."
REPLICAS, RANKS = 2, 2
_RANK = "velocity.executor.ranks.program"


def nothing() -> None:
    pass


@pytest.fixture(scope="module")
def head() -> Iterator[subprocess.Popen[bytes]]:
    """A Ray of this machine with a token, which has cores for two replicas of two ranks.

    Its address is in the environment.
    """
    folder = tempfile.mkdtemp(prefix="r")  # paths of its sockets must be short
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            "HEAD": f"127.0.0.1:{port}",
            "PYTHONPATH": str(ROOT),
        }.items():
            patch.setenv(name, value)
        command = [sys.executable, "-c", "from ray.scripts.scripts import main; main()"]
        command += ["start", "--head", "--block", f"--port={port}", f"--temp-dir={folder}"]
        command += ["--num-cpus=5", "--include-dashboard=false", "--node-ip-address=127.0.0.1"]
        command += ["--object-store-memory=100000000"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            assert eventually(lambda: any("raylet" in line for line in below(process).values()))
            yield process
        finally:
            started = [process.pid, *below(process)]
            process.terminate()
            process.wait(PATIENCE)
            for pid in started:
                if not is_gone(pid):
                    os.kill(pid, signal.SIGKILL)
            shutil.rmtree(folder, ignore_errors=True)


def below(process: subprocess.Popen[bytes]) -> dict[int, str]:
    return descendants(process.pid)


def ranks(process: subprocess.Popen[bytes]) -> set[int]:
    """Return the processes of the ranks of all replicas."""
    return {pid for pid, line in below(process).items() if _RANK in line}


@pytest.fixture(scope="module")
def front(
    head: subprocess.Popen[bytes], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ReplicatedProcess]:
    """A front that runs two replicas of two ranks on the cluster."""
    started = ReplicatedProcess(
        tmp_path_factory.mktemp("voices"),
        REPLICAS,
        *("--ray-address", os.environ["HEAD"], "--tensor-parallel-size", str(RANKS)),
    )
    try:
        assert len(ranks(head)) == REPLICAS * RANKS
        yield started
        assert started.end() == 0
        assert eventually(lambda: not ranks(head))
    finally:
        started.close()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The text as a server of one process speaks it."""
    single = Process(tmp_path_factory.mktemp("voices"))
    try:
        return by_rest(single, Task(TEXT, 5), nothing)  # type: ignore[arg-type]
    finally:
        single.close()


def refused(*options: str, holding: int | None = None) -> str:
    """Return the error of a server that cannot start.

    Args:
        options: of the command.
        holding: a port that another program takes while the server starts.
    """
    with tempfile.TemporaryDirectory() as voices:
        command = [sys.executable, "-m", "ChatTTS", "serve", "--model", "bundled", "--port", "0"]
        command += ["--threads", "1", "--voices", voices, *options]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            told = [process.stderr.readline()]
            if holding is None:
                told += process.stderr
            else:
                with socket.create_server(("127.0.0.1", holding)):
                    told += process.stderr
            assert process.wait(PATIENCE) == 1
    errors = [line for line in told if line.startswith("chattts: error: ")]
    assert len(errors) == 1, told
    return errors[0]


def test_a_cluster_without_the_application(head: subprocess.Popen[bytes]) -> None:
    told = refused("--no-grpc", "--ray-address", os.environ["HEAD"])
    assert "no application 'chattts' runs" in told


def test_a_port_that_is_taken_meanwhile_takes_the_replicas_along(
    head: subprocess.Popen[bytes],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    where = ("--ray-address", os.environ["HEAD"], "--grpc-port", str(port))
    told = refused(*where, "--data-parallel-size", "1", holding=port)
    assert re.search(rf"cannot listen on .*:{port}", told)
    assert eventually(lambda: not any("ServeReplica" in line for line in below(head).values()))


def test_replicas_of_several_ranks_speak_as_one_process(
    head: subprocess.Popen[bytes], front: ReplicatedProcess, alone: bytes
) -> None:
    assert by_rest(front, Task(TEXT, 5), nothing) == alone
    before = ranks(head)
    crowd = Crowd()
    with crowd.listening(front, [(0, Task(TEXT, 5))] * 4):
        assert eventually(lambda: crowd.begun >= 2)
        os.kill(min(before), signal.SIGKILL)
    assert list(crowd.results.values()) == [alone] * 4
    assert eventually(lambda: len(ranks(head)) == REPLICAS * RANKS, 4 * PATIENCE)
    assert len(ranks(head) & before) == RANKS


def test_another_front_uses_the_replicas_that_run(
    head: subprocess.Popen[bytes], front: ReplicatedProcess, alone: bytes, tmp_path: Path
) -> None:
    before = ranks(head)
    other = Process(tmp_path, "--ray-address", os.environ["HEAD"])
    try:
        assert by_rest(other, Task(TEXT, 5), nothing) == alone  # type: ignore[arg-type]
        other.signal()
        assert other.status() == 0
    finally:
        other.close()
    assert ranks(head) == before
    assert by_rest(front, Task(TEXT, 5), nothing) == alone
    told = refused("--no-grpc", "--ray-address", os.environ["HEAD"], "--data-parallel-size", "1")
    assert "is already running on the Ray cluster" in told


ASKING = """
import asyncio, json, os
import numpy as np
from ChatTTS.checkpoints.assets import locate
from ChatTTS.config import Config
from ChatTTS.serving.requests.jobs import SpeechJob
from ChatTTS.serving.replicas.messages import Opened
from ChatTTS.utils.ray_cluster import cluster_at
from ChatTTS.utils.ray_environment import prepare
prepare("a test", private_cluster=False)
with cluster_at(os.environ["HEAD"], "HEAD"):
    from ray import serve
    from ChatTTS.serving.replicas.on_ray.calls import RayPool
    from ChatTTS.serving.replicas.on_ray.cluster import APPLICATION
    from ChatTTS.serving.replicas.on_ray.deployment import NAME
    pool = RayPool(serve.get_deployment_handle(NAME, APPLICATION))
    noise = np.random.default_rng(1).normal(0, 0.05, (2, 24_000)).astype(np.float32)
    samples = [pool.encode_sample(each, 24_000) for each in noise]
    voices = [{"spk_smp": sample, "txt_smp": "Hello."} for sample in samples]
    speakers = Config.from_file(locate("bundled").config).defaults.speakers
    voices.append({"spk_emb": next(iter(speakers.values()))})

    async def replica_of(voice, seed):
        job = SpeechJob("Hello.", voice, {"manual_seed": seed, "max_new_token": 20}, seed)
        names = [m.state.replica async for m in pool.speak(job) if isinstance(m, Opened)]
        return names[0]

    async def main():
        return [[await replica_of(voice, seed) for seed in range(16)] for voice in voices]

    print(json.dumps(asyncio.run(main())))
"""


@pytest.mark.usefixtures("front")
def test_requests_with_a_sample_go_where_it_was_spoken_with() -> None:
    """One after the other, so the load does not decide; others go to both replicas."""
    done = subprocess.run(
        [sys.executable, "-c", ASKING], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    one, two, others = json.loads(done.stdout.splitlines()[-1])
    assert len(set(one)) == len(set(two)) == 1
    assert len(set(others)) == 2


def test_replicas_come_with_the_load(tmp_path: Path) -> None:
    """A second one comes while the first has more requests than it should have."""
    stop = threading.Event()
    failed: list[Exception] = []
    started = ReplicatedProcess(
        tmp_path, 1, *("--max-replicas", "2", "--max-running", "6", "--result-cache", "0")
    )

    def listen(seed: int) -> None:
        try:
            while not stop.is_set():
                by_rest(started, Task(" ".join([TEXT] * 6), seed), nothing)
        except Exception as error:  # it is asserted that there is none
            failed.append(error)

    clients = [threading.Thread(target=listen, args=(seed,)) for seed in range(9)]
    try:
        assert len(started.replicas()) == 1
        for client in clients:
            client.start()
        came = eventually(lambda: len(started.replicas()) == 2)
        stop.set()
        for client in clients:
            client.join(PATIENCE)
        assert came
        assert not failed
        assert started.end() == 0
    finally:
        stop.set()
        started.close()
