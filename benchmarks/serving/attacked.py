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
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from ..common.command import check_at_least_one, new_parser, origin, write_json
from . import process_tree
from .attackers import attack
from .clients import Ask, Asked, by_rest
from .listening import Listening
from .process import ServerProcess

_KEYS = {"honest": "a-key-of-listeners", "attackers": "a-key-of-attackers"}
_LAG = "chattts_loop_lag_seconds_bucket"
_LOOK_SECONDS = 0.5
# Ordinary sentences of different lengths. Each is spoken with each seed, so that answers differ.
_TEXTS = (
    "Good morning.",
    "The train leaves at seven.",
    "I would like a cup of tea, please.",
    "We walked along the river until it was dark.",
    "She opened the window because the room was warm.",
    "Could you tell me where the station is? I think I am lost.",
)
_SEEDS = (1, 2)


@dataclass(frozen=True)
class Part:
    """What ten listeners got in a part of the measurement.

    Attributes:
        answers: whole sounds.
        errors: the reasons of the other answers, counted.
        different: sounds that differ from those of a lone request.
        with_gap: sounds during which a player that begins at once ran dry.
        longest_gap: seconds of pauses in one sound, at most.
        first_sound: median and 95th percentile of seconds to the first sound.
        lags: cumulated shares of the event loop's turns, by how many seconds late at most.
        megabytes: most memory of the server.
    """

    answers: int
    errors: dict[str, int]
    different: int
    with_gap: int
    longest_gap: float
    first_sound: tuple[float, float]
    lags: dict[str, float]
    megabytes: float


async def expected(ask: Ask) -> dict[Asked, str]:
    """Return all requests, and the digests of their sounds on the idle server."""
    right = {}
    for asked in (Asked(text, seed) for text in _TEXTS for seed in _SEEDS):
        heard = await ask(asked)
        if heard.digest is None:
            raise SystemExit(f"the idle server did not speak {asked.text!r}: {heard.error}")
        right[asked] = heard.digest
    return right


async def listen(
    ask: Ask, requests: Sequence[Asked], listeners: int, seconds: float
) -> list[tuple[Asked, Listening]]:
    """Have listeners ask without pause for so many seconds; return all answers."""
    until = time.monotonic() + seconds
    answers: list[tuple[Asked, Listening]] = []

    async def keep_asking(number: int) -> None:
        rng = random.Random(number)
        while time.monotonic() < until:
            asked = rng.choice(requests)
            answers.append((asked, await ask(asked)))
            await asyncio.sleep(rng.random())

    await asyncio.gather(*map(keep_asking, range(listeners)))
    return answers


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
    server: ServerProcess, ask: Ask, right: Mapping[Asked, str], args: argparse.Namespace
) -> Part:
    """Return the figures of listening for ``args.seconds``."""
    before, most = await lags(server.url), 0.0
    listening = asyncio.create_task(listen(ask, [*right], args.listeners, args.seconds))
    while not listening.done():
        most = max(most, process_tree.megabytes(server.number))
        await asyncio.sleep(_LOOK_SECONDS)
    return figures(await listening, right, before, await lags(server.url), most)


def figures(
    answers: Sequence[tuple[Asked, Listening]],
    right: Mapping[Asked, str],
    before: dict[str, float],
    after: dict[str, float],
    megabytes: float,
) -> Part:
    """Return the figures of answers, and of the loop's turns between two looks at the metrics."""
    whole = [(asked, heard) for asked, heard in answers if heard.digest is not None]
    gaps = [heard.gaps() for _, heard in whole]
    firsts = sorted(heard.arrivals[0][0] for _, heard in whole) or [0.0]
    turns = {bound: after[bound] - before.get(bound, 0.0) for bound in after}
    count = max(turns.values(), default=0.0) or 1.0
    return Part(
        answers=len(whole),
        errors=dict(Counter(str(heard.error)[:60] for _, heard in answers if not heard.digest)),
        different=sum(right[asked] != heard.digest for asked, heard in whole),
        with_gap=sum(each.count > 0 for each in gaps),
        longest_gap=max((each.seconds for each in gaps), default=0.0),
        first_sound=(firsts[len(firsts) // 2], firsts[int(0.95 * (len(firsts) - 1))]),
        lags={bound: until / count for bound, until in turns.items()},
        megabytes=megabytes,
    )


async def measure(server: ServerProcess, args: argparse.Namespace) -> dict[str, Any]:
    """Return the report: a quiet part, one under attack, and the memory afterwards.

    ``load_before`` is the system's load average of five minutes: the work of other programs.
    """
    load_before = os.getloadavg()[1]
    ask = by_rest(server.url, {"model": "chattts"}, headers=_headers("honest"))
    right = await expected(ask)
    quiet = await part(server, ask, right, args)
    print(f"quiet: {quiet}", file=sys.stderr)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        attacking = pool.submit(attack, server.url, _headers("attackers"), args.seconds)
        attacked = await part(server, ask, right, args)
        attempts = await asyncio.wrap_future(attacking)
    print(f"attacked: {attacked}\nattempts: {attempts}", file=sys.stderr)
    await asyncio.sleep(args.rest)
    rest = process_tree.megabytes(server.number)
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
