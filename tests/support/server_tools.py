"""The whole server, as ``chattts serve`` starts it, for tests; and the sound of its answers."""

from __future__ import annotations

import asyncio
import contextlib
import io
import socket
import struct
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import grpc
import numpy as np
import riva.client
from numpy.typing import NDArray

from ChatTTS.core import Chat
from ChatTTS.serving.server import Server
from ChatTTS.serving.settings import Settings
from ChatTTS.serving.speech.speech_model import SpeechModel

from .serving_tools import PATIENCE, RunningServer, brief_chat, loaded_chat

RATE = 24_000
_LINGER = struct.pack("ii", 1, 0)  # close() resets the connection


class WholeServer(RunningServer):
    """A running :class:`Server`.

    Attributes:
        grpc_address: host and port of its gRPC interface.
        wyoming_port: port of Wyoming, if it is served.
    """

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(server.url, server.service, server.scripts, server.settings, loop)
        self.grpc_address = f"{server.settings.host}:{server.grpc_port}"
        self.wyoming_port = server.wyoming_port

    @contextlib.contextmanager
    def riva_client(self) -> Iterator[riva.client.SpeechSynthesisService]:
        """Yield Riva's client within this context."""
        auth = riva.client.Auth(uri=self.grpc_address)
        try:
            yield riva.client.SpeechSynthesisService(auth)
        finally:
            auth.channel.close()

    @contextlib.contextmanager
    def channel(self) -> Iterator[grpc.Channel]:
        """Yield a gRPC channel within this context."""
        with grpc.insecure_channel(self.grpc_address) as channel:
            yield channel


class ServerThread(threading.Thread):
    """Runs a server in an asyncio loop of its own.

    Attributes:
        server: exists once :meth:`begin` has returned.
        loop: its loop.
    """

    def __init__(self, chat: Chat | SpeechModel, settings: Settings) -> None:
        super().__init__(name="server", daemon=True)
        self.loop = asyncio.new_event_loop()
        self._chat, self._settings = chat, settings
        self._begun, self._settled = threading.Event(), threading.Event()
        self._over = asyncio.Event()
        self._error: BaseException | None = None

    def begin(self) -> None:
        """Start the server, without waiting until it is ready."""
        self.start()
        assert self._begun.wait(PATIENCE)

    def ready(self) -> WholeServer:
        """Return the server once it is ready; raise the error of its start if it failed."""
        assert self._settled.wait(PATIENCE), "the server did not start"
        if self._error is not None:
            raise self._error
        return WholeServer(self.server, self.loop)

    def end(self) -> None:
        """Shut the server down in order, and wait for that."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, since the start failed
            self.loop.call_soon_threadsafe(self._over.set)
        self.join(PATIENCE)
        assert not self.is_alive(), "the server did not stop"

    def run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._serve())
        except BaseException as error:  # raised in the thread that waits
            self._error = error
        finally:
            self._settled.set()
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()

    async def _serve(self) -> None:
        self.server = Server(self._chat, self._settings)
        self._begun.set()
        async with self.server:
            self._settled.set()
            await self._over.wait()


@contextlib.contextmanager
def server_thread(
    chat: Chat | None = None, *, brief: bool = True, **settings: Any
) -> Iterator[ServerThread]:
    """Begin to start a server; at the end of the context it and its model are gone.

    Args:
        chat: speaks; one of its own by default.
        brief: whether that cuts its utterances short.
        settings: fields of ``Settings``; all ports are free ones by default.
    """
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as scripts:
        folders = {"voices": Path(folder), "scripts": Path(scripts)}
        chosen = Settings(**{"port": 0, "grpc_port": 0, **folders, **settings})
        thread = ServerThread(chat or (brief_chat() if brief else loaded_chat()), chosen)
        thread.begin()
        try:
            yield thread
        finally:
            thread.end()


@contextlib.contextmanager
def whole_server(
    chat: Chat | None = None, *, brief: bool = True, **settings: Any
) -> Iterator[WholeServer]:
    """Run a server within this context, which begins when the server is ready."""
    with server_thread(chat, brief=brief, **settings) as thread:
        yield thread.ready()


def reset(connection: socket.socket) -> None:
    """Reset a connection, as the system does for a program that crashes."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
    connection.close()


# ------------------------------------------------------------------ sound


def samples(pcm: bytes) -> NDArray[np.int16]:
    """Return the samples of PCM bytes."""
    return np.frombuffer(pcm, "<i2")


def decoded(data: bytes) -> tuple[NDArray[np.int16], int]:
    """Return the samples (n,) of an audio file in any format, and their rate in Hz."""
    with av.open(io.BytesIO(data)) as container:
        rate = int(container.streams.audio[0].rate)
        resampler = av.AudioResampler(format="s16", layout="mono", rate=rate)
        frames = [f for frame in container.decode(audio=0) for f in resampler.resample(frame)]
    sound: NDArray[np.int16] = np.concatenate([frame.to_ndarray()[0] for frame in frames])
    return sound, rate


def max_difference(sound: NDArray[np.int16], reference: NDArray[np.int16]) -> int:
    """Return the greatest difference of two sounds of equal length, in LSB."""
    assert len(sound) == len(reference)
    return int(np.abs(sound.astype(int) - reference).max())


def similarity(sound: NDArray[Any], reference: NDArray[Any]) -> float:
    """Return the correlation (0 to 1) of two sounds at the best shift."""
    first, second = sound.astype(np.float64), reference.astype(np.float64)
    size = 1 << (len(first) + len(second)).bit_length()
    spectrum = np.fft.rfft(first, size) * np.conj(np.fft.rfft(second, size))
    best = float(np.fft.irfft(spectrum, size).max())
    return best / float(np.linalg.norm(first) * np.linalg.norm(second))
