"""Run the examples for Wyoming and for MCP, on real servers."""

from __future__ import annotations

import asyncio
import contextlib
import runpy
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

import ChatTTS
from ChatTTS.serving.protocols.mcp import make_server

from ..support.places import ROOT
from ..support.server_tools import WholeServer, decoded, similarity, whole_server

EXAMPLES = ROOT / "examples" / "api"
TEXT = "Good morning."


def run(script: str, *arguments: str) -> None:
    runpy.run_path(str(EXAMPLES / script))["main"](arguments)


@pytest.fixture(scope="module")
def server() -> Iterator[WholeServer]:
    with whole_server(brief=False, wyoming_port=0, grpc_port=None) as running:
        yield running


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the files of a test into a folder of its own, and use no proxy."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def mcp_url(server: WholeServer) -> Iterator[str]:
    """Serve the tools over HTTP, beside the server."""

    async def ready() -> Any:
        return server.service

    @contextlib.asynccontextmanager
    async def serving() -> AsyncIterator[str]:
        app = make_server(ready, None, may_play=False).streamable_http_app()
        web = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
        task = asyncio.create_task(web.serve())
        while not web.started:
            await asyncio.sleep(0.01)
        port = web.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/mcp"
        web.should_exit = True
        await task

    context = serving()
    yield server.run(context.__aenter__())
    server.run(context.__aexit__(None, None, None))


@pytest.mark.slow
def test_wyoming_client(server: WholeServer, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"tcp://127.0.0.1:{server.wyoming_port}"
    run("wyoming_client.py", TEXT, "We went home.", "--url", url, "--voice", "edith")
    waveform, rate = ChatTTS.read("wyoming.wav")
    assert rate == 24_000
    assert len(waveform) / rate > 1.0
    assert capsys.readouterr().out == f"wyoming.wav: {len(waveform) / rate:.2f} s\n"
    run("wyoming_client.py", "--url", url, "--voices")
    assert "edith en zh" in capsys.readouterr().out
    with pytest.raises(SystemExit) as end:
        run("wyoming_client.py", TEXT, "--url", url, "--voice", "nobody")
    assert "nobody" in str(end.value.code)


@pytest.mark.slow
def test_mcp_client(server: WholeServer, mcp_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    run("mcp_client.py", TEXT, "--url", mcp_url, "--seed", "7")
    sound = Path("mcp.mp3").read_bytes()
    assert capsys.readouterr().out == f"mcp.mp3: {len(sound)} bytes of audio/mpeg\n"
    assert similarity(decoded(sound)[0], server.offline(TEXT, 7)) > 0.9
    run("mcp_client.py", "--url", mcp_url, "--tools")
    assert "list_voices: " in capsys.readouterr().out
    with pytest.raises(SystemExit):
        run("mcp_client.py", TEXT, "--url", mcp_url, "--voice", "nobody")
    assert "nobody" in capsys.readouterr().out
