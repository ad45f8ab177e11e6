"""The simulated GPU and the client that measure what the host costs; no test depends on speed."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.serving import process_tree
from benchmarks.serving.host import HostFigures, table
from benchmarks.serving.lean_client import Answer, LeanClient
from benchmarks.serving.simulated.device import (
    Counters,
    SimulatedDevice,
    SimulatedStream,
    event_query,
)
from benchmarks.serving.simulated.steps import H100, StepTimes

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: audio/pcm\r\nTransfer-Encoding: chunked\r\n\r\n"
SOUND = b"5\r\nab\r\nc\r\n1f\r\n" + b"\n" * 31 + b"\r\n0\r\n\r\n"

# ---------------------------------------------------------------- device


class Clock:
    """A clock that stands still until it is moved."""

    now = 10.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.smoke
def test_work_is_done_in_the_order_of_its_launches(clock: Clock) -> None:
    device = SimulatedDevice(clock=clock)
    first, second = SimulatedStream(device), SimulatedStream(device)
    assert first.record_event().query()  # nothing was launched
    first.launch(2.0)
    step = first.record_event()
    second.launch(1.0)
    decoded = second.record_event()
    first.launch(1.0)
    last = first.record_event()
    for moment, expected in (
        (10.0, (False, False, False)),
        (12.0, (True, False, False)),
        (13.0, (True, True, False)),
        (14.0, (True, True, True)),
    ):
        clock.now = moment
        assert (step.query(), decoded.query(), last.query()) == expected


@pytest.mark.smoke
def test_a_device_that_waited_begins_at_once_and_counts_its_work(clock: Clock) -> None:
    counters = Counters()
    stream = SimulatedStream(SimulatedDevice(counters, clock))
    stream.launch(1.0)
    clock.now = 20.0
    stream.launch(1.0)
    assert not stream.record_event().query()
    clock.now = 21.0
    assert stream.record_event().query()
    assert counters["busy"] == 2.0


@pytest.mark.smoke
def test_counters_of_a_file_are_read_while_they_count(tmp_path: Path) -> None:
    counted = Counters.in_file(tmp_path / "counters", "w+")
    read = Counters.in_file(tmp_path / "counters", "r")
    counted.add("frames", 64)
    counted.add("steps")
    assert (read["frames"], read["steps"], read["busy"]) == (64, 1, 0)


@pytest.mark.smoke
def test_times_between_the_measured_sizes() -> None:
    assert H100.step_seconds(64) == pytest.approx(1.661e-3)
    assert H100.step_seconds(2) == pytest.approx((0.516 + 0.049 / 3) * 1e-3)
    assert H100.step_seconds(512) == pytest.approx(2 * 4.544e-3)  # more than was measured
    assert H100.step_seconds(64, is_text=True) == pytest.approx(2.502e-3)
    assert H100.prompt_seconds(16) == pytest.approx(1.2e-3)
    assert H100.decode_seconds(100) == pytest.approx(0.85e-3)


# ---------------------------------------------------------------- the package on the device


@pytest.fixture
def counters(monkeypatch: pytest.MonkeyPatch) -> Counters:
    """Models that are loaded in a test are on a device that takes 2 ms for each step."""
    pytest.importorskip("triton")
    from benchmarks.serving.simulated.patches import simulate

    times = StepTimes({1: 2.0, 64: 2.0}, {1: 2.0}, {1: 0.2}, 0.01, 0.1, 0.001)
    counters = Counters()
    simulate(times, counters, monkeypatch.setattr)
    return counters


def test_the_engine_steps_on_the_device(tmp_path: Path, counters: Counters) -> None:
    """Sequences of several lengths end where they should, and not before the device could."""
    from benchmarks.gpu.model import engine_args, requests_of
    from benchmarks.gpu.scale import TINY, Record, Task
    from benchmarks.serving.simulated.graphs import frames_of
    from ChatTTS.model.velocity.executor import InProcessExecutor
    from ChatTTS.model.velocity.llm_engine import LLMEngine

    gpt = replace(TINY.gpt, max_position_embeddings=256)
    scale = replace(TINY, gpt=gpt, streams=(2,), batched_tokens=64)
    task = Task(scale, tmp_path, Record(tmp_path / "x.json"), time.time())
    config = engine_args(task, "float32").create_engine_config()
    engine = LLMEngine(config, InProcessExecutor(config))
    requests = []
    for prompt in (9, 20, 14):  # the third one begins when another has ended
        [request] = requests_of(replace(scale, prompt=prompt), 1, 200)
        sampling = replace(request.sampling, min_new=0)
        requests.append(replace(request, sampling=sampling, request_id=str(prompt)))
    began = time.monotonic()
    engine.add(requests)
    frames, running = {9: 0, 20: 0, 14: 0}, 3
    while running:
        for output in engine.step():
            running -= output.finished
            frames[int(output.request_id)] += sum(len(delta.ids) for delta in output.deltas)
    spent = time.monotonic() - began
    engine.close()
    expected = np.floor(frames_of(np.array(list(frames), dtype=np.int32)))
    assert list(frames.values()) == expected.tolist()
    assert counters["steps"] >= max(frames.values())
    assert spent >= 2e-3 * max(frames.values())  # of the steps that follow one another


def test_c_code_asks_the_device(counters: Counters) -> None:
    try:
        query = event_query()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no compiler: {error}")
    stream = SimulatedStream(SimulatedDevice(counters))
    done = stream.record_event()
    assert query(ctypes.c_void_p(done.cuda_event)) == 0
    stream.launch(3600.0)
    lasts = stream.record_event()
    assert query(ctypes.c_void_p(lasts.cuda_event)) == 1
    assert (done.query(), lasts.query()) == (True, False)


def test_work_that_the_device_does_not_know_is_refused(counters: Counters) -> None:
    from functools import partial

    from benchmarks.serving.simulated.graphs import SimulatedCapturer

    capturer = SimulatedCapturer(SimulatedStream(SimulatedDevice(counters)), H100)
    with pytest.raises(TypeError, match="knows no launch of"):
        capturer.capture(partial("work".center, 3))


def test_a_place_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    from benchmarks.serving.simulated.patches import simulate
    from ChatTTS.model import gpt

    monkeypatch.delattr(gpt, "FairLock")
    with pytest.raises(SystemExit, match=r"ChatTTS\.model\.gpt\.FairLock, which is gone"):
        simulate(H100, Counters(), monkeypatch.setattr)


# ---------------------------------------------------------------- client


@pytest.mark.smoke
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_chunks_are_counted_however_they_are_cut(size: int) -> None:
    answer, data = Answer(), HEAD + SOUND[:-2]  # its last line tells nothing
    for start in range(0, len(data), size):
        assert not answer.is_over
        answer.feed(data[start : start + size])
    assert answer.is_over
    assert answer.heard.error is None
    assert answer.sound == 36 == sum(count for _, count in answer.heard.arrivals)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("data", "error"),
    [
        (HEAD + SOUND[:-5], "the connection ended before the answer did"),
        (b"HTTP/1.1 503 busy\r\nretry-after: 1\r\n\r\n{}", "503"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc", "the answer is not in chunks"),
    ],
)
def test_answers_that_are_not_whole_say_why(data: bytes, error: str) -> None:
    answer = Answer()
    answer.feed(data)
    answer.feed(b"")
    assert answer.heard.error == error


@pytest.fixture
def server() -> Iterator[tuple[str, list[bytes]]]:
    """A server that answers each connection, and keeps what it was asked."""
    asked: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with closing(connection):
                asked.append(connection.recv(1 << 16))
                connection.sendall(HEAD + SOUND)

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


@pytest.mark.smoke
def test_the_client_asks_and_counts(server: tuple[str, list[bytes]]) -> None:
    url, asked = server
    client = LeanClient(url, {"model": "chattts"})
    expected = [client.ask("one"), client.ask("two")]
    answers = list(client.listen(time.monotonic() + 60))
    assert sorted(map(id, answers)) == sorted(map(id, expected))
    assert client.sound == 72
    texts = [json.loads(each.partition(b"\r\n\r\n")[2])["input"] for each in asked]
    assert sorted(texts) == ["one", "two"]


@pytest.mark.smoke
def test_the_client_leaves(server: tuple[str, list[bytes]]) -> None:
    client = LeanClient(server[0], {})
    answer = client.ask("one")
    client.leave("no time")
    assert answer.heard.error == "no time"
    assert list(client.listen(time.monotonic() + 60)) == []


# ---------------------------------------------------------------- figures


@pytest.mark.smoke
def test_processes_are_measured_with_those_below_them() -> None:
    own = os.getpid()
    before = process_tree.cpu_seconds(own)
    while time.process_time() < before + 0.05:
        sum(range(1000))
    assert before < process_tree.own_cpu_seconds(own) <= process_tree.cpu_seconds(own)
    assert process_tree.threads(own) >= threading.active_count()
    assert process_tree.processes(own)[0] == own


@pytest.mark.smoke
def test_figures_survive_a_file_and_become_tables() -> None:
    from benchmarks.serving.host import _rate_figures

    host = HostFigures(2.0, 4000.0, 4100.0, 1.0, 0.4, 80, 1, 0.25, 0.1, 6)
    refused, lost = Answer(), Answer()
    refused.end("503")
    lost.feed(HEAD)
    lost.end("not whole in time")
    figures = _rate_figures(2.0, [refused, lost], host, refused.heard.begin + 3)
    assert figures.first_byte[0] == pytest.approx(3000, rel=1e-2)
    report: dict[str, Any] = {
        "streams": {"64": asdict(host)},
        "requests": asdict(host),
        "rates": [asdict(figures)],
    }
    again = json.loads(json.dumps(report))
    assert again["rates"][0]["errors"] == {"503": 1, "not whole in time": 1}
    lines = table(again).splitlines()
    assert "| 64 | 2000 | 250.0 | 0.50 | 0.20 | 80 | 25 % | 0.05 |" in lines
    assert any(line.startswith("| 2 | 2 | 0 | 30") for line in lines)
