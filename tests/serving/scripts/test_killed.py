"""A server that is killed again and again: its scripts go on, to the same bytes."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from ...support.process_tools import Process
from ...support.serving_tools import PATIENCE

SCRIPTS = "/v1/audio/scripts"
TEXT = "\n\n".join(
    f"Anna: This is line number {n} of a play.\nBob: And I say that it is line {n}."
    for n in range(8)
)
BODY: dict[str, Any] = {
    "script": TEXT,
    "voices": {"Anna": "alloy", "Bob": {"voice": "echo", "tempo": 1.1}},
    "response_format": "m4b",
    "title": "Two voices",
}


def result(url: str, name: str) -> bytes:
    until = time.monotonic() + 2 * PATIENCE
    while (told := httpx.get(f"{url}{SCRIPTS}/{name}", timeout=PATIENCE).json())["state"] != "done":
        assert told["state"] != "failed", told
        assert time.monotonic() < until, told
        time.sleep(0.1)
    return httpx.get(f"{url}{SCRIPTS}/{name}/audio", timeout=PATIENCE).content


@pytest.mark.slow
def test_a_server_that_is_killed_three_times_gives_the_same_file(tmp_path: Path) -> None:
    pytest.importorskip("pyloudnorm")

    def started(folder: str) -> Process:
        return Process(tmp_path, "--scripts", str(tmp_path / folder))

    server = started("undisturbed")
    name = httpx.post(server.url + SCRIPTS, json=BODY, timeout=PATIENCE).json()["id"]
    whole = result(server.url, name)
    server.close()
    server = started("killed")
    name = httpx.post(server.url + SCRIPTS, json=BODY, timeout=PATIENCE).json()["id"]
    lines = tmp_path / "killed" / name / "lines"
    chance = random.Random(7)
    for most in (1, 8, 15):
        until = time.monotonic() + PATIENCE
        while len(list(lines.glob("*.line"))) < most:
            assert time.monotonic() < until
            time.sleep(0.02)
        time.sleep(chance.random() * 0.3)
        server.close()  # SIGKILL
        server = started("killed")
    assert result(server.url, name) == whole
    assert not lines.exists()
    server.close()
