"""Measure a server under open arrivals: audible first sound, gaps and the highest rate without any.

    python -m benchmarks.serving.open_loop --json out.json
    python -m benchmarks.serving.open_loop --url http://127.0.0.1:8880 --no-seed

Requests arrive as a Poisson process, whether earlier ones are answered or not. Their texts have 2
to 60 words. Without `--url` it starts `chattts serve` as a process of its own, with the bundled
voice, and compares each answer with that of a lone run. README.md explains each figure.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..common.command import check_at_least_one, new_parser, origin, write_json
from .listening import Listening
from .mixture import mixture
from .process import ServerProcess, free_ports
from .ways import Ask, Asked, by_rest, by_websocket, by_wyoming

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
        ways: how requests are asked; each request has its way.
        asked: the requests that are drawn from.
        process: the number of the server's process, if it is on this machine.
    """

    def __init__(self, ways: Sequence[Ask], asked: Sequence[Asked], process: int | None) -> None:
        self._asked, self._process = asked, process
        self._ways = {each: ways[number % len(ways)] for number, each in enumerate(asked)}
        self._right: dict[Asked, str] = {}

    async def learn(self) -> None:
        """Ask each request alone, and keep the digest of its answer."""
        for asked, ask in self._ways.items():
            heard = await ask(asked)
            if heard.digest is None:
                raise SystemExit(f"the idle server did not speak {asked.text!r}: {heard.error}")
            self._right[asked] = heard.digest

    def forget(self) -> None:
        """Compare no answers: without seeds each one is another."""
        self._right.clear()

    async def run(self, rate: float, seconds: float, seed: int = 0) -> OpenLoopFigures:
        """Send requests for some seconds, and wait for the end of all answers."""
        rng = random.Random(f"{seed} {rate}")
        tasks: list[asyncio.Task[tuple[Asked, Listening]]] = []
        begin, cpu = time.monotonic(), self._cpu_seconds()
        due, until = begin, begin + seconds
        while (due := due + rng.expovariate(rate)) < until:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            tasks.append(asyncio.create_task(self._ask(rng.choice(self._asked))))
        found = await asyncio.gather(*tasks)
        spent = time.monotonic() - begin
        after = self._cpu_seconds()
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
            errors=Counter(str(heard.error)[:60] for _, heard in found if heard.digest is None),
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
            megabytes=self._megabytes(),
        )

    def _cpu_seconds(self) -> float | None:
        """Return the processor time of the server up to now."""
        if self._process is None:
            return None
        stat = Path(f"/proc/{self._process}/stat").read_text(encoding="utf-8")
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def _megabytes(self) -> float | None:
        if self._process is None:
            return None
        pages = int(Path(f"/proc/{self._process}/statm").read_text(encoding="utf-8").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


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


@contextlib.contextmanager
def _server(args: argparse.Namespace) -> Iterator[tuple[dict[str, Ask], int | None]]:
    """Yield how to ask the server, and its process."""
    fields = {name: _value(text) for name, _, text in (f.partition("=") for f in args.field)}
    if args.url is not None:
        yield {"rest": by_rest(args.url, fields, with_seed=args.seed)}, args.process
        return
    [wyoming] = free_ports(1)
    fields = {"model": "chattts", **fields}
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess(
            Path(folder),
            running=args.running,
            waiting=args.waiting,
            dtype=args.dtype,
            interfaces=("--no-grpc", "--wyoming-port", str(wyoming)),
            model=args.model,
        ) as server,
    ):
        ways = {
            "rest": by_rest(server.url, fields),
            "websocket": by_websocket(server.url, {k: fields[k] for k in fields if k != "model"}),
            "wyoming": by_wyoming(wyoming, fields.get("voice")),
        }
        yield ways, server.number


def _value(text: str) -> Any:
    """Return a value of JSON; what is none is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


async def measure(
    args: argparse.Namespace, ways: Mapping[str, Ask], process: int | None
) -> dict[str, Any]:
    """Return the figures of the given rates, and of the search for the highest one."""
    asked = [Asked(text, seed) for seed, text in enumerate(mixture(args.texts, longest=args.words))]
    load = Load([ways[name] for name in args.ways if name in ways], asked, process)
    # Also where answers are not compared: a server does some things at its first requests.
    await load.learn()
    if not args.seed:
        load.forget()
    rates = []
    for rate in args.rates:
        rates.append(await load.run(rate, args.seconds))
        print(row(rates[-1]), file=sys.stderr)
    search = await highest_rate(load, args.first, args.bound, args.seconds) if args.first else []
    return {"rates": [asdict(each) for each in rates], "search": [asdict(each) for each in search]}


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
    parser.add_argument("--running", type=int, default=16, help="side by side in the server")
    parser.add_argument("--waiting", type=int, default=16, help="that may wait there")
    parser.add_argument("--model", default="bundled", help="folder of a checkpoint")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--url", help="of a server of OpenAI's kind that runs already")
    parser.add_argument("--process", type=int, help="number of that server's process")
    parser.add_argument(
        "--field", action="append", default=[], metavar="NAME=VALUE", help="of the request's body"
    )
    parser.add_argument(
        "--no-seed", dest="seed", action="store_false", help="the server knows no seeds"
    )
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    check_at_least_one(parser, args, "texts", "running")
    with _server(args) as (ways, process):
        results = asyncio.run(measure(args, ways, process))
    print(HEAD)
    for figures in (*results["rates"], *results["search"]):
        print(row(OpenLoopFigures(**figures)))
    write_json({**origin(), "arguments": {**vars(args), "json": None}, **results}, args.json)


if __name__ == "__main__":
    main()
