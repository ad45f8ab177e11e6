"""Measure a server under open arrivals: audible first sound, gaps and the highest rate without any.

    python -m benchmarks.serving.open_loop --json out.json
    python -m benchmarks.serving.open_loop --url http://127.0.0.1:8880 --command server --no-seed

Requests arrive as a Poisson process, whether earlier ones are answered or not. Their texts have 2
to 60 words. Without `--url` it starts `chattts serve` as a process of its own, with the bundled
voice, and compares each answer with that of a lone run. README.md explains each figure.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ChatTTS.audio import save

from ..common.command import check_at_least_one, new_parser, origin, write_json
from .clients import Ask, Asked
from .listening import Listening
from .measured_server import MeasuredServer, add_server_arguments, measured_server
from .mixture import mixture

_BUFFER = 0.1  # seconds of sound that a careful player waits for
_STEP = 1.25  # between two rates of the search


@dataclass(frozen=True)
class OpenLoopFigures:
    """The figures of one rate. Times are in milliseconds after the request was sent.

    Attributes:
        rate: requests a second, on average.
        sent, whole: requests, and those that had their whole answer.
        errors: the reasons of the others, counted.
        wrong: whole answers that differ from those of a lone run.
        first_byte, audible: p50, p95 and p99 of the first byte of sound and of the first sample
            above -50 dB, by a player that starts with the first byte.
        gaps, gaps_buffered: answers with a pause in a player that starts with the first byte, or
            with 100 ms of sound.
        pause: the longest pause of one answer in the first player, in seconds.
        sound: seconds of speech a second, of whole answers.
        cores: processor time of the server a second; ``None`` where the server is not ours.
        megabytes: resident memory of the server at the end.
    """

    rate: float
    sent: int
    whole: int
    errors: Mapping[str, int]
    wrong: int
    first_byte: tuple[float, ...]
    audible: tuple[float, ...]
    gaps: int
    gaps_buffered: int
    pause: float
    sound: float
    cores: float | None
    megabytes: float | None

    def meets(self, bound: float) -> bool:
        """Return whether all answers are whole and right, without a gap, and p95 is in bound."""
        is_well = self.whole == self.sent and not self.wrong and not self.gaps_buffered
        return is_well and self.audible[1] <= bound


class Load:
    """Sends requests to one server, and knows the right answers.

    Args:
        server: is asked.
        ways: how requests are asked; each request has its way.
        asked: the requests that are drawn from.
    """

    def __init__(self, server: MeasuredServer, ways: Sequence[Ask], asked: Sequence[Asked]) -> None:
        self._server, self._asked = server, asked
        self._ways = {each: ways[number % len(ways)] for number, each in enumerate(asked)}
        self._right: dict[Asked, str] = {}

    async def learn(self, folder: Path | None = None) -> None:
        """Ask each request alone, and keep the digest of its answer.

        Args:
            folder: gets the answers as sound files, with their texts.
        """
        for number, (asked, ask) in enumerate(self._ways.items()):
            heard = await ask(asked)
            if heard.digest is None:
                raise SystemExit(f"the idle server did not speak {asked.text!r}: {heard.error}")
            self._right[asked] = heard.digest
            if folder is not None:
                save(folder / f"{number:03d}.wav", heard.samples, mark=False)
                (folder / f"{number:03d}.txt").write_text(asked.text, encoding="utf-8")

    async def burst(self, count: int) -> float | None:
        """Ask so many requests at once; return the megabytes of the server at their end."""
        asked = [self._asked[number % len(self._asked)] for number in range(count)]
        await asyncio.gather(*map(self._ask, asked))
        return self._server.megabytes()

    def forget(self) -> None:
        """Compare no answers: without seeds each one is another."""
        self._right.clear()

    async def run(self, rate: float, seconds: float, seed: int = 0) -> OpenLoopFigures:
        """Send requests for some seconds, and wait for the end of all answers."""
        rng = random.Random(f"{seed} {rate}")
        tasks: list[asyncio.Task[tuple[Asked, Listening]]] = []
        begin, cpu = time.monotonic(), self._server.cpu_seconds()
        due, until = begin, begin + seconds
        while (due := due + rng.expovariate(rate)) < until:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            tasks.append(asyncio.create_task(self._ask(rng.choice(self._asked))))
        found = await asyncio.gather(*tasks)
        spent = time.monotonic() - begin
        after = self._server.cpu_seconds()
        cores = None if cpu is None or after is None else (after - cpu) / spent
        return self._figures(rate, found, spent, cores)

    async def _ask(self, asked: Asked) -> tuple[Asked, Listening]:
        return asked, await self._ways[asked](asked)

    def _figures(
        self,
        rate: float,
        found: Sequence[tuple[Asked, Listening]],
        spent: float,
        cores: float | None,
    ) -> OpenLoopFigures:
        whole = [(asked, heard) for asked, heard in found if heard.digest is not None]
        plain = [heard.gaps() for _, heard in whole]
        return OpenLoopFigures(
            rate=rate,
            sent=len(found),
            whole=len(whole),
            # A plain mapping: `asdict` cannot copy a Counter.
            errors=dict(
                Counter(str(heard.error)[:60] for _, heard in found if heard.digest is None)
            ),
            wrong=sum(
                self._right.get(asked, heard.digest) != heard.digest for asked, heard in whole
            ),
            first_byte=_percentiles([heard.first_byte for _, heard in whole]),
            audible=_percentiles([heard.audible for _, heard in whole]),
            gaps=sum(gaps.count > 0 for gaps in plain),
            gaps_buffered=sum(heard.gaps(_BUFFER).count > 0 for _, heard in whole),
            pause=max((gaps.seconds for gaps in plain), default=0.0),
            sound=sum(heard.seconds for _, heard in whole) / spent,
            cores=cores,
            megabytes=self._server.megabytes(),
        )


def _percentiles(seconds: Sequence[float | None]) -> tuple[float, ...]:
    """Return p50, p95 and p99 in milliseconds; infinity where there are none."""
    known = [value for value in seconds if value is not None]
    if not known:
        return (float("inf"),) * 3
    return tuple(1000 * float(value) for value in np.percentile(known, [50, 95, 99]))


async def highest_rate(
    load: Load, first: float, bound: float, seconds: float
) -> list[OpenLoopFigures]:
    """Raise the rate step by step until p95 is above ``bound`` or a listener hears a gap.

    A rate that fails is tried once more with other arrivals, so that one accident does not end the
    search.

    Returns:
        The figures of all rates; the last one failed twice.
    """
    found: list[OpenLoopFigures] = []
    rate = first
    while True:
        for seed in range(2):
            found.append(await load.run(rate, seconds, seed))
            print(row(found[-1]), file=sys.stderr)
            if found[-1].meets(bound):
                break
        else:
            return found
        rate *= _STEP


HEAD = (
    "| rate, 1/s | sent | whole | wrong | first byte p50 / p95 | audible p50 / p95 / p99, ms | "
    "with a gap | with 100 ms | s/s | cores | MB |\n" + "| --- " * 11 + "|"
)


def row(figures: OpenLoopFigures) -> str:
    """Return the figures as a line of a Markdown table."""
    byte, audible = figures.first_byte, figures.audible
    cells = (
        f"{figures.rate:.2f}",
        f"{figures.sent}",
        f"{figures.whole}",
        f"{figures.wrong}",
        f"{byte[0]:.0f} / {byte[1]:.0f}",
        f"{audible[0]:.0f} / {audible[1]:.0f} / {audible[2]:.0f}",
        f"{figures.gaps} ({figures.pause:.2f} s)",
        f"{figures.gaps_buffered}",
        f"{figures.sound:.1f}",
        "" if figures.cores is None else f"{figures.cores:.2f}",
        "" if figures.megabytes is None else f"{figures.megabytes:.0f}",
    )
    return "| " + " | ".join(cells) + " |"


async def measure(args: argparse.Namespace, server: MeasuredServer) -> dict[str, Any]:
    """Return the figures of the given rates, and of the search for the highest one."""
    asked = [Asked(text, seed) for seed, text in enumerate(mixture(args.texts, longest=args.words))]
    load = Load(server, [server.ways[name] for name in args.ways if name in server.ways], asked)
    memory = {"idle": server.megabytes()}
    # Also where answers are not compared: a server does some things at its first requests.
    await load.learn(args.save)
    memory["one"] = server.megabytes()
    if not args.seed:
        load.forget()
    rates = []
    for rate in args.rates:
        rates.append(await load.run(rate, args.seconds))
        print(row(rates[-1]), file=sys.stderr)
    search = await highest_rate(load, args.first, args.bound, args.seconds) if args.first else []
    if args.burst:
        memory[f"{args.burst} at once"] = await load.burst(args.burst)
    return {
        "ready": server.ready,
        "megabytes": memory,
        "rates": [asdict(each) for each in rates],
        "search": [asdict(each) for each in search],
    }


def main() -> None:
    parser = new_parser("serving.open_loop", __doc__ or "")
    parser.add_argument(
        "--rates", type=float, nargs="*", default=[0.5, 1, 2], help="requests a second"
    )
    parser.add_argument("--first", type=float, default=1.0, help="of the search; 0: none")
    parser.add_argument("--bound", type=float, default=300.0, help="ms of p95 that a rate may have")
    parser.add_argument("--seconds", type=float, default=40.0, help="of each rate")
    parser.add_argument("--texts", type=int, default=24, help="different requests")
    parser.add_argument("--words", type=int, default=60, help="of the longest text")
    parser.add_argument(
        "--ways",
        nargs="+",
        default=["rest", "websocket", "wyoming"],
        help="interfaces of our server",
    )
    parser.add_argument("--burst", type=int, default=16, help="requests at once, for the memory")
    parser.add_argument("--save", type=Path, help="folder for the sound of the lone requests")
    add_server_arguments(parser)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    check_at_least_one(parser, args, "texts", "running")
    if args.save is not None:
        args.save.mkdir(parents=True, exist_ok=True)
    with measured_server(args) as server:
        results = asyncio.run(measure(args, server))
    ready, memory = results["ready"], results["megabytes"]
    print("" if ready is None else f"ready after {ready:.1f} s", memory)
    print(HEAD)
    for figures in (*results["rates"], *results["search"]):
        print(row(OpenLoopFigures(**figures)))
    write_json(
        {**origin(), "arguments": {**vars(args), "json": None, "save": None}, **results}, args.json
    )


if __name__ == "__main__":
    main()
