"""Compare the first sound of a server with that of a front with one replica, in turns.

    python -m benchmarks.serving.replica_hop --rounds 60

Both servers run on this machine with the bundled voice, one thread each, and are idle but for the
one request. The difference is the hop through Ray.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx

_TEXT = "We walk along the river, and then we walk back home again."
_PATIENCE = 300.0


@dataclass(frozen=True)
class Server:
    """A running server: its address, and the process that answers there."""

    url: str
    process: int


def started(stack: ExitStack, *options: str) -> Server:
    """Start a server with the bundled voice and one thread; return it once it is ready."""
    voices = stack.enter_context(tempfile.TemporaryDirectory())
    command = [sys.executable, "-m", "ChatTTS", "serve", "--model", "bundled", "--port", "0"]
    command += ["--no-grpc", "--threads", "1", "--voices", voices, *options]
    # A file and no pipe: a server whose log is not read would come to rest when the pipe is full.
    log = Path(voices) / "log"
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(command, stderr=file)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    while process.poll() is None:
        if match := re.search(r"ready: (http://\S+)\s", log.read_text(encoding="utf-8")):
            return Server(match[1], process.pid)
        time.sleep(0.1)
    raise SystemExit(f"a server did not start:\n{log.read_text(encoding='utf-8')}")


def first_sound(url: str, seed: int) -> float:
    """Return the seconds from a request to the first byte of its sound."""
    body = {"input": _TEXT, "response_format": "pcm", "seed": seed}
    begin = time.perf_counter()
    first = 0.0
    with httpx.stream("POST", f"{url}/v1/audio/speech", json=body, timeout=_PATIENCE) as answer:
        answer.raise_for_status()
        for _ in answer.iter_raw():
            first = first or time.perf_counter() - begin
    return first


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    rounds = parser.parse_args().rounds
    with ExitStack() as stack:
        alone = started(stack).url
        behind = started(stack, "--data-parallel-size", "1").url
        times: dict[str, list[float]] = {alone: [], behind: []}
        for seed in range(rounds + 3):
            for url in (alone, behind) if seed % 2 else (behind, alone):
                times[url].append(first_sound(url, seed))
    quiet, hop = (sorted(seconds[3:]) for seconds in times.values())
    pairs = [1000 * (b - a) for a, b in zip(times[alone][3:], times[behind][3:], strict=True)]
    for name, seconds in (("one process", quiet), ("front and replica", hop)):
        print(
            f"{name}: first sound after {1000 * seconds[0]:.1f} ms at best, "
            f"{1000 * statistics.median(seconds):.1f} ms in the median"
        )
    print(f"later by {statistics.median(pairs):.1f} ms, the median of {rounds} pairs")


if __name__ == "__main__":
    main()
