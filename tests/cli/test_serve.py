"""``chattts serve``, with a fake server that records its settings."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ChatTTS.core
import ChatTTS.serving.server as server_module
import ChatTTS.serving.startup as startup
from ChatTTS.cli import main
from ChatTTS.cli import serve as serve_command
from ChatTTS.serving.settings import Limits, Settings
from ChatTTS.utils.garbage import unwatched

from ..support.cli_tools import FakeChat

pytestmark = pytest.mark.usefixtures("empty_home")

logger = logging.getLogger("ChatTTS.serving.speech.service")


class FakeServe:
    """A replacement for ``serve`` that records its arguments.

    Attributes:
        chat, settings: the arguments of the call; ``None`` before it.
        unwatched: how many objects the garbage collector left out while it ran.
        made: what it made before its announcement.
        is_watched: whether the garbage collector still looked at that after the announcement.
        failure: the exception that it raises after its announcement; ``None`` for none.
    """

    def __init__(self) -> None:
        self.chat: Any = None
        self.settings: Settings | None = None
        self.unwatched = 0
        self.made: list[object] = [[]]
        self.is_watched = True
        self.failure: BaseException | None = None

    async def __call__(
        self, chat: Any, settings: Settings, announce: Callable[[Any], None], bound: Any
    ) -> None:
        self.chat, self.settings = chat, settings
        self.unwatched = gc.get_freeze_count()
        ports = {"grpc_port": settings.grpc_port, "wyoming_port": settings.wyoming_port}
        self.made.append([])
        announce(SimpleNamespace(url="http://127.0.0.1:8123", **ports))
        self.is_watched = any(each is self.made[-1] for each in gc.get_objects())
        logger.info("a request")
        if self.failure is not None:
            raise self.failure

    @property
    def told(self) -> Settings:
        """The settings of the server, which must have been started."""
        assert self.settings is not None
        return self.settings


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHATTTS_API_KEYS", raising=False)


@pytest.fixture(autouse=True)
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare each command a collection of all that a test process has loaded."""
    monkeypatch.setattr(serve_command, "unwatched", contextlib.nullcontext)


@pytest.fixture
def serve(chat: FakeChat, monkeypatch: pytest.MonkeyPatch) -> FakeServe:
    fake = FakeServe()
    monkeypatch.setattr(server_module, "serve", fake)
    monkeypatch.setattr(startup, "reserve", lambda settings: socket.socket())
    return fake


# ---------------------------------------------------------------- options


def test_without_options(
    serve: FakeServe, chat: FakeChat, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve"]) == 0
    assert serve.told == Settings()
    assert serve.chat is chat
    assert chat.loaded["source"] == "bundled"
    assert (chat.loaded["use_vllm"], chat.loaded["dtype"]) == (True, "float32")
    assert chat.loaded["kv_memory"] == f"{Limits().running} sequences"
    out, err = capfd.readouterr()
    assert out == ""
    assert "ready: http://127.0.0.1:8123" in err
    assert "127.0.0.1:50051 (gRPC)" in err


@pytest.mark.slow
def test_the_garbage_collector_leaves_out_what_was_loaded(
    serve: FakeServe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve_command, "unwatched", unwatched)
    gc.unfreeze()
    try:
        assert main(["serve"]) == 0
        assert serve.unwatched > 10_000
        assert gc.get_freeze_count() < serve.unwatched / 2
    finally:
        gc.freeze()  # as all tests find it


def test_the_garbage_collector_leaves_out_what_the_server_made(serve: FakeServe) -> None:
    assert main(["serve"]) == 0
    assert not serve.is_watched


def test_all_options(serve: FakeServe, chat: FakeChat) -> None:
    words = """--host 0.0.0.0 --port 1 --grpc-port 2 --tls-cert c.pem --tls-key k.pem
    --name tts.example --name x --cors https://a.example --cors https://b.example
    --voice anna --voices here --max-running 3 --max-waiting 4 --max-wait-seconds 0.5
    --max-characters 6 --trust-proxy 10.0.0.1 --result-cache 7 --drain-delay 7.5
    --shutdown-seconds 8 --max-connections 9 --max-connections-per-address 5 --open --log-texts
    --guard retry --log-format json --model huggingface --dtype auto --device cpu --threads 2
    --memory 1GB --tensor-parallel-size 2 --pipeline-parallel-size 3
    --distributed-executor-backend mp"""
    assert main(["serve", *words.split()]) == 0
    assert serve.told == Settings(
        host="0.0.0.0",
        port=1,
        grpc_port=2,
        default_voice="anna",
        voices=Path("here"),
        tls_certificate=Path("c.pem"),
        tls_key=Path("k.pem"),
        names=("tts.example", "x"),
        trusted_proxies=("10.0.0.1",),
        cors_origins=("https://a.example", "https://b.example"),
        result_cache_bytes=7 << 20,
        drain_seconds=7.5,
        shutdown_seconds=8,
        log_texts=True,
        guard="retry",
        needs_keys=False,
        limits=Limits(
            running=3,
            waiting=4,
            wait_seconds=0.5,
            characters=6,
            connections=9,
            connections_per_address=5,
        ),
    )
    assert chat.loaded == {
        "source": "huggingface",
        "custom_path": None,
        "device": "cpu",
        "use_vllm": True,
        "dtype": "auto",
        "num_threads": 2,
        "kv_memory": "1GB",
        "kv_cache_dtype": "auto",
        "tensor_parallel_size": 2,
        "pipeline_parallel_size": 3,
        "distributed_executor_backend": "mp",
        "adapter": None,
    }


def test_adapters_by_their_names(serve: FakeServe, chat: FakeChat) -> None:
    assert main(["serve", "--adapter", "anna=some/folder", "--adapter", "x"]) == 0
    assert chat.loaded["adapter"] == {"anna": Path("some/folder"), "default": Path("x")}


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["runs/r=8/adapter", "./r=8", "/r=8"])
def test_a_folder_may_have_an_equals_sign(serve: FakeServe, chat: FakeChat, folder: str) -> None:
    assert main(["serve", "--adapter", folder]) == 0
    assert chat.loaded["adapter"] == {"default": Path(folder)}


@pytest.mark.parametrize("given", [["=x"], ["anna="], ["base=x"], ["a b=x"], ["a=x", "a=y"]])
def test_adapters_that_cannot_be(
    serve: FakeServe, given: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    options = [word for value in given for word in ("--adapter", value)]
    assert main(["serve", *options]) == 2
    assert "adapter" in capfd.readouterr().err


def test_without_grpc(serve: FakeServe, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--no-grpc", "--grpc-port", "2"]) == 0
    assert serve.told.grpc_port is None
    assert "gRPC" not in capfd.readouterr().err


def test_grpc_is_served_where_its_packages_are(
    serve: FakeServe, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serve_command, "find_spec", lambda name: None)
    assert main(["serve"]) == 0
    assert serve.told.grpc_port is None
    assert "no gRPC: pip install 'chattts-velocity[grpc]'" in capfd.readouterr().err
    assert main(["serve", "--grpc-port", "2"]) == 0
    assert serve.told.grpc_port == 2


@pytest.mark.parametrize(
    ("option", "module", "package"),
    [("--grpc-port", "riva.server", "grpc"), ("--wyoming-port", "wyoming", "zeroconf")],
)
def test_an_option_whose_packages_are_missing_names_their_extra(
    chat: FakeChat,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    option: str,
    module: str,
    package: str,
) -> None:
    for name in [
        name for name in sys.modules if name.startswith(f"ChatTTS.serving.protocols.{module}")
    ]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    others = [] if option == "--grpc-port" else ["--no-grpc"]
    assert main(["serve", "--port", "0", option, "0", *others]) == 1
    err = capfd.readouterr().err
    assert f"import of {package} halted" in err
    extra = option.strip("-").partition("-")[0]
    assert f"pip install 'chattts-velocity[{extra}]'" in err
    assert err.count("\n") == 1
    assert not chat.loaded


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "served"), [("none", ()), (" ElevenLabs,", ("elevenlabs",)), ("", ())]
)
def test_protocols(serve: FakeServe, names: str, served: tuple[str, ...]) -> None:
    assert main(["serve", "--protocols", names]) == 0
    assert serve.told.protocols == served


def test_an_unknown_protocol(serve: FakeServe, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--protocols", "telegraph"]) != 0
    assert "unknown protocol 'telegraph'" in capfd.readouterr().err


def test_keys_of_the_environment_and_of_a_file(
    serve: FakeServe, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CHATTTS_API_KEYS", "one, two,,")
    Path("keys.txt").write_text("# of the readers\nthree\n\n  four\n")
    assert main(["serve", "--api-keys", "keys.txt"]) == 0
    assert serve.told.api_keys == ("one", "two", "three", "four")
    assert "three" not in repr(serve.told)
    assert "three" not in capfd.readouterr().err


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--engine", "standard"], 2, "--engine velocity"),
        (["--port", "x"], 2, "--port"),
        (["--log-format", "xml"], 2, "--log-format"),
        (["hello"], 2, "hello"),
        (["--tls-cert", "c.pem"], 1, "both a certificate and a key"),
        (["--tls-key", "k.pem"], 1, "both a certificate and a key"),
        (["--api-keys", "gone.txt"], 1, "gone.txt cannot be read"),
        (["--api-keys", "binary.txt"], 1, "binary.txt cannot be read"),
        (["--api-keys", "empty.txt"], 1, "empty.txt contains no API key"),
        (["--max-running", "0"], 1, "running must be above 0"),
        (["--max-wait-seconds", "nan"], 1, "wait_seconds must be above 0"),
        (["--result-cache", "-1"], 1, "result_cache_bytes"),
        (["--shutdown-seconds", "-1"], 1, "shutdown_seconds"),
        (["--shutdown-seconds", "nan"], 1, "shutdown_seconds"),
        (["--drain-delay", "-1"], 1, "drain_seconds"),
        (["--port", "5", "--grpc-port", "5"], 1, "must differ"),
        (["--open", "--require-keys"], 1, "must not start without API keys"),
    ],
)
def test_what_is_refused(
    arguments: list[str],
    status: int,
    message: str,
    serve: FakeServe,
    chat: FakeChat,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The refusal is one line, before the model is loaded."""
    Path("binary.txt").write_bytes(b"\xff\xfe\xff")
    Path("empty.txt").write_text("# nothing\n\n")
    assert main(["serve", *arguments]) == status
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("chattts: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert not chat.loaded
    assert serve.settings is None


def test_without_the_packages_of_the_server(
    chat: FakeChat, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("ChatTTS.serving")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(ChatTTS, "serving")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve"]) == 1
    err = capfd.readouterr().err
    assert "uvicorn" in err
    assert "pip install 'chattts-velocity[serve]'" in err
    assert err.count("\n") == 1
    assert not chat.loaded


def test_help_has_examples(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--help"]) == 0
    text = capfd.readouterr().out
    for words in (
        "chattts serve --host 0.0.0.0 --api-keys keys.txt",
        "curl 'http://127.0.0.1:8000/tts?text=Hello' -o hello.wav",
        "CHATTTS_API_KEYS",
        "--grpc-port",
        "--shutdown-seconds",
    ):
        assert words in text
    assert main(["--help"]) == 0
    assert "chattts serve" in capfd.readouterr().out


# ---------------------------------------------------------------- its end, and its log


def test_a_second_signal_is_an_interruption(
    serve: FakeServe, capfd: pytest.CaptureFixture[str]
) -> None:
    serve.failure = asyncio.CancelledError()
    assert main(["serve"]) == 130
    assert "interrupted" in capfd.readouterr().err


@pytest.mark.parametrize("form", ["text", "json"])
def test_requests_are_lines(
    serve: FakeServe,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    form: str,
) -> None:
    monkeypatch.setenv("GRPC_VERBOSITY", "")  # what the command sets goes with the test
    monkeypatch.delenv("GRPC_VERBOSITY")
    serving = logging.getLogger("ChatTTS.serving")
    before = (list(serving.handlers), serving.level, serving.propagate)
    assert main(["serve", "--log-format", form]) == 0
    lines = [line for line in capfd.readouterr().err.splitlines() if "a request" in line]
    assert len(lines) == 1
    if form == "json":
        assert json.loads(lines[0])["message"] == "a request"
    assert os.environ.get("GRPC_VERBOSITY") == ("NONE" if form == "json" else None)
    assert (list(serving.handlers), serving.level, serving.propagate) == before


def test_quiet(serve: FakeServe, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "-q"]) == 0
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "other",
    [
        ("--data-parallel-size", "2"),
        ("--ray-address", "auto"),
        ("--idle-unload", "5"),
        ("--distributed-executor-backend", "ray"),
    ],
)
def test_a_process_for_the_model_excludes_other_options(
    other: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--model-process", *other]) == 2
    told = capsys.readouterr().err
    assert "--model-process" in told
    assert other[0] in told
