"""Test a server on loopback under load: its capacity, and how it treats requests beyond it.

    python -m benchmarks.serving --json out.json --plot out.png
    python -m benchmarks.serving --seconds 60 --times 1 2 10 --leaving 500

Starts `chattts serve` as a process of its own, with the bundled voice. Clients and server share the
machine. README.md explains each figure.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..common.command import new_parser, write_json
from ..common.report import machine
from .clients import Client, Outcome, Wanted, load_of
from .figures import LeaveFigures, first_sounds, load_figures, table
from .process import ServerProcess, Usage

# Ordinary sentences of different lengths. Each is spoken with each seed, so that answers differ.
TEXTS = (
    "Good morning.",
    "The train leaves at seven.",
    "I would like a cup of tea, please.",
    "We walked along the river until it was dark.",
    "She opened the window because the room was warm.",
    "Could you tell me where the station is? I think I am lost.",
)
SEEDS = (1, 2)


async def expected(client: Client) -> list[Wanted]:
    """Return all texts with all seeds, and the digests of their samples on the idle server."""
    wanted = []
    for text in TEXTS:
        for seed in SEEDS:
            outcome = await client.speak(Wanted(text, seed, None))
            if outcome.digest is None:
                raise SystemExit(f"the idle server answered {outcome.status} to {text!r}")
            wanted.append(Wanted(text, seed, outcome.digest))
    return wanted


async def capacity(client: Client, wanted: Sequence[Wanted], running: int, seconds: float) -> float:
    """Return the requests a second that are served while ``running`` clients send without pause."""
    until, done = time.monotonic() + seconds, 0

    async def keep_asking(number: int) -> None:
        nonlocal done
        rng = random.Random(number)
        while time.monotonic() < until:
            outcome = await client.speak(rng.choice(wanted))
            done += outcome.status == 200

    begin = time.monotonic()
    await asyncio.gather(*map(keep_asking, range(running)))
    return done / (time.monotonic() - begin)


async def leave(client: Client, wanted: Sequence[Wanted], count: int, longest: float) -> int:
    """Have ``count`` clients disconnect after at most ``longest`` seconds.

    Returns:
        How many of them had the whole answer before that.
    """
    rng = random.Random(0)
    places = asyncio.Semaphore(50)

    async def come_and_go() -> bool:
        async with places:
            task = asyncio.create_task(client.speak(rng.choice(wanted)))
            done, _ = await asyncio.wait([task], timeout=rng.uniform(0, longest))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return bool(done)

    return sum(await asyncio.gather(*(come_and_go() for _ in range(count))))


async def idle(server: ServerProcess) -> Usage:
    """Wait until nothing runs in the server, and return what it still holds."""
    for _ in range(200):
        usage = await server.usage()
        if not usage.running and not usage.waiting and not usage.blocks:
            return usage
        await asyncio.sleep(0.05)
    return usage


async def measure(args: argparse.Namespace, server: ServerProcess) -> dict[str, Any]:
    """Measure everything and return the report."""
    results: dict[str, Any] = {"machine": machine(), "arguments": vars(args) | {"plot": None}}
    async with Client(server.url) as client:
        wanted = await expected(client)
        results["first_sound"] = asdict(await first_sounds(client, TEXTS[2], args.rounds))
        print(f"idle: {results['first_sound']}", file=sys.stderr)
        rate = await capacity(client, wanted, args.running, args.seconds)
        results["capacity"] = rate
        print(f"capacity: {rate:.2f} requests a second", file=sys.stderr)
        loads = []
        for times in args.times:
            before = await idle(server)
            outcomes: list[Outcome] = await load_of(
                client, wanted, rate * times, args.seconds, random.Random(times)
            )
            after = await idle(server)
            loads.append(asdict(load_figures(times, rate, outcomes, before, after)))
            print(f"{times} x: {loads[-1]}", file=sys.stderr)
        results["loads"] = loads
        before = await idle(server)
        whole = await leave(client, wanted, args.leaving, args.longest)
        after = await idle(server)
        results["leaving"] = asdict(LeaveFigures.of(args.leaving, whole, before, after))
    return results


def main() -> None:
    parser = new_parser("serving", __doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each load")
    parser.add_argument("--times", type=float, nargs="*", default=[1, 2, 10], help="of capacity")
    parser.add_argument("--running", type=int, default=4, help="side by side in the server")
    parser.add_argument("--waiting", type=int, default=16, help="that may wait there")
    parser.add_argument("--leaving", type=int, default=500, help="clients that go away")
    parser.add_argument("--longest", type=float, default=3.0, help="seconds until they do")
    parser.add_argument("--rounds", type=int, default=30, help="of the first sound, idle")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess(
            Path(folder), running=args.running, waiting=args.waiting, dtype=args.dtype
        ) as server,
    ):
        arguments = argparse.Namespace(**{**vars(args), "json": None})
        results = asyncio.run(measure(arguments, server))
    print(table(results))
    write_json(results, args.json)
    if args.plot is not None:
        from .plot import draw

        draw(results, args.plot)


if __name__ == "__main__":
    main()
