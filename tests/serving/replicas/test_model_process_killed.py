"""``chattts serve --model-process``: equal bytes, also when a process is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from ChatTTS.cli import main

from ...support.process_tools import LONG, Process
from ...support.serving_tools import PATIENCE, eventually
from ...support.system_tools import descendants, is_gone

pytestmark = pytest.mark.slow

Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def started(*options: str) -> Process:
            process = Process(tmp_path, "--no-grpc", *options)
            stack.callback(process.close)
            return process

        yield started


def model_of(process: Process) -> int:
    """Return the number of the model's process."""
    [number] = [
        pid
        for pid, line in descendants(process._process.pid).items()
        if "model_process.program" in line
    ]
    return number


def spoken(process: Process, heard: Callable[[], None] = lambda: None) -> bytes:
    """Return the samples of a streamed answer; ``heard`` is called after its first ones."""
    body = {"input": LONG * 2, "response_format": "pcm", "seed": 3}
    address, got = f"{process.url}/v1/audio/speech", bytearray()
    with httpx.stream("POST", address, json=body, timeout=PATIENCE) as answer:
        assert answer.status_code == 200
        for part in answer.iter_raw():
            if not got:
                heard()
            got += part
    return bytes(got)


def test_answers_have_equal_bytes_also_when_the_model_is_killed(start: Start) -> None:
    plain = start()
    expected = spoken(plain)
    plain.close()
    process = start("--model-process")
    assert spoken(process) == expected
    first = model_of(process)
    assert spoken(process, lambda: os.kill(first, signal.SIGKILL)) == expected
    process.said("the model's process was ended by SIGKILL")
    process.said("ready again")
    assert is_gone(first)
    second = model_of(process)
    assert spoken(process) == expected
    process.signal()
    assert process.status() == 0
    assert is_gone(second)
    assert process.words().count("started again") == 1


def test_the_model_ends_with_a_killed_front(start: Start) -> None:
    process = start("--model-process")
    number = model_of(process)
    process.close()
    assert eventually(lambda: is_gone(number))


def test_a_bad_checkpoint_is_the_error_that_it_is_without_the_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["serve", "--model", str(tmp_path), "--port", "0", "--no-grpc"]
    options += ["--voices", str(tmp_path / "voices")]
    assert main(options) == 1
    told = capsys.readouterr().err
    assert main([*options, "--model-process"]) == 1
    assert capsys.readouterr().err == told
