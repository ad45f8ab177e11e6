"""Compare two replicas of one thread with one, in turns: streams at once, and the front's own work.

    python -m benchmarks.serving.replica_load --streams 8 --rounds 5

Two replicas get twice the streams. Both fronts run on this machine with the bundled voice. The
clients and the fronts share its cores with the replicas.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx

from .replica_hop import Server, started

_TEXT = "We walk along the river, and then we walk back home again. The children are in the garden."
_PATIENCE = 300.0
_RATE = 24_000
_BYTES = 2  # of a sample


@dataclass(frozen=True)
class Round:
    """A round of one front.

    Attributes:
        speed: seconds of speech in a second, all streams together.
        first_sounds: seconds to the first sound, of each request.
        front: CPU seconds of the front's process for each second of speech.
    """

    speed: float
    first_sounds: list[float]
    front: float


def cpu_seconds(process: int) -> float:
    """Return the CPU seconds that a process has used (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def speak(client: httpx.Client, url: str, seed: int) -> tuple[float, int]:
    """Return the seconds to the first sound of a request, and the samples of its speech."""
    body = {"input": _TEXT, "response_format": "pcm", "seed": seed}
    begin, first, count = time.perf_counter(), 0.0, 0
    with client.stream("POST", f"{url}/v1/audio/speech", json=body) as answer:
        answer.raise_for_status()
        for data in answer.iter_raw():
            first = first or time.perf_counter() - begin
            count += len(data)
    return first, count // _BYTES


def measured(server: Server, streams: int, requests: int) -> Round:
    """Speak ``requests`` texts, one after another, in each of ``streams`` threads."""

    def stream(number: int) -> list[tuple[float, int]]:
        with httpx.Client(timeout=_PATIENCE) as client:
            return [speak(client, server.url, number * requests + i) for i in range(requests)]

    before, begin = cpu_seconds(server.process), time.perf_counter()
    with ThreadPoolExecutor(streams) as pool:
        found = [one for many in pool.map(stream, range(streams)) for one in many]
    seconds = time.perf_counter() - begin
    speech = sum(samples for _, samples in found) / _RATE
    front = (cpu_seconds(server.process) - before) / speech
    return Round(speech / seconds, sorted(first for first, _ in found), front)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=8, help="of a replica")
    parser.add_argument("--requests", type=int, default=3, help="of a stream in a round")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with ExitStack() as stack:
        servers = {size: started(stack, "--data-parallel-size", str(size)) for size in (1, 2)}
        rounds: dict[int, list[Round]] = {1: [], 2: []}
        for number in range(args.rounds + 1):
            for size in (1, 2) if number % 2 else (2, 1):
                found = measured(servers[size], size * args.streams, args.requests)
                if number:  # the first one warms up
                    rounds[size].append(found)
    for size, found_rounds in rounds.items():
        firsts = sorted(first for each in found_rounds for first in each.first_sounds)
        print(
            f"{size} replica(s), {size * args.streams} streams: "
            f"{statistics.median(each.speed for each in found_rounds):.1f} s of speech a second, "
            f"first sound {1000 * statistics.median(firsts):.0f} ms in the median, "
            f"{1000 * firsts[int(0.95 * len(firsts))]:.0f} ms in 95 %, "
            f"front {1000 * statistics.median(each.front for each in found_rounds):.1f} ms of CPU "
            "for a second of speech"
        )
    ratios = [two.speed / one.speed for one, two in zip(rounds[1], rounds[2], strict=True)]
    print(
        f"two replicas speak {statistics.median(ratios):.2f} times as much "
        f"({min(ratios):.2f} to {max(ratios):.2f})"
    )


if __name__ == "__main__":
    main()
