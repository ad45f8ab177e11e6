"""Run the examples for the server, and the snippets of its document, on a real server."""

from __future__ import annotations

import contextlib
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import threading
import wave
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from starlette.types import ASGIApp, Receive, Scope, Send

import ChatTTS
from ChatTTS.audio.pcm import to_int16
from ChatTTS.cli.commands import _parse
from ChatTTS.core import Chat
from ChatTTS.serving.http.auth import Authenticator
from ChatTTS.serving.protocols.riva import serve_grpc
from ChatTTS.serving.protocols.riva.realtime import add_to as add_realtime
from ChatTTS.serving.protocols.websocket import add_to
from ChatTTS.serving.settings import Limits, Settings

from ..support.places import ROOT
from ..support.riva_tools import same
from ..support.serving_tools import PATIENCE, RunningServer, running_server

EXAMPLES = ROOT / "examples" / "api"
PAGES = sorted((ROOT / "docs" / "serving").glob("*.md"))
DOCUMENTED = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))
TEXT = "Good morning."
SENTENCE = "It was very cold last night, and there was snow on the road."
SEED = ("--seed", "7")

_SNIPPET = re.compile(
    r"^<!-- not run: needs a running server -->\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


class Asked:
    """ASGI middleware that records the method and path of every request."""

    def __init__(self, app: ASGIApp, log: set[tuple[str, str]]) -> None:
        self._app, self._log = app, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self._log.add((scope["method"], scope["path"]))
        await self._app(scope, receive, send)


class Running:
    """A server with all interfaces.

    Attributes:
        server: the server of REST and WebSocket.
        grpc: address of the gRPC server.
        asked: method and path of the HTTP requests so far.
    """

    def __init__(self, server: RunningServer, grpc: str, asked: set[tuple[str, str]]) -> None:
        self.server, self.grpc, self.asked = server, grpc, asked

    @property
    def address(self) -> str:
        return self.server.address

    def here(self, code: str) -> str:
        """Return a snippet with the addresses of this server in place of the usual ports."""
        code = code.replace("127.0.0.1:8000", self.address)
        return code.replace("127.0.0.1:50051", self.grpc)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    asked: set[tuple[str, str]] = set()

    def note(app: Any, *_: object) -> None:
        app.add_middleware(Asked, log=asked)

    with running_server(brief=False, extend=[add_realtime, add_to, note]) as server:
        settings = replace(server.settings, grpc_port=0)
        grpc = server.run(serve_grpc(server.service, Authenticator(()), settings))
        yield Running(server, f"127.0.0.1:{grpc.port}", asked)
        server.run(grpc.stop(1.0))


@pytest.fixture(scope="module")
def offline(running: Running) -> NDArray[np.int16]:
    """The samples of TEXT that the library gives without a server."""
    return to_int16(running.server.offline(TEXT, 7))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the files of a test into a folder of its own, and use no proxy."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("CHATTTS_API_KEY", raising=False)


def run(script: str, *arguments: str) -> None:
    runpy.run_path(str(EXAMPLES / script))["main"](arguments)


@contextlib.contextmanager
def live_text(running: Running) -> Iterator[Talk]:
    """Start the example; kill it if it hangs, so that the test fails."""
    url = f"ws://{running.address}/v1/audio/speech/stream"
    pipe = subprocess.PIPE
    command = [sys.executable, str(EXAMPLES / "live_text.py"), "--url", url]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as started:
        watch = threading.Timer(PATIENCE, started.kill)
        watch.start()
        try:
            yield Talk(started)
        finally:
            watch.cancel()
            started.kill()


class Talk:
    """A running example, with its standard input and output.

    Attributes:
        process: the child process of the example.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def type(self, text: str) -> None:
        """Write ``text`` to the standard input of the process, and flush it."""
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def line(self, beginning: str = "") -> str:
        """Return the next output line that starts with ``beginning``; empty if there is none."""
        assert self.process.stdout is not None
        return next((line for line in self.process.stdout if line.startswith(beginning)), "")

    def end(self) -> str:
        """Close the standard input of the process, and return the rest of its output."""
        said, errors = self.process.communicate()
        assert (self.process.returncode, errors) == (0, "")
        return said


def samples(path: str) -> NDArray[np.int16]:
    """Return the int16 samples [n] of a WAV file, whose header may lack the length."""
    data = Path(path).read_bytes()
    return np.frombuffer(data[data.index(b"data") + 8 :], "<i2")


def is_speech(path: str, least_seconds: float) -> bool:
    waveform, rate = ChatTTS.read(path)
    return len(waveform) / rate > least_seconds and float(np.abs(waveform).max()) > 0.1


# ---------------------------------------------------------------- examples


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["file", "stream", "sse"])
def test_openai_client(
    mode: str, running: Running, offline: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--url", f"http://{running.address}/v1", "--mode", mode, "--out", "one.wav")
    run("openai_client.py", TEXT, *where, *SEED)
    assert same(samples("one.wav"), offline)
    *others, last = capsys.readouterr().err.splitlines()
    assert last == f"one.wav: {Path('one.wav').stat().st_size} bytes of wav"
    assert len(others) == (mode == "sse")
    if mode == "file":
        assert len(ChatTTS.read("one.wav")[0]) == len(offline)


@pytest.mark.slow
def test_openai_client_streams_to_standard_output(
    running: Running, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    where = ("--url", f"http://{running.address}/v1", "--mode", "stream", "--out", "-")
    run("openai_client.py", TEXT, *where)
    out = capfdbinary.readouterr().out
    Path("played.mp3").write_bytes(out)
    assert is_speech("played.mp3", 0.5)


@pytest.mark.slow
def test_live_text_is_spoken_while_it_comes(running: Running) -> None:
    with live_text(running) as talk:
        talk.type(f"{SENTENCE} So we stayed at home all day, and nobody ")
        # It is spoken although the next one has not come yet.
        assert talk.line() == f"{SENTENCE}\n"
        talk.type("came to see us.")
        said = talk.end()
    # Text that comes late may be spoken in two parts.
    assert said.replace("\n", " ") == "So we stayed at home all day, and nobody came to see us. "
    assert is_speech("live.wav", 1.0)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_live_text_falls_silent_at_ctrl_c(running: Running) -> None:
    with live_text(running) as talk:
        talk.type(f"{SENTENCE} " * 20)
        for _ in range(3):  # so that two sentences were sent, with their words
            talk.line()
        talk.process.send_signal(signal.SIGINT)
        heard = talk.line("[")
        talk.type(TEXT)
        assert talk.line() == f"{TEXT}\n"
        assert talk.end() == ""
    assert heard.startswith("[heard: ")
    assert heard.count("snow") < 20
    assert re.search(r"; last: (?!unknown)\w+\]$", heard.strip())
    with wave.open("live.wav") as file:
        assert 0 < file.getnframes() / file.getframerate() < 60
    assert running.server.becomes_idle()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_live_text_ends_at_ctrl_c_in_silence(running: Running) -> None:
    with live_text(running) as talk:
        talk.type(f"{SENTENCE} " * 20)
        talk.line()
        talk.process.send_signal(signal.SIGINT)
        assert talk.line("[")
        talk.process.send_signal(signal.SIGINT)
        # The process ends although its standard input is still open.
        assert talk.process.wait(PATIENCE) == 0
        assert talk.end() == ""


@pytest.mark.slow
@pytest.mark.parametrize("online", [False, True])
def test_riva_client(
    online: bool, running: Running, offline: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--online"] if online else []
    run("riva_client.py", TEXT, "--url", running.grpc, "--out", "riva.wav", *SEED, *more)
    assert same(samples("riva.wav"), offline)
    *pieces, last = capsys.readouterr().out.splitlines()
    assert last == f"riva.wav: {len(offline) / 24_000:.2f} s"
    # The number of pieces depends on whether the server or its client is faster.
    assert len(pieces) >= 1 if online else len(pieces) == 1


def test_riva_client_lists_the_voices(
    running: Running, bundled: Chat, capsys: pytest.CaptureFixture[str]
) -> None:
    run("riva_client.py", "--url", running.grpc, "--voices")
    names = bundled.config.defaults.speakers
    expected = ",".join(f"{name}:{number}" for number, name in enumerate(names))
    assert capsys.readouterr().out == f"en-US {expected}\nzh-CN {expected}\n"


@pytest.mark.slow
def test_batch(running: Running, offline: Any, capsys: pytest.CaptureFixture[str]) -> None:
    Path("lines.txt").write_text(f"{TEXT}\n\n...\nWe went home.\n", encoding="utf-8")
    where = ("--url", f"http://{running.address}", "--out", "spoken", *SEED)
    with pytest.raises(SystemExit) as end:
        run("batch.py", "lines.txt", *where)
    assert end.value.code == "1 of 3 were not spoken"
    assert same(samples("spoken/0001.wav"), offline)
    assert is_speech("spoken/0004.wav", 0.5)
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line.partition(":")[0] for line in lines) == [
        "0003.wav",
        "spoken/0001.wav",
        "spoken/0004.wav",
    ]


def test_batch_says_what_the_server_says(running: Running) -> None:
    with pytest.raises(SystemExit) as end:
        run("batch.py", "--url", f"http://{running.address}", "--format", "midi")
    assert str(end.value.code).startswith("response_format: ")


@pytest.mark.slow
def test_scripts(running: Running, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--url", f"http://{running.address}", "--out", "play.wav")
    run("scripts.py", *where)
    assert is_speech("play.wav", 1.0)
    *told, last = capsys.readouterr().out.splitlines()
    assert told[-1] == "done: 3 of 3 lines"
    assert last.startswith("play.wav: ")
    assert running.server.scripts.of("127.0.0.1") == []
    Path("play.txt").write_text("Anna: Hello.\nZoe: Hi.\n", encoding="utf-8")
    with pytest.raises(SystemExit) as end:
        run("scripts.py", "play.txt", "--voice", "Anna=alloy", *where)
    assert str(end.value.code).startswith("play.txt:2: there is no voice 'Zoe'")


@pytest.mark.slow
def test_curl_asks_for_everything_once(running: Running) -> None:
    running.asked.clear()
    curl = ["sh", str(EXAMPLES / "curl.sh"), "--url", f"http://{running.address}"]
    done = subprocess.run(
        curl,
        env=os.environ | {"CHATTTS_API_KEY": "any"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("hello.wav", "morning.mp3", "whole.flac"):
        assert is_speech(name, 0.3), name
    assert "speech.audio.done" in done.stdout
    assert all("audio" in item for item in json.loads(Path("batch.json").read_text())["data"])
    assert not [info for info in running.server.service.voices.list() if info.uploaded]
    missed = [
        (method, path)
        for method, path in routes(json.loads(Path("openapi.json").read_text()))
        if not any(asked == method and matches(path, at) for asked, at in running.asked)
    ]
    assert missed == []


@pytest.mark.parametrize("script", [*SCRIPTS, "curl.sh"])
def test_help_shows_how_to_call_it(script: str, capfd: pytest.CaptureFixture[str]) -> None:
    path = EXAMPLES / script
    if path.suffix == ".sh":
        program = "sh"
        subprocess.run([program, str(path), "--help"], check=True)
    else:
        program = "python"
        with pytest.raises(SystemExit) as end:
            run(script, "--help")
        assert not end.value.code
    assert "--url" in capfd.readouterr().out
    text = path.read_text(encoding="utf-8").replace("# ", "")
    assert f"{program} examples/api/{script}" in text
    assert len(text.splitlines()) < 100


# ---------------------------------------------------------------- the document


def routes(description: dict[str, Any]) -> list[tuple[str, str]]:
    """Return method and path of every operation in an OpenAPI description."""
    paths: dict[str, dict[str, Any]] = description["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


def matches(template: str, path: str) -> bool:
    return re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path) is not None


@pytest.fixture(scope="module")
def text() -> str:
    return DOCUMENTED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "code"),
    [pytest.param(m[1], m[2], id=m[2].split()[0]) for m in _SNIPPET.finditer(DOCUMENTED)],
)
def test_a_snippet_runs(
    kind: str, code: str, running: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "127.0.0.1:" in code
    code = running.here(code)
    if kind == "python":
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(code, "docs/serving", "exec"), names)
        if "sound" in names:
            assert len(names["sound"]) > 24_000
        if "spoken_text" in code:
            assert capsys.readouterr().out.startswith("It was")
    else:
        strict = code.replace("curl ", "curl --fail-with-body --no-progress-meter ")
        done = subprocess.run(["sh", "-ec", strict], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert '"error"' not in done.stdout
    for path in Path().glob("*.*"):
        assert is_speech(str(path), 0.3)


def test_the_routes_of_the_document_are_those_of_the_server(text: str, running: Running) -> None:
    import httpx

    description = httpx.get(f"http://{running.address}/openapi.json").json()
    told = set(re.findall(r"`(GET|POST|DELETE) (/[^`]*)`", text))
    assert told == {*routes(description), ("GET", "/openapi.json")}


def test_the_metrics_of_the_document_are_those_of_the_server(text: str, running: Running) -> None:
    from prometheus_client.parser import text_string_to_metric_families as families

    metrics = running.server.service.metrics.render().decode()
    kinds = {family.name: family.type for family in families(metrics)}
    named = {name + "_total" * (kind == "counter") for name, kind in kinds.items()}
    # The `_created` samples give only the time at which a series began.
    named = {n for n in named if n.startswith("chattts_") and not n.endswith("_created")}
    assert set(re.findall(r"`(chattts_\w+)`", text)) == named


@pytest.mark.slow
def test_the_limits_of_the_document_are_those_of_the_settings(text: str) -> None:
    rows = re.findall(
        r"^\| (?:`(--[\w-]+)`)? ?\| `(\w+)` \| ([\d.]+)( MiB)? \|", text, re.MULTILINE
    )
    told = {name: float(value) * (1 << 20 if mebi else 1) for _, name, value, mebi in rows}
    # One that follows another limit has no number of its own.
    assert told == {name: value for name, value in vars(Limits()).items() if value is not None}
    for option, name, value, _ in rows:
        if option:
            assert str(getattr(_parse(["serve", option, value]), name)) in (value, f"{value}.0")
    assert f"`--shutdown-seconds` ({Settings().shutdown_seconds:g})" in text
