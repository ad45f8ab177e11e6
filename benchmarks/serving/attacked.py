"""Measure what honest listeners notice while other clients of the server mean harm.

    python -m benchmarks.serving.attacked --json out.json

Ten listeners ask for short texts again and again. After a quiet part, a process of attackers
begins: bodies that are hard to read, sockets that are not read, requests that never end, letters
one by one, listeners that leave. Each sound is compared with that of a lone request. README.md
explains the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from ..common.command import check_at_least_one, new_parser, origin, write_json
from .__main__ import expected
from .attackers import attack
from .clients import Client, Outcome, Wanted
from .process import ServerProcess

_KEYS = {"honest": "a-key-of-listeners", "attackers": "a-key-of-attackers"}
_LAG = "chattts_loop_lag_seconds_bucket"
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Part:
    """What ten listeners got in a part of the measurement.

    Attributes:
        answers: whole sounds.
        refused: by status.
        different: sounds that differ from those of a lone request.
        with_gap: sounds during which a player that begins at once ran dry.
        longest_gap: seconds of pauses in one sound, at most.
        first_sound: median and 95th percentile of seconds to the first sound.
        lags: cumulated shares of the event loop's turns, by how many seconds late at most.
        megabytes: most memory of the server.
    """

    answers: int
    refused: dict[int, int]
    different: int
    with_gap: int
    longest_gap: float
    first_sound: tuple[float, float]
    lags: dict[str, float]
    megabytes: float


async def listen(
    client: Client, wanted: Sequence[Wanted], listeners: int, seconds: float
) -> list[Outcome]:
    """Have listeners ask without pause for so many seconds; return all outcomes."""
    until, outcomes = time.monotonic() + seconds, []

    async def ask(number: int) -> None:
        rng = random.Random(number)
        while time.monotonic() < until:
            outcomes.append(await client.speak(rng.choice(wanted)))
            await asyncio.sleep(rng.random())

    await asyncio.gather(*map(ask, range(listeners)))
    return outcomes


async def lags(url: str) -> dict[str, float]:
    """Return the counts of the event loop's turns, cumulated by the bounds of their lag."""
    async with httpx.AsyncClient() as client:
        text = (await client.get(f"{url}/metrics")).text
    return {
        sample.labels["le"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == _LAG
    }


async def part(
    server: ServerProcess, client: Client, wanted: Sequence[Wanted], args: argparse.Namespace
) -> Part:
    """Return the figures of listening for ``args.seconds``."""
    before, most = await lags(server.url), 0.0
    listening = asyncio.create_task(listen(client, wanted, args.listeners, args.seconds))
    while not listening.done():
        most = max(most, (await server.usage()).megabytes)
        await asyncio.sleep(_LOOK_SECONDS)
    return figures(await listening, before, await lags(server.url), most)


def figures(
    outcomes: Sequence[Outcome],
    before: dict[str, float],
    after: dict[str, float],
    megabytes: float,
) -> Part:
    """Return the figures of outcomes, and of the loop's turns between two looks at the metrics."""
    heard = [each for each in outcomes if each.status == 200]
    others = [each.status for each in outcomes if each.status != 200]
    firsts = sorted(each.first for each in heard if each.first is not None) or [0.0]
    turns = {bound: after[bound] - before.get(bound, 0.0) for bound in after}
    whole = max(turns.values(), default=0.0) or 1.0
    return Part(
        answers=len(heard),
        refused={status: others.count(status) for status in sorted(set(others))},
        different=sum(not each.is_right for each in heard),
        with_gap=sum(each.underruns > 0 for each in heard),
        longest_gap=max((each.pauses for each in heard), default=0.0),
        first_sound=(firsts[len(firsts) // 2], firsts[int(0.95 * (len(firsts) - 1))]),
        lags={bound: count / whole for bound, count in turns.items()},
        megabytes=megabytes,
    )


async def measure(server: ServerProcess, args: argparse.Namespace) -> dict[str, Any]:
    """Return the report: a quiet part, one under attack, and the memory afterwards.

    ``load_before`` is the system's load average of five minutes: the work of other programs.
    """
    load_before = os.getloadavg()[1]
    async with Client(server.url, _headers("honest")) as client:
        wanted = await expected(client)
        quiet = await part(server, client, wanted, args)
        print(f"quiet: {quiet}", file=sys.stderr)
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            attacking = pool.submit(attack, server.url, _headers("attackers"), args.seconds)
            attacked = await part(server, client, wanted, args)
            attempts = await asyncio.wrap_future(attacking)
        print(f"attacked: {attacked}\nattempts: {attempts}", file=sys.stderr)
        await asyncio.sleep(args.rest)
        rest = (await server.usage()).megabytes
    parts = {"quiet": asdict(quiet), "attacked": asdict(attacked)}
    about = {**origin(), "load_before": load_before}
    return {**about, **parts, "attempts": attempts, "megabytes_afterwards": rest}


def _headers(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {_KEYS[name]}"}


def main() -> None:
    parser = new_parser("serving.attacked", __doc__ or "")
    parser.add_argument("--json", type=Path, help="write the report to this file")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each part")
    parser.add_argument("--listeners", type=int, default=10, help="honest clients")
    parser.add_argument("--rest", type=float, default=10.0, help="seconds before the last look")
    args = parser.parse_args()
    check_at_least_one(parser, args, "seconds", "listeners")
    # Keys tell clients apart, so that each has a share of the places.
    os.environ["CHATTTS_API_KEYS"] = ",".join(_KEYS.values())
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess(Path(folder), running=16, waiting=64, dtype="float32") as server,
    ):
        write_json(asyncio.run(measure(server, args)), args.json)


if __name__ == "__main__":
    main()
