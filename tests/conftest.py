"""Fixtures of all tests. Tests use the local network only, and GPU tests need a GPU."""

from __future__ import annotations

import gc
import io
import math
import signal
import socket
import sys
import time
from collections.abc import Generator, Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import torch

from .support import kernel_tools  # noqa: F401  before anything imports Triton

from ChatTTS.checkpoints import assets  # isort: skip
from ChatTTS.core import Chat  # isort: skip

from .again import EXIT_STATUS
from .support.phoneme_voice import load_phoneme_voice, save_phoneme_voice
from .support.places import DATA

pytest_plugins = ["ChatTTS.pytest_plugin", "pytester"]

# Modules from the extras. A test module that imports a missing one is skipped with a message.
OPTIONAL = {
    *("fastapi", "starlette", "uvicorn", "websockets", "grpc", "grpc_health", "av"),
    *("prometheus_client", "httpx", "openai", "riva", "schemathesis", "playwright"),
    *(
        "matplotlib",
        "triton",
        "pocketsphinx",
        "ray",
        "wyoming",
        "zeroconf",
        "mcp",
        "lxml",
        "pyloudnorm",
        "scipy",
        "pysubs2",
    ),
}


# Tests of tools that no user gets are slow, but for those that are marked as smoke.
UNSHIPPED = ("tests/benchmarks/", "tests/recipes/")


_BUDGET: pytest.StashKey[float] = pytest.StashKey()

# As this run began, by OMP_NUM_THREADS or the number of cores.
_TORCH_THREADS = torch.get_num_threads()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--budget",
        type=float,
        metavar="SECONDS",
        help="begin no test after so many seconds; the others are skipped, and the summary says so",
    )


def pytest_configure(config: pytest.Config) -> None:
    budget = config.getoption("--budget")
    config.stash[_BUDGET] = math.inf if budget is None else time.monotonic() + budget


@pytest.hookimpl(tryfirst=True)  # before fixtures, which may take as long as a test
def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.monotonic() > item.config.stash[_BUDGET]:
        pytest.skip("not begun: the budget of this run was used up")


class ModuleOfTests(pytest.Module):
    """Tests that are skipped where an optional package is missing."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        try:
            return super().collect()
        except self.CollectError as error:
            missing = getattr(error.__cause__, "name", None)
            if missing not in OPTIONAL:
                raise
            pytest.skip(f"{missing} is not installed", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    return ModuleOfTests.from_parent(parent, path=module_path)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Have the garbage collector leave out the modules, which stay until the end.

    Each full collection would look at millions of objects again: those of the interpreter while
    modules are imported, those of tests that look for garbage, and those of a server's start.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        case = getattr(getattr(item, "callspec", None), "id", "")
        patterns = [pattern for mark in item.iter_markers("slow_for") for pattern in mark.args]
        is_tool = item.nodeid.startswith(UNSHIPPED) and not item.get_closest_marker("smoke")
        is_thorough = item.get_closest_marker("thorough") is not None
        if is_tool or is_thorough or any(fnmatchcase(case, pattern) for pattern in patterns):
            item.add_marker(pytest.mark.slow)

    gpu_tests = [item for item in items if item.get_closest_marker("gpu")]
    if not gpu_tests:
        return
    if not torch.cuda.is_available():
        for item in gpu_tests:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Keep how the run ended for ``tests/again.py``."""
    cache = getattr(session.config, "cache", None)
    if cache is not None and not hasattr(session.config, "workerinput"):
        cache.set(EXIT_STATUS, int(exitstatus))


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs with SIGINT ignored; tests of Ctrl-C need the default handler.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a test that needs the network fail, also on machines that have one."""
    connect = socket.socket.connect

    def connect_nearby(self: socket.socket, address: Any) -> None:
        inet = self.family in (socket.AF_INET, socket.AF_INET6)
        if inet and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise RuntimeError(f"a test tried to connect to {address[0]}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect_nearby)


@pytest.fixture(autouse=True)
def _usual_threads() -> Iterator[None]:
    """Take back the number of torch's threads that a load with ``num_threads`` set for the process.

    Where all cores are busy, each operator on more threads waits for all of them, so that the tests
    which follow would take many times as long.
    """
    yield
    if torch.get_num_threads() != _TORCH_THREADS:
        torch.set_num_threads(_TORCH_THREADS)


def _small(use_vllm: bool) -> Chat:
    chat = Chat()
    # Test processes run in parallel, and threads on one core wait for each other.
    num_threads = 1 if use_vllm else None
    chat.load_or_raise(
        "custom",
        custom_path=DATA / "model-a",
        device="cpu",
        use_vllm=use_vllm,
        num_threads=num_threads,
    )
    return chat


@pytest.fixture(scope="session")
def standard() -> Chat:
    """A conformance model on the standard engine; its random weights give noise."""
    return _small(use_vllm=False)


@pytest.fixture(scope="session", params=["standard", "velocity"])
def small(request: pytest.FixtureRequest) -> Chat:
    """A conformance model, once on each engine."""
    if request.param == "velocity":
        return _small(use_vllm=True)
    standard: Chat = request.getfixturevalue("standard")
    return standard


@pytest.fixture(scope="session")
def phoneme_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small random voice that reads phonemes."""
    return save_phoneme_voice(tmp_path_factory.mktemp("phonemes"))


@pytest.fixture(scope="session", params=["standard", "velocity"])
def phonetic(request: pytest.FixtureRequest, phoneme_checkpoint: Path) -> Chat:
    """A small random voice that reads phonemes, once on each engine."""
    return load_phoneme_voice(phoneme_checkpoint, use_vllm=request.param == "velocity")


@pytest.fixture(scope="session")
def bundled() -> Chat:
    """The voice inside the package."""
    chat = Chat()
    chat.load_or_raise("bundled", device="cpu", use_vllm=False)
    return chat


@pytest.fixture
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty current folder, no voices, no downloads, and an empty standard input."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(assets, "is_cached", lambda: False)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
