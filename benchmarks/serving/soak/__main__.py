"""Load servers for hours, disturb them, and look for what grows, differs or stays open.

    python -m benchmarks.serving.soak --hours 2 --report soak
    make soak HOURS=24

Starts a server of one process, one with two replicas (where Ray is installed), one that unloads its
model when it is idle, and one for MCP, all with one voice. README.md explains the report.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ChatTTS.checkpoints import assets
from ChatTTS.config import Config
from ChatTTS.model.llama.config import read_llama_shape

from ...common.command import check_at_least_one, new_parser, origin
from ...common.random_adapter import save_adapter
from . import report as reports
from .disturb import Disturbance, learn_voices
from .load import WAYS, Load, catalogue
from .requests import PATIENCE
from .samples import Sample, Watch
from .servers import SoakServer, has, started
from .slope import warm_up_seconds
from .tally import Tally

_ADAPTER = "dora"
_VOICES = ("edith", "clara", _ADAPTER)
_QUIET_SECONDS = 90.0
# Threads and connections that nothing uses end by themselves within this time.
_REST_SECONDS = 20.0
_WRITE_SECONDS = 60.0


@dataclass
class Soak:
    """One run: its settings, its servers, and all that is known of them.

    Attributes:
        args: of the command line.
        servers: by name.
        tally: counts.
        figures: of the report, besides those of the tally and the samples.
    """

    args: argparse.Namespace
    servers: Mapping[str, SoakServer]
    tally: Tally = field(default_factory=Tally)
    figures: dict[str, Any] = field(default_factory=dict)
    ends: dict[str, reports.End] = field(default_factory=dict)
    begin: Sample | None = None
    end: Sample | None = None

    def __post_init__(self) -> None:
        self._started = time.monotonic()
        self._loaded: float | None = None
        self._is_stopped = False
        self.watch = Watch(self.servers, self.tally, self.clock)

    def clock(self) -> float:
        """Return the seconds since the load began, or since the start before that."""
        return time.monotonic() - (self._loaded or self._started)

    def is_over(self) -> bool:
        """Return whether the load has lasted as long as it should, without the gaps."""
        lasted = self.clock() - self.tally.stood_still
        return self._is_stopped or (self._loaded is not None and lasted >= self.seconds)

    @property
    def seconds(self) -> float:
        """Return the seconds that the load should last."""
        return float(self.args.hours * 3600)

    @property
    def warm_up(self) -> float:
        """Return the seconds of the beginning that are left out of the slopes."""
        return warm_up_seconds(self.seconds, 60 * self.args.warm_up)

    def stop(self) -> None:
        """End the load now."""
        self._is_stopped = True

    async def run(self) -> None:
        """Learn, calibrate, load and look at the end."""
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self.stop)
        ways = [name for name, way in WAYS.items() if way.door != "mcp" or "mcp" in self.servers]
        count = max(self.args.requests, len(ways))
        requests = catalogue(ways, count, _VOICES, self.args.seed)
        load = Load(self.servers, requests, self.tally, self.clock)
        plain = self.servers["plain"]
        print(f"learning {count} requests in {len(ways)} ways", flush=True)
        await load.learn()
        recording = await learn_voices(load, plain)
        highest = await load.highest_rate(self.args.clients, self.args.calibration)
        self.figures |= {"highest_rate": highest, "rate": self.args.share * highest}
        print(
            f"{highest:.2f} requests a second at most; load: {self.figures['rate']:.2f}", flush=True
        )
        self.begin = await self._rested()
        self._loaded = time.monotonic()
        self.tally.gaps.clear()
        await self._loaded_run(load, recording)
        load.is_stopping = True
        if all(server.runs for server in self.servers.values()):
            self.end = await self._rested()

    async def _rested(self) -> Sample:
        await self.watch.quiet(_QUIET_SECONDS)
        await asyncio.sleep(_REST_SECONDS)
        return await self.watch.quiet(_QUIET_SECONDS)

    async def _loaded_run(self, load: Load, recording: bytes) -> None:
        disturbance = Disturbance(load, self.tally, self.clock, self.is_over)
        speaking = [self.servers[name] for name in ("plain", "front") if name in self.servers]
        rng = random.Random(f"disturbances {self.args.seed}")
        beside = [
            self.watch.take_samples(self.args.sample, self.is_over),
            disturbance.voices(speaking, 60 * self.args.voices, recording),
            disturbance.sweeps(speaking, 60.0),
        ]
        if "front" in self.servers:
            every = 60 * self.args.kill
            beside.append(disturbance.kills(self.servers["front"], every, rng))
        if "idle" in self.servers:
            streams = [each for each in load.requests if WAYS[each.way].door == "http"]
            beside.append(disturbance.sleeps(self.servers["idle"], streams, 60.0))
        gaps = asyncio.create_task(self.watch.notice_gaps())
        writes = asyncio.create_task(self._write_again())
        try:
            await asyncio.gather(
                load.run(self.figures["rate"], self.is_over, self.args.seed), *beside
            )
            await disturbance.sweep(speaking, 0.0)
            if "front" in self.servers:
                await self._all_replicas(self.servers["front"])
        finally:
            for task in (gaps, writes):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _all_replicas(self, front: SoakServer) -> None:
        """Wait until a replica that was killed is back."""
        until = time.monotonic() + PATIENCE
        while front.runs and len(front.replicas()) < 2 and time.monotonic() < until:
            await asyncio.sleep(1.0)
        await asyncio.sleep(5.0)

    async def _write_again(self) -> None:
        while True:
            await asyncio.sleep(_WRITE_SECONDS)
            self.write()

    def write(self, *, has_ended: bool = False) -> dict[str, Any]:
        """Write the report of all that is known now, and return it."""
        told, memory = self.tally.told(), reports.slopes(self.watch.samples, self.warm_up)
        left: list[str] | None = None if has_ended else []
        if self.begin is not None and self.end is not None:
            later = (each for each in self.watch.samples if each.at >= self.warm_up)
            left = reports.still_open(self.begin, next(later, None), self.end)
        status, problems = reports.verdict(told, memory, left, self.ends)
        if not has_ended:
            status = status or reports.TOO_SHORT
            problems = ["the soak had not ended when this was written", *problems]
        report = {
            **origin(),
            "seconds": self.clock() - self.tally.stood_still,
            "warm_up": self.warm_up,
            "servers": list(self.servers),
            "rate": 0.0,
            "highest_rate": 0.0,
            **self.figures,
            "status": status,
            "problems": problems,
            "memory": reports.memory_told(memory),
            "requests": told,
            "begin": self.begin and self.begin.told(),
            "end": self.end and self.end.told(),
            "ends": reports.ends_told(self.ends),
            "samples": [sample.told() for sample in self.watch.samples],
        }
        reports.write(report, self.args.report.with_suffix(".json"))
        self.args.report.with_suffix(".md").write_text(reports.markdown(report), encoding="utf-8")
        return report


def names_of_servers(args: argparse.Namespace) -> list[str]:
    """Return which servers are started: those whose packages are there, unless some are named."""
    if args.servers:
        return ["plain", *(name for name in args.servers if name != "plain")]
    names = ["plain", "front", "idle", "mcp"]
    missing = {name for name, package in (("front", "ray"), ("mcp", "mcp")) if not has(package)}
    for name in sorted(missing):
        print(f"without the server {name}: its package is not installed", flush=True)
    return [name for name in names if name not in missing]


def main() -> None:
    parser = new_parser("serving.soak", __doc__ or "")
    parser.add_argument("--hours", type=float, default=1.0, help="of the load")
    parser.add_argument("--report", type=Path, default=Path("soak"), help="without a suffix")
    parser.add_argument("--requests", type=int, default=66, help="different ones")
    parser.add_argument("--share", type=float, default=0.4, help="of the highest rate")
    parser.add_argument("--clients", type=int, default=8, help="that find the highest rate")
    parser.add_argument("--calibration", type=float, default=40.0, help="seconds to find it")
    parser.add_argument("--kill", type=float, default=4.0, help="minutes between kills of replicas")
    parser.add_argument("--voices", type=float, default=1.0, help="minutes between new voices")
    parser.add_argument("--sample", type=float, default=30.0, help="seconds between samples")
    parser.add_argument(
        "--warm-up", type=float, default=10.0, help="minutes, at least; or a quarter of the time"
    )
    parser.add_argument(
        "--servers", nargs="+", choices=["plain", "front", "idle", "mcp"], help="all by default"
    )
    parser.add_argument("--model", default="bundled", help="folder of a checkpoint")
    parser.add_argument("--seed", type=int, default=1, help="of arrivals, texts and clients")
    parser.add_argument("--plot", action="store_true", help="also write a plot")
    args = parser.parse_args()
    check_at_least_one(parser, args, "requests", "clients")
    report = soak(args)
    if args.plot:
        from .plot import draw

        draw(report, args.report.with_suffix(".png"))
    print(args.report.with_suffix(".md").read_text(encoding="utf-8"))
    raise SystemExit(report["status"])


def soak(args: argparse.Namespace) -> dict[str, Any]:
    """Start the servers, run the soak, end the servers, and return the report."""
    with tempfile.TemporaryDirectory(prefix="s-") as name:
        folder = Path(name)
        located = assets.locate(args.model)
        config = Config.from_file(located.config)
        shape = read_llama_shape(located.path / "asset" / "gpt" / "config.json", config.gpt)
        adapter = save_adapter(folder / "adapter", shape, seed=1, rank=2, strength=0.15)
        with ExitStack() as stack:
            names = names_of_servers(args)
            servers = started(stack, folder, names, args.model, {_ADAPTER: adapter})
            run = Soak(args, servers)
            asyncio.run(run.run())
        run.ends |= {
            name: reports.End(server.status, server.left, server.troubles())
            for name, server in servers.items()
        }
        return run.write(has_ended=True)


if __name__ == "__main__":
    main()
