"""``chattts serve --data-parallel-size``: its processes, and clients of all its interfaces."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import riva.client
import riva.client.proto.riva_tts_pb2 as tts
from websockets.sync.client import ClientConnection, connect

from ChatTTS.serving.protocols.websocket import PATH

from .process_tools import Process
from .serving_tools import PATIENCE, eventually
from .system_tools import descendants
from .websocket_tools import Speaker

RATE = 24_000
_REPLICA = "ray::ServeReplica"
Heard = Callable[[], None]


@dataclass(frozen=True)
class Task:
    """One request of a test.

    Attributes:
        text: what to speak.
        seed: of it.
        voice: name of its voice; ``None`` for the default one.
    """

    text: str
    seed: int
    voice: str | None = None


class ReplicatedProcess(Process):
    """``chattts serve`` with replicas of one thread on free ports, in a Ray of its own.

    Args:
        folder: the folder of its voices.
        count: of the replicas.
        options: further options.
    """

    def __init__(self, folder: Path, count: int, *options: str) -> None:
        super().__init__(folder, "--data-parallel-size", str(count), *options)
        self.count = count

    @property
    def pid(self) -> int:
        """The id of the front's process."""
        return self._process.pid

    def replicas(self) -> set[int]:
        """Return the ids of the replicas' processes."""
        return {pid for pid, line in descendants(self.pid).items() if line.startswith(_REPLICA)}

    def all_replicas(self) -> set[int]:
        """Wait until all replicas are there; return their ids."""
        assert eventually(lambda: len(self.replicas()) == self.count)
        return self.replicas()

    def kill_replica(self) -> int:
        """Kill one replica at once; return its id."""
        pid = min(self.replicas())
        os.kill(pid, signal.SIGKILL)
        return pid

    def end(self) -> int:
        """Shut down in order; return the exit status."""
        self.signal()
        return self.status()


# ------------------------------------------------------------------ clients


def by_rest(process: ReplicatedProcess, task: Task, heard: Heard) -> bytes:
    """Return the PCM of a streamed answer."""
    body = {"input": task.text, "response_format": "pcm", "seed": task.seed}
    if task.voice is not None:
        body["voice"] = task.voice
    address = f"{process.url}/v1/audio/speech"
    pcm = bytearray()
    with httpx.stream("POST", address, json=body, timeout=PATIENCE) as answer:
        assert answer.status_code == 200
        for part in answer.iter_raw():
            pcm += part
            heard()
    return bytes(pcm)


def by_socket(process: ReplicatedProcess, task: Task, heard: Heard) -> bytes:
    """Return the PCM of a context of a WebSocket."""
    url = f"ws://{process.url.partition('://')[2]}{PATH}"
    with connect(url, proxy=None, open_timeout=PATIENCE) as connection:
        assert isinstance(connection, ClientConnection)
        client = Speaker(connection)
        voice = {} if task.voice is None else {"voice": task.voice}
        client.say("session.config", response_format="pcm", seed=task.seed, **voice)
        client.say("input.text", text=task.text)
        client.say("input.done")
        while (message := client.hear())["type"] != "session.done":
            assert message["type"] != "error", message
            if message["type"] == "sound":
                heard()
        return client.samples().tobytes()


def by_riva(process: ReplicatedProcess, task: Task, heard: Heard) -> bytes:
    """Return the PCM of a call of Riva's client."""
    auth = riva.client.Auth(uri=process.grpc_address)
    request = tts.SynthesizeSpeechRequest(
        text=task.text,
        encoding=riva.client.AudioEncoding.LINEAR_PCM,
        sample_rate_hz=RATE,
        voice_name=task.voice or "",
        custom_configuration={"seed": str(task.seed)},
    )
    pcm = bytearray()
    try:
        service = riva.client.SpeechSynthesisService(auth)
        for answer in service.stub.SynthesizeOnline(iter([request]), timeout=PATIENCE):
            pcm += answer.audio
            heard()
    finally:
        auth.channel.close()
    return bytes(pcm)


CLIENTS = (by_rest, by_socket, by_riva)


@dataclass
class Crowd:
    """Clients that listen at one time, each in a thread.

    Attributes:
        results: what they heard, or the error that ended it, by their places.
        begun: how many have heard something.
    """

    results: dict[int, bytes | Exception] = field(default_factory=dict)
    begun: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def listening(self, process: ReplicatedProcess, asks: list[tuple[int, Task]]) -> Iterator[None]:
        """Start a client for each (number of its interface, task); wait for them at the end."""
        threads = [
            threading.Thread(target=self._listen, args=(process, place, client, task))
            for place, (client, task) in enumerate(asks)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            for thread in threads:
                thread.join(2 * PATIENCE)
                assert not thread.is_alive()

    def _listen(self, process: ReplicatedProcess, place: int, client: int, task: Task) -> None:
        first = True

        def heard() -> None:
            nonlocal first
            if first:
                first = False
                with self._lock:
                    self.begun += 1

        try:
            self.results[place] = CLIENTS[client](process, task, heard)
        except Exception as error:  # the test compares it with the sound
            self.results[place] = error
