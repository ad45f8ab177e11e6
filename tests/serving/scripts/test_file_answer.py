"""A file that is sent is closed, however the answer ends."""

from __future__ import annotations

import asyncio
import builtins
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from anyio import to_thread
from starlette.types import Receive, Scope, Send

from ChatTTS.serving.errors import BadRequestError
from ChatTTS.serving.protocols.rest.file_answer import FileAnswer
from ChatTTS.serving.protocols.rest.head import HeadMiddleware

from ...support.serving_tools import PATIENCE


class Opener:
    """Opens files in place of :func:`open`.

    Attributes:
        files: the sounds that were opened; a module that is imported now may open others.
        is_asked: whether a file is to be opened.
        may_open: is waited for before a file is opened.
    """

    def __init__(self) -> None:
        self.files: list[weakref.ref[Any]] = []
        self.is_asked, self.may_open = threading.Event(), threading.Event()
        self.may_open.set()
        self._open = builtins.open

    def __call__(self, *args: Any, **options: Any) -> Any:
        self.is_asked.set()
        assert self.may_open.wait(PATIENCE)
        file = self._open(*args, **options)
        if str(args[0]).endswith(".wav"):
            self.files.append(weakref.ref(file))
        return file

    @property
    def are_closed(self) -> list[bool]:
        """Whether each file is closed; one that is freed is."""
        return [file is None or file.closed for file in (each() for each in self.files)]


@pytest.fixture
def opener(monkeypatch: pytest.MonkeyPatch) -> Opener:
    opener = Opener()
    monkeypatch.setattr(builtins, "open", opener)
    return opener


def made(path: Path) -> FileAnswer:
    def missing() -> BadRequestError:
        return BadRequestError("it is not there")

    return FileAnswer(path, "audio/wav", "sound.wav", missing)


async def answer(path: Path, send: Callable[[Any], Any]) -> None:
    async def receive() -> dict[str, Any]:
        await asyncio.sleep(PATIENCE)
        return {"type": "http.disconnect"}

    await made(path)({"type": "http", "method": "GET", "headers": []}, receive, send)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "sound.wav"
    file.write_bytes(bytes(1000))
    return file


def test_a_server_that_ends_closes_the_files_that_it_sends(path: Path, opener: Opener) -> None:
    async def leave(message: Any) -> None:
        if message["type"] == "http.response.start":
            return
        raise ConnectionResetError("the client is gone")

    with pytest.raises(ConnectionResetError):
        asyncio.run(answer(path, leave))
    assert opener.are_closed == [True]


def test_a_file_that_is_opened_for_a_client_that_left_is_closed(path: Path, opener: Opener) -> None:
    opener.may_open.clear()

    async def begin(message: Any) -> None:
        assert message["type"] == "http.response.start", "no byte is sent"

    async def leave() -> None:
        sending = asyncio.create_task(answer(path, begin))
        assert await asyncio.to_thread(opener.is_asked.wait, PATIENCE)
        sending.cancel()
        opener.may_open.set()  # a thread that opens cannot be interrupted
        with pytest.raises(asyncio.CancelledError):
            await sending
        while opener.are_closed != [True]:
            # Before Starlette 1, the thread holds the file until it has other work.
            await to_thread.run_sync(bool)

    asyncio.run(asyncio.wait_for(leave(), PATIENCE))


def test_a_file_that_is_gone_is_told(path: Path) -> None:
    path.unlink()

    async def ignore(message: Any) -> None:
        raise AssertionError("nothing is sent")

    with pytest.raises(BadRequestError, match="not there"):
        asyncio.run(answer(path, ignore))


def test_the_head_of_an_answer_reads_no_file(path: Path, opener: Opener) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await made(path)(scope, receive, send)

    async def head() -> httpx.Response:
        transport = httpx.ASGITransport(HeadMiddleware(app))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.head("/", headers={"range": "bytes=0-9"})

    told = asyncio.run(head())
    assert (told.status_code, told.headers["content-length"]) == (200, "1000")
    assert not opener.files
