"""MCP, with the client of the official library, over standard input and over HTTP."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.server.mcpserver import MCPServer

from ChatTTS.cli import main
from ChatTTS.errors import AssetError
from ChatTTS.serving.errors import BadRequestError, UnavailableError
from ChatTTS.serving.protocols.mcp import make_server
from ChatTTS.serving.protocols.mcp.folder import ToolFolder

from ..support.bundled_voice import NAMES, UNKNOWN
from ..support.places import ROOT
from ..support.proxy_tools import free_ports
from ..support.server_tools import decoded, similarity
from ..support.serving_tools import PATIENCE, RunningServer, eventually, running_server

TEXT = "Good night. It was late."
Talk = Callable[[Client], Awaitable[Any]]


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> ToolFolder:
    (tmp_path / "outside.txt").write_text("Good night.")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "note.md").write_text("# Night\n\nGood night.\n\nIt was late.\n")
    (inside / "link").symlink_to(tmp_path)
    return ToolFolder(inside)


def talked(server: RunningServer, folder: ToolFolder | None, talk: Talk) -> Any:
    """Return the result of a talk with a server in the loop of the service."""

    async def ready() -> Any:
        return server.service

    async def run() -> Any:
        async with Client(make_server(ready, folder, may_play=False)) as client:
            return await asyncio.wait_for(talk(client), PATIENCE)

    return server.run(run())


def call(server: RunningServer, folder: ToolFolder | None, tool: str, **fields: Any) -> Any:
    return talked(server, folder, lambda client: client.call_tool(tool, fields))


def test_speech_is_that_of_the_library(server: RunningServer, folder: ToolFolder) -> None:
    file = call(server, folder, "save", text=TEXT, file="a/b.wav", voice="EDITH", seed=5)
    assert not file.is_error, file.content
    sound, rate = decoded((folder.path / "a" / "b.wav").read_bytes())
    offline = server.offline(TEXT, 5, "edith")
    assert rate == 24_000
    assert len(sound) == len(offline)
    assert abs(sound / 32768 - offline).max() < 1e-4
    (audio,) = call(server, None, "speak", text=TEXT, voice="edith", seed=5).content
    assert (audio.type, audio.mime_type) == ("audio", "audio/mpeg")
    assert similarity(decoded(base64.b64decode(audio.data))[0], sound) > 0.98


def test_voices_are_listed(server: RunningServer) -> None:
    (text,) = call(server, None, "list_voices").content
    assert text.text.splitlines() == list(NAMES)


def test_a_speech_that_fails_in_its_turn_is_counted_once(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> None:
        raise UnavailableError("it is gone")

    counted: list[object] = []
    monkeypatch.setattr(server.service, "open_stream", fails)
    monkeypatch.setattr(server.service.metrics, "count_refusal", counted.append)
    answer = call(server, None, "speak", text=TEXT)
    assert answer.is_error
    assert "it is gone" in answer.content[0].text
    assert not counted
    assert call(server, None, "speak", text=TEXT, voice="nobody").is_error
    assert len(counted) == 1


def test_what_the_voice_cannot_speak_is_told(server: RunningServer, folder: ToolFolder) -> None:
    refused = call(server, folder, "speak", text=UNKNOWN)
    assert refused.is_error
    assert f"cannot speak {UNKNOWN}" in refused.content[0].text
    _, told = call(server, None, "speak", text=f"{UNKNOWN} Good night.").content
    assert told.text.endswith(f"the voice cannot speak {UNKNOWN}, which is left out")
    (folder.path / "mixed.md").write_text(f"{UNKNOWN}\n\nGood night.\n", "utf-8")
    answer = call(server, folder, "read_document", document="mixed.md", file="mixed.mp3")
    assert not answer.is_error, answer.content
    assert f"cannot speak {UNKNOWN}" in answer.content[0].text
    (folder.path / "none.md").write_text(f"{UNKNOWN}\n\n{UNKNOWN[1]}\n", "utf-8")
    assert call(server, folder, "read_document", document="none.md", file="none.mp3").is_error
    assert not (folder.path / "none.mp3").exists()


def test_a_document_is_read(server: RunningServer, folder: ToolFolder) -> None:
    fields = {"document": "note.md", "file": "note.mp3", "seed": 1}
    answer = call(server, folder, "read_document", **fields)
    assert not answer.is_error, answer.content
    assert len(decoded((folder.path / "note.mp3").read_bytes())[0]) > 48_000


@pytest.mark.parametrize(
    ("tool", "fields", "words"),
    [
        ("save", {"file": "../x.mp3"}, "not a valid name for a file"),
        ("save", {"file": "/x.mp3"}, "not a valid name for a file"),
        ("save", {"file": "link/x.mp3"}, "not a valid name for a file"),
        ("save", {"file": "a\0.mp3"}, "not a valid name for a file"),
        ("save", {"file": "a" * 300 + ".mp3"}, "not a valid name for a file"),
        ("save", {"file": "x.exe"}, "must end with"),
        ("save", {"file": "x.mp3", "voice": "nobody"}, "no voice 'nobody'"),
        ("save", {"file": "x.mp3", "speed": 99}, "speed"),
        ("speak", {"play": True}, "plays no audio"),
        (
            "read_document",
            {"document": "link/outside.txt", "file": "x.mp3"},
            "not a valid name for a file",
        ),
        ("read_document", {"document": "none.txt", "file": "x.mp3"}, "no document"),
    ],
)
def test_what_is_refused(
    server: RunningServer, folder: ToolFolder, tool: str, fields: dict[str, Any], words: str
) -> None:
    text = {} if tool == "read_document" else {"text": "Hello."}
    before = sorted(folder.path.rglob("*"))
    answer = call(server, folder, tool, **text, **fields)
    assert answer.is_error
    assert words in answer.content[0].text
    assert sorted(folder.path.rglob("*")) == before


def test_files_are_not_replaced_by_accident(folder: ToolFolder) -> None:
    with pytest.raises(BadRequestError, match="already exists"):
        folder.new_file("note.md", overwrite=False)
    assert folder.new_file("note.md", overwrite=True) == folder.path / "note.md"
    (folder.path / "a.mp3").mkdir()
    with pytest.raises(BadRequestError, match="already exists"):
        folder.new_file("a.mp3", overwrite=True)


def test_a_call_is_told_that_the_model_is_being_loaded(server: RunningServer) -> None:
    told: list[str | None] = []

    async def talk() -> Any:
        loaded = asyncio.Event()

        async def ready() -> Any:
            await loaded.wait()
            return server.service

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            told.append(message)
            if len(told) == 2:
                loaded.set()

        async with Client(make_server(ready, None, may_play=False, told_every=0.01)) as client:
            call = client.call_tool("list_voices", progress_callback=heard)
            return await asyncio.wait_for(call, PATIENCE)

    assert not server.run(talk()).is_error
    assert told[:2] == ["the model is being loaded"] * 2


def test_a_model_that_cannot_be_loaded_is_told() -> None:
    async def ready() -> Any:
        raise AssetError("the model is not here: `chattts download` fetches it")

    async def talk() -> Any:
        async with Client(make_server(ready, None, may_play=False)) as client:
            return await client.call_tool("speak", {"text": "Hello."})

    answer = asyncio.run(asyncio.wait_for(talk(), PATIENCE))
    assert answer.is_error
    assert "chattts download" in answer.content[0].text


@pytest.mark.slow
def test_the_first_answer_waits_for_no_part_of_the_engine(tmp_path: Path) -> None:
    """Of the process that a program starts, up to its answer to `initialize`."""
    program = (
        "import asyncio, sys\n"
        "from mcp import Client\n"
        "from ChatTTS.serving.protocols.mcp import Loading, make_server\n"
        "import ChatTTS.cli.mcp, ChatTTS.serving.settings\n"
        "begun = []\n"
        "async def load():\n"
        "    begun.append(sorted({'torch', 'numpy', 'av', 'fastapi'} & sys.modules.keys()))\n"
        "    raise LookupError\n"
        "async def talk():\n"
        "    loading = Loading(load)\n"
        "    server = make_server(loading.service, None, may_play=False)\n"
        "    server.middleware.append(loading.after_answer)\n"
        "    async with Client(server) as client:\n"
        "        tools = await client.list_tools()\n"
        "        assert not begun and len(tools.tools) == 4\n"
        "        while not begun:\n"
        "            await asyncio.sleep(0.01)\n"
        "    print(begun)\n"
        "asyncio.run(talk())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.stdout.strip() == "[[]]", done.stderr


def test_without_a_folder_there_are_no_files(server: RunningServer) -> None:
    answer = call(server, None, "save", text="Hello.", file="a.mp3")
    assert answer.is_error
    assert "--folder" in answer.content[0].text


@pytest.mark.slow
def test_over_standard_input(tmp_path: Path) -> None:
    """The command, as programs start it."""
    arguments = ["-m", "ChatTTS", "mcp", "--model", "bundled", "--threads", "1"]
    parameters = StdioServerParameters(
        command=sys.executable,
        args=[*arguments, "--folder", str(tmp_path)],
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path / "data")},
        cwd=Path(__file__).parents[2],
    )

    async def talk() -> tuple[list[str], Any]:
        async with Client(stdio_client(parameters)) as client:
            tools = await client.list_tools()
            fields = {"text": "Good night.", "file": "night.wav", "seed": 1}
            return [t.name for t in tools.tools], await client.call_tool("save", fields)

    names, answer = asyncio.run(asyncio.wait_for(talk(), PATIENCE))
    assert names == ["speak", "save", "read_document", "list_voices"]
    assert not answer.is_error, answer.content
    assert len(decoded((tmp_path / "night.wav").read_bytes())[0]) > 12_000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--http", "--host", "0.0.0.0"], "give --api-keys"),
        (["--api-keys", "k.txt"], "is for --http"),
        (["--engine", "standard"], "needs --engine velocity"),
    ],
)
def test_what_the_command_refuses(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(["mcp", *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
def test_keys_and_foreign_pages_over_http(host: str) -> None:
    """A page may let its own name stand for any address of this machine."""
    import httpx

    from ChatTTS.serving.protocols.mcp import guarded_app
    from ChatTTS.serving.settings import Settings

    async def never() -> Any:
        raise AssertionError("no tool is called")

    server: MCPServer[Any] = make_server(never, None, may_play=False)
    app = server.streamable_http_app(host=host)
    keyed = guarded_app(app, Settings(api_keys=("k",)))
    plain = guarded_app(app, Settings(host=host))

    async def statuses() -> list[int]:
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(keyed)
            base = f"http://{host}:8765"
            async with httpx.AsyncClient(transport=transport, base_url=base) as client:
                body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
                accept = {"accept": "application/json, text/event-stream"}
                found = []
                for headers in ({}, {"authorization": "Bearer x"}, {"authorization": "Bearer k"}):
                    answer = await client.post("/mcp", json=body, headers=accept | headers)
                    found.append(answer.status_code)
            transport = httpx.ASGITransport(plain)
            async with httpx.AsyncClient(transport=transport, base_url=base) as client:
                for headers in ({"host": "evil.example"}, {"origin": "http://evil.example"}):
                    answer = await client.post("/mcp", json=body, headers=accept | headers)
                    found.append(answer.status_code)
            return found

    refused, wrong, right, *foreign = asyncio.run(statuses())
    assert (refused, wrong) == (401, 401)
    assert right != 401
    assert foreign == [403, 403]


@pytest.mark.slow
def test_half_sent_requests_over_http_end_and_leave_room(tmp_path: Path) -> None:
    """The connections have the limits of the server's own listener."""
    import httpx

    program = (
        "import sys; import ChatTTS.serving.settings as s; from ChatTTS.cli import main; "
        "limits = s.Limits(head_seconds=0.3, body_seconds=0.3, connections=4); "
        "made = s.Settings; "
        "s.Settings = lambda **fields: made(limits=limits, **fields); "
        "sys.exit(main(['mcp', '--model', 'bundled', '--http', sys.argv[1]]))"
    )
    [port] = free_ports(1)
    command = [sys.executable, "-c", program, str(port)]
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}) as process:
        try:
            assert eventually(lambda: answers(port))
            halves = []
            for _ in range(20):
                half = socket.create_connection(("127.0.0.1", port), 10)
                half.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
                halves.append(half)
            for half in halves:
                half.settimeout(PATIENCE)
                with contextlib.suppress(ConnectionError):
                    told = half.recv(100)
                    assert told == b"" or b" 408 " in told
                half.close()
            body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            accept = {"accept": "application/json, text/event-stream"}
            answer = httpx.post(f"http://127.0.0.1:{port}/mcp", json=body, headers=accept)
            assert answer.status_code < 500
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
