"""Replicas on the real Ray: they are killed in the middle of streams, and no listener hears it."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from ...support.process_tools import Process
from ...support.replica_tools import (
    CLIENTS,
    Crowd,
    ReplicatedProcess,
    Task,
    by_rest,
)
from ...support.serving_tools import PATIENCE, eventually
from ...support.system_tools import descendants, is_gone

pytest.importorskip("ray", reason="replicas need Ray: pip install 'chattts-velocity[serve,scale]'")

pytestmark = pytest.mark.slow

REPLICAS = 2
STREAMS = 50
TEXTS = (
    "The lighthouse had been dark for eleven years. Then somebody lit the lamp again.",
    "We walk along the river, and then we walk back home again. It takes an hour.",
    "The sun is up, and the boats come home. Nobody knows where they have been.",
    "A letter came from the island. It was short, and it was not signed.",
    "The old man looked at the sea for a long time. Then he went inside.",
)
_ENGINES = "chattts_engines"
BODIES: list[dict[str, Any]] = [
    *(
        {"input": "We went home.", "seed": 5, "response_format": name, "speed": 1.25}
        for name in ("mp3", "opus", "wav", "flac")
    ),
    {"input": "Hello there.", "seed": 4, "refine": True, "response_format": "pcm"},
    {
        "input": "We went home. It was late.",
        "seed": 6,
        "response_format": "pcm",
        "stream_format": "sse",
        "timestamp_granularities": ["word"],
    },
    {"input": TEXTS[0], "seed": 8, "guard": "retry", "response_format": "pcm", "stream": False},
    {"input": "!!!"},
    {"input": "Hello.", "voice": "a voice that is not there"},
    {"input": "Hello.", "voice": "\u4e00\u4e01"},
]
TASKS = [Task(text, 7 + number) for number, text in enumerate(TEXTS)]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedProcess]:
    started = ReplicatedProcess(tmp_path_factory.mktemp("voices"), REPLICAS, "--max-running", "50")
    try:
        yield started
        started.end()
    finally:
        started.close()


@pytest.fixture
def ray_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of Ray's files; its path is short, since Ray keeps sockets below it."""
    folder = Path(tempfile.mkdtemp(prefix="r"))
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def nothing() -> None:
    pass


@pytest.fixture(scope="module")
def undisturbed(process: ReplicatedProcess) -> list[list[bytes]]:
    """The sound of each task, by the interfaces in their order."""
    return [[client(process, task, nothing) for client in CLIENTS] for task in TASKS]


def test_the_interfaces_give_the_tasks_their_sound(undisturbed: list[list[bytes]]) -> None:
    for sounds in undisturbed:
        assert all(len(sound) > 24_000 for sound in sounds)
    assert len({sounds[0] for sounds in undisturbed}) == len(TASKS)


@pytest.mark.parametrize("begun", [1, 20, 45])
def test_streams_survive_the_crash_of_a_replica(
    process: ReplicatedProcess, undisturbed: list[list[bytes]], begun: int
) -> None:
    before = process.all_replicas()
    asks = [(place % 3, place % len(TASKS)) for place in range(STREAMS)]
    crowd = Crowd()
    with crowd.listening(process, [(client, TASKS[task]) for client, task in asks]):
        assert eventually(lambda: crowd.begun >= begun or len(crowd.results) == STREAMS)
        killed = process.kill_replica()
    for place, (client, task) in enumerate(asks):
        heard = crowd.results[place]
        assert isinstance(heard, bytes), heard
        assert heard == undisturbed[task][client], (place, len(heard))
    process.said("a replica was lost")
    assert eventually(lambda: killed not in process.replicas())
    assert process.all_replicas() != before


def test_a_replica_that_is_killed_while_idle_is_not_counted(process: ReplicatedProcess) -> None:
    def engines() -> float:
        text = httpx.get(f"{process.url}/metrics", timeout=PATIENCE).text
        return next(float(line.split()[1]) for line in text.split("\n") if line[:15] == _ENGINES)

    def both_are_counted() -> bool:
        by_rest(process, Task("Hi.", 1), lambda: None)  # a replica is known once it has spoken
        return engines() == REPLICAS

    process.all_replicas()
    assert eventually(both_are_counted)
    killed = process.kill_replica()
    assert eventually(lambda: is_gone(killed) and engines() == REPLICAS - 1)
    process.all_replicas()
    assert eventually(both_are_counted)


def test_an_uploaded_voice_travels_with_its_stream(process: ReplicatedProcess) -> None:
    """The voice is known to the front alone; its sample reaches every replica with the request."""
    body = {"input": "The lamp was lit.", "response_format": "wav", "stream": False, "seed": 2}
    recording = httpx.post(f"{process.url}/v1/audio/speech", json=body, timeout=PATIENCE).content
    answer = httpx.post(
        f"{process.url}/v1/audio/voices",
        data={"name": "guest", "consent": "yes", "ref_text": "The lamp was lit."},
        files={"audio_sample": ("guest.wav", recording, "audio/wav")},
        timeout=PATIENCE,
    )
    assert answer.status_code == 200, answer.text
    process.all_replicas()
    task = Task(TEXTS[0], 5, "guest")
    whole = by_rest(process, task, nothing)
    assert whole != by_rest(process, replace(task, voice=None), nothing)
    crowd = Crowd()
    with crowd.listening(process, [(0, task)] * 6):
        assert eventually(lambda: crowd.begun >= 4)
        process.kill_replica()
    assert list(crowd.results.values()) == [whole] * 6


def test_a_replica_that_hangs_is_replaced(
    process: ReplicatedProcess, undisturbed: list[list[bytes]]
) -> None:
    hanging = min(process.all_replicas())
    crowd = Crowd()
    with crowd.listening(process, [(0, TASKS[n % len(TASKS)]) for n in range(8)]):
        assert eventually(lambda: crowd.begun >= 2)
        os.kill(hanging, signal.SIGSTOP)
    for place in range(8):
        assert crowd.results[place] == undisturbed[place % len(TASKS)][0]
    os.kill(hanging, signal.SIGKILL)  # Ray takes minutes
    assert eventually(lambda: hanging not in process.replicas())
    assert len(process.all_replicas()) == REPLICAS


def test_answers_are_those_of_one_process(process: ReplicatedProcess, tmp_path: Path) -> None:
    process.all_replicas()
    single = Process(tmp_path)
    try:
        for body in BODIES:
            alone, behind = (
                httpx.post(f"{url}/v1/audio/speech", json=body, timeout=PATIENCE)
                for url in (single.url, process.url)
            )
            assert alone.status_code == behind.status_code
            if "stream_format" in body:
                assert events(alone) == events(behind)
            else:
                assert alone.content == behind.content
    finally:
        single.close()


def events(answer: httpx.Response) -> tuple[bytes, list[object], object]:
    """Return the sound, the words and the last event of an answer in events."""
    lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    found = [json.loads(line) for line in lines]
    sound = b"".join(base64.b64decode(event["audio"]) for event in found if "audio" in event)
    return sound, [word for event in found for word in event.get("words", ())], found[-1]


def listening(ports: set[int]) -> set[int]:
    """Return the ports of these that a process of this machine listens on."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            address, state = line.split()[1], line.split()[3]
            if state == "0A":
                found.add(int(address.rpartition(":")[2], 16))
    return found & ports


def sockets_of(pids: set[int]) -> set[int]:
    """Return the ports that these processes listen on."""
    inodes = set()
    for pid in pids:
        for file in Path(f"/proc/{pid}/fd").glob("*"):
            with contextlib.suppress(OSError):
                inodes.add(os.readlink(file))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                found.add(int(fields[1].rpartition(":")[2], 16))
    return found


def test_the_end_leaves_nothing_behind(tmp_path: Path, ray_folder: Path) -> None:
    shared = set(os.listdir("/dev/shm"))
    started = ReplicatedProcess(tmp_path, 1)
    try:
        assert by_rest(started, TASKS[0], nothing)
        processes = set(descendants(started.pid))
        ports = sockets_of(processes | {started.pid})
        assert listening(ports) == ports
        assert len(ports) > 3
        assert started.end() == 0
        assert eventually(lambda: all(map(is_gone, processes)))
        assert listening(ports) == set()
        assert list(ray_folder.iterdir()) == []
        own = {name for name in os.listdir("/dev/shm") if name not in shared}
        assert not [name for name in own if "plasma" in name or "ray" in name]
    finally:
        started.close()


@pytest.mark.usefixtures("ray_folder")
def test_a_killed_front_breaks_transfers_and_takes_its_replicas_along(tmp_path: Path) -> None:
    started = ReplicatedProcess(tmp_path, 1)
    try:
        replicas = started.all_replicas()
        crowd = Crowd()
        with crowd.listening(started, [(0, Task(TEXTS[0] * 8, 1)), (2, Task(TEXTS[0] * 8, 1))]):
            assert eventually(lambda: crowd.begun == 2)
            started.close()
        assert isinstance(crowd.results[0], httpx.RemoteProtocolError | httpx.ReadError)
        assert isinstance(crowd.results[1], grpc.RpcError)
        assert eventually(lambda: all(map(is_gone, replicas)))
    finally:
        started.close()
