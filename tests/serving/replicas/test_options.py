"""Numbers of replicas and options that cannot be; all of it without Ray."""

from __future__ import annotations

import importlib.util
import re
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ChatTTS.cli import main
from ChatTTS.errors import ConfigError
from ChatTTS.serving.replicas.options import LoadOptions, ReplicaOptions, threads_per_rank
from ChatTTS.utils import machine

LOAD = LoadOptions("bundled", None, "cpu", "float32", 2, "8 sequences")


def test_a_fixed_number_of_replicas() -> None:
    options = ReplicaOptions.of(3, None, None, 16)
    assert options.is_fixed
    assert options.share == 6
    deployment = options.as_deployment(LOAD, needs_gpu=False)
    assert deployment["num_replicas"] == 3
    assert deployment["ray_actor_options"] == {"num_cpus": 2, "num_gpus": 0}
    assert deployment["max_ongoing_requests"] >= 2 * options.share
    assert "autoscaling_config" not in deployment


def test_a_number_that_follows_the_load() -> None:
    options = ReplicaOptions.of(2, 1, 4, 16)
    deployment = options.as_deployment(LOAD, needs_gpu=True)
    assert deployment["autoscaling_config"] == {
        "min_replicas": 1,
        "initial_replicas": 2,
        "max_replicas": 4,
        "target_ongoing_requests": 6.0,
        "upscale_delay_s": 5.0,
        "downscale_delay_s": 300.0,
    }
    assert deployment["ray_actor_options"] == {"num_cpus": 2, "num_gpus": 1}
    assert "num_replicas" not in deployment
    ranks = replace(LOAD, tensor_parallel_size=3, pipeline_parallel_size=2)
    deployment = options.as_deployment(ranks, needs_gpu=True)
    assert deployment["ray_actor_options"] == {"num_cpus": 12, "num_gpus": 6}


@pytest.mark.parametrize("bounds", [(2, 3, None), (4, None, 3), (1, 0, 1)])
def test_bounds_that_contradict_each_other(bounds: tuple[int, int | None, int | None]) -> None:
    with pytest.raises(ConfigError, match="replicas"):
        ReplicaOptions.of(*bounds, running=16)


def test_replicas_must_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "usable_cores", lambda: 4.5)
    ReplicaOptions.of(2, None, None, 16).check_here(LOAD)
    with pytest.raises(ConfigError, match=r"3 replicas of 2 threads need 6 cores.* 4\.5"):
        ReplicaOptions.of(2, 1, 3, 16).check_here(LOAD)
    assert threads_per_rank(None, 2) == 2
    assert threads_per_rank(None, 9) == 1
    assert threads_per_rank(3, 2) == 3
    with pytest.raises(ConfigError, match="num_threads"):
        threads_per_rank(0, 2)


@pytest.mark.parametrize(
    ("options", "message", "status"),
    [
        (["--min-replicas", "2"], "--min-replicas is for replicas", 2),
        (["--max-replicas", "2"], "--max-replicas is for replicas", 2),
        (
            ["--ray-address", "auto", "--tensor-parallel-size", "2"],
            "leave out --tensor-parallel-size",
            2,
        ),
        (
            ["--data-parallel-size", "2", "--distributed-executor-backend", "ray"],
            "leave out --distributed-executor-backend ray",
            2,
        ),
        (
            ["--data-parallel-size", "2", "--tensor-parallel-size", "64"],
            "2 replicas of 64 ranks of 1 threads need 128 cores",
            1,
        ),
        (["--data-parallel-size", "0"], "--data-parallel-size must be 1 or more", 2),
        (["--data-parallel-size", "2", "--max-replicas", "1"], "--max-replicas (1)", 1),
        (
            ["--data-parallel-size", "1", "--tensor-parallel-size", "0"],
            "tensor_parallel_size must be",
            1,
        ),
        (["--data-parallel-size", "9999"], "need 9999 cores", 1),
    ],
)
def test_the_command_refuses_wrong_options(
    options: list[str],
    message: str,
    status: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    where = ["--port", "0", "--no-grpc", "--voices", str(tmp_path), "--model", "bundled"]
    assert main(["serve", *where, *options]) == status
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told


@pytest.mark.parametrize("option", ["--port", "--grpc-port"])
def test_a_port_in_use_starts_nothing(
    option: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The ports are looked at before Ray is."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: pytest.fail(name))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = {"--port": "0", "--grpc-port": "0", option: str(taken.getsockname()[1])}
        where = [word for pair in ports.items() for word in pair]
        replicas = ["--data-parallel-size", "2", "--threads", "1"]
        assert (
            main(["serve", "--model", "bundled", "--voices", str(tmp_path), *where, *replicas]) == 1
        )
    told = capsys.readouterr().err
    assert re.search(
        rf"cannot listen on .*\(Address already in use\); choose another {option}", told
    )
    assert len(told.splitlines()) == 1


def test_without_ray_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec

    def hidden(name: str, *package: Any) -> Any:
        return None if name == "ray" else found(name, *package)

    monkeypatch.setattr(importlib.util, "find_spec", hidden)
    where = ["--port", "0", "--no-grpc", "--voices", str(tmp_path), "--model", "bundled"]
    assert main(["serve", *where, "--data-parallel-size", "1", "--threads", "1"]) == 1
    assert "chattts-velocity[serve,scale]" in capsys.readouterr().err
