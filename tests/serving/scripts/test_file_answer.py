"""A file that is sent is closed, however the answer ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast

import pytest

from ChatTTS.serving.errors import BadRequestError
from ChatTTS.serving.rest.file_answer import FileAnswer
from ChatTTS.serving.service import SpeechService

from ...support.serving_tools import PATIENCE


class Threads:
    """The threads of a service.

    Attributes:
        files: that were opened.
        may_open: the thread waits for it.
        are_shut_down: whether they take no more work.
    """

    def __init__(self) -> None:
        self.files: list[IO[Any]] = []
        self.may_open = threading.Event()
        self.may_open.set()
        self.are_shut_down = False

    async def in_thread(self, work: Callable[[], Any]) -> Any:
        if self.are_shut_down:
            raise RuntimeError("cannot schedule new futures after shutdown")
        return await asyncio.to_thread(lambda: self._noted(work))

    def _noted(self, work: Callable[[], Any]) -> Any:
        assert self.may_open.wait(PATIENCE)
        result = work()
        if hasattr(result, "closed"):
            self.files.append(result)
        return result


async def answer(threads: Threads, path: Path, send: Callable[[Any], Any]) -> None:
    def missing() -> BadRequestError:
        return BadRequestError("it is not there")

    service = cast(SpeechService, threads)
    sent = FileAnswer(service, path, "audio/wav", "sound.wav", missing)

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    await sent({"type": "http", "headers": []}, receive, send)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "sound.wav"
    file.write_bytes(bytes(1000))
    return file


def test_a_server_that_ends_closes_the_files_that_it_sends(path: Path) -> None:
    threads = Threads()

    async def leave(message: Any) -> None:
        threads.are_shut_down = True
        raise ConnectionResetError("the client is gone")

    with pytest.raises(ConnectionResetError):
        asyncio.run(answer(threads, path, leave))
    assert [file.closed for file in threads.files] == [True]


def test_a_file_that_is_opened_for_a_client_that_left_is_closed(path: Path) -> None:
    threads = Threads()
    threads.may_open.clear()

    async def ignore(message: Any) -> None:
        raise AssertionError("nothing is sent")

    async def leave() -> None:
        sending = asyncio.create_task(answer(threads, path, ignore))
        await asyncio.sleep(0.01)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        threads.may_open.set()
        while not (threads.files and threads.files[0].closed):
            await asyncio.sleep(0.005)

    asyncio.run(asyncio.wait_for(leave(), PATIENCE))


def test_a_file_that_is_gone_is_told(path: Path) -> None:
    path.unlink()

    async def ignore(message: Any) -> None:
        raise AssertionError("nothing is sent")

    with pytest.raises(BadRequestError, match="not there"):
        asyncio.run(answer(Threads(), path, ignore))
