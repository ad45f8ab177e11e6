"""Measure what the host of a GPU costs, from the engine to the socket, on a machine without one.

    python -m benchmarks.serving.host --json out.json
    python -m benchmarks.serving.host --parts streams --streams 64 --seconds 4
    python -m benchmarks.serving.host --model-process

Starts `chattts serve` on a simulated H100: steps and launches of the decoder take its time and give
known results, and all other code is the server's own. The client is in this process, and shares the
machine with the server. README.md explains each figure.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prometheus_client.parser import text_string_to_metric_families

from ..common.command import check_at_least_one, new_parser, origin, write_json
from . import process_tree
from .lean_client import Answer, LeanClient
from .mixture import mixture
from .process import ServerProcess
from .simulated.device import Counters

_PARTS = ("streams", "requests", "rates")
_RUNNING, _WAITING, _CONNECTIONS = 256, 400, 2000
_SAMPLES_PER_FRAME = 512
# One utterance of about 600 frames, and one of about 40.
_LONG = (
    "We walked along the river until it was dark and the lamps on the other side were lit one "
    "after another while somebody played the piano behind an open window above the old bakery"
)
_SHORT = "Good morning."
_SETTLED = 2.0  # seconds before streams are measured, of which the start is not a part
_PATIENCE = 60.0
_BUFFER = 0.1  # seconds of sound that a careful player waits for


@dataclass(frozen=True)
class HostFigures:
    """The machine's work in a stretch of time.

    Attributes:
        seconds: its length.
        frames: frames of speech that came out of the sockets.
        drawn: frames that the device drew.
        cpu: seconds of processor time of the server.
        front: those of the process that holds the connections.
        threads: the most threads of the server, of all its processes.
        processes: of the server.
        device: part of the time for which the device had work; above 1 if it was given more than
            it could do.
        client: seconds of processor time of the client.
        answers: answers that ended.
    """

    seconds: float
    frames: float
    drawn: float
    cpu: float
    front: float
    threads: int
    processes: int
    device: float
    client: float
    answers: int = 0

    @property
    def microseconds(self) -> float:
        """Microseconds of the server's processor time for a frame."""
        return 1e6 * self.cpu / max(1.0, self.frames)


@dataclass(frozen=True)
class RateFigures:
    """The answers to requests that came at random moments.

    Attributes:
        rate: requests a second, on average.
        sent, whole: requests, and those that had their whole answer.
        errors: the reasons of the others, counted.
        first_byte: p50, p95 and p99 in milliseconds, of all requests. One that was given up before
            its first byte counts with the time that it had waited.
        gaps, gaps_buffered: answers with a pause in a player that starts with the first byte, or
            with 100 ms of sound.
        pause: the longest pause of one answer in the first player, in seconds.
        sound: seconds of speech a second.
        host: of the same time.
    """

    rate: float
    sent: int
    whole: int
    errors: Mapping[str, int]
    first_byte: tuple[float, ...]
    gaps: int
    gaps_buffered: int
    pause: float
    sound: float
    host: HostFigures


class Meter:
    """Measures a server, its device and this process for a while.

    Args:
        server: is measured.
        counters: of its device.
    """

    def __init__(self, server: ServerProcess, counters: Counters) -> None:
        self._server, self._counters = server, counters
        self._threads = self._processes = 0
        self._before = self._now()

    def look(self) -> None:
        """Note the threads of this moment."""
        self._threads = max(self._threads, process_tree.threads(self._server.number))
        self._processes = max(self._processes, len(process_tree.processes(self._server.number)))

    def stop(self, sound: int, answers: int) -> HostFigures:
        """Return the figures since the meter was made.

        Args:
            sound, answers: bytes of sound that came in that time, and answers that ended.
        """
        self.look()
        seconds, cpu, front, client, busy, drawn = (self._now() - self._before).tolist()
        return HostFigures(
            seconds=seconds,
            frames=sound / (2 * _SAMPLES_PER_FRAME),
            drawn=drawn,
            cpu=cpu,
            front=front,
            threads=self._threads,
            processes=self._processes,
            device=busy / seconds,
            client=client,
            answers=answers,
        )

    def _now(self) -> NDArray[np.float64]:
        return np.array(
            [
                time.monotonic(),
                process_tree.cpu_seconds(self._server.number),
                process_tree.own_cpu_seconds(self._server.number),
                time.process_time(),
                self._counters["busy"],
                self._counters["frames"],
            ]
        )


class HostLoad:
    """Asks a server on a simulated device, and measures what that costs.

    Args:
        server: is asked.
        counters: of its device.
    """

    def __init__(self, server: ServerProcess, counters: Counters) -> None:
        self._server, self._counters = server, counters

    def keep(self, count: int, text: str, settled: float, seconds: float) -> HostFigures:
        """Keep ``count`` requests for a text running, and measure.

        Args:
            settled: seconds before that, from the moment on when all of the first are heard: a
                start of many at once costs the server seconds.
        """
        client = self._client()
        first = [client.ask(text) for _ in range(count)]
        until = time.monotonic() + _PATIENCE
        while not all(answer.heard.arrivals for answer in first):
            if time.monotonic() > until:
                raise SystemExit(f"not all of {count} streams were heard after {_PATIENCE:g} s")
            _repeat(client, text, 0.2)
        _repeat(client, text, settled)
        before, meter = client.sound, Meter(self._server, self._counters)
        answers = _repeat(client, text, seconds)
        figures = meter.stop(client.sound - before, answers)
        client.leave("the measurement is over")
        self._become_idle()
        return figures

    def open_loop(
        self, rate: float, texts: Sequence[str], seconds: float, drain: float
    ) -> RateFigures:
        """Send requests at random moments for some seconds; wait for their answers for ``drain``.

        The host's figures are of the time in which requests came.
        """
        rng, client = random.Random(f"0 {rate}"), self._client()
        sent: list[Answer] = []
        meter = Meter(self._server, self._counters)
        due, until = time.monotonic(), time.monotonic() + seconds
        answers = 0
        while (due := due + rng.expovariate(rate)) < until:
            answers += _listen(client, due)
            sent.append(client.ask(rng.choice(texts)))
        answers += _listen(client, until)
        host = meter.stop(client.sound, answers)
        for _ in client.listen(until + drain):
            pass
        client.leave("not whole in time")
        now = time.monotonic()
        self._become_idle()
        return _rate_figures(rate, sent, host, now)

    def _client(self) -> LeanClient:
        return LeanClient(self._server.url, {"model": "chattts"})

    def _become_idle(self) -> None:
        """Wait until the server has nothing to do."""
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            with urllib.request.urlopen(f"{self._server.url}/metrics", timeout=_PATIENCE) as answer:
                text = answer.read().decode()
            gauges = {
                sample.name: sample.value
                for family in text_string_to_metric_families(text)
                for sample in family.samples
            }
            if not gauges["chattts_running"] and not gauges["chattts_waiting"]:
                return
            time.sleep(0.1)
        raise SystemExit(f"the server was not idle {_PATIENCE:g} s after its clients had left")


def _repeat(client: LeanClient, text: str, seconds: float) -> int:
    """Ask again at the end of each answer, for some seconds; return how many ended.

    Raises:
        SystemExit: the server refused a request, or broke an answer off.
    """
    ended, until = 0, time.monotonic() + seconds
    for answer in client.listen(until):
        if answer.heard.error is not None:
            raise SystemExit(f"the server did not answer: {answer.heard.error}")
        ended += 1
        client.ask(text)
    return ended


def _listen(client: LeanClient, until: float) -> int:
    """Receive until a moment; return how many answers ended."""
    ended = sum(1 for _ in client.listen(until))
    time.sleep(max(0.0, until - time.monotonic()))  # no answer was coming
    return ended


def _rate_figures(
    rate: float, sent: Sequence[Answer], host: HostFigures, now: float
) -> RateFigures:
    whole = [answer for answer in sent if answer.heard.error is None]
    spoken = [answer.heard for answer in sent if answer.heard.arrivals]
    plain = [heard.gaps() for heard in spoken]
    waits = [
        now - answer.heard.begin if answer.heard.first_byte is None else answer.heard.first_byte
        for answer in sent
    ] or [0.0]
    return RateFigures(
        rate=rate,
        sent=len(sent),
        whole=len(whole),
        errors=dict(Counter(str(a.heard.error) for a in sent if a.heard.error is not None)),
        first_byte=tuple(1e3 * float(each) for each in np.percentile(waits, [50, 95, 99])),
        gaps=sum(gaps.count > 0 for gaps in plain),
        gaps_buffered=sum(heard.gaps(_BUFFER).count > 0 for heard in spoken),
        pause=max((gaps.seconds for gaps in plain), default=0.0),
        sound=host.frames * _SAMPLES_PER_FRAME / 24_000 / host.seconds,
        host=host,
    )


def measure(args: argparse.Namespace, server: ServerProcess, counters: Counters) -> dict[str, Any]:
    """Return the figures of the wanted parts, by their names."""
    load, found = HostLoad(server, counters), dict[str, Any]()
    load.keep(1, _SHORT, 0.0, 1.0)  # a server does some things at its first requests
    if not counters["steps"] or not counters["decodes"] or not counters["waits"]:
        raise SystemExit("the server does not use the simulated device: see simulated/patches.py")
    if "streams" in args.parts:
        for count in args.streams:
            figures = load.keep(count, _LONG, _SETTLED, args.seconds)
            print(f"{count} streams: {figures}", file=sys.stderr)
            found.setdefault("streams", {})[str(count)] = asdict(figures)
    if "requests" in args.parts:
        found["requests"] = asdict(load.keep(args.side_by_side, _SHORT, 0.5, args.seconds))
        print(f"requests: {found['requests']}", file=sys.stderr)
    if "rates" in args.parts:
        texts = mixture(args.texts)
        for rate in args.rates:
            answered = load.open_loop(rate, texts, args.seconds, args.drain)
            print(f"{rate:g}/s: {answered}", file=sys.stderr)
            found.setdefault("rates", []).append(asdict(answered))
    return found


# The heads of the last cells of a row.
_MACHINE = "cores | connections, cores | threads | device busy | client, cores |"


def table(report: Mapping[str, Any]) -> str:
    """Return the report as tables of Markdown."""
    lines = []
    if "streams" in report:
        lines += [
            "| streams | frames/s | us of CPU a frame | " + _MACHINE,
            "| --- " * 8 + "|",
        ]
        for count, given in report["streams"].items():
            host = HostFigures(**given)
            lines.append(
                f"| {count} | {host.frames / host.seconds:.0f} | {host.microseconds:.1f} | "
                + _machine(host)
            )
    if "requests" in report:
        host = HostFigures(**report["requests"])
        answers = max(1, host.answers)
        lines += [
            "",
            f"short requests: {host.answers / host.seconds:.1f} a second, "
            f"{1e3 * host.cpu / answers:.1f} ms of CPU and {host.frames / answers:.0f} frames "
            f"each; {host.cpu / host.seconds:.2f} cores, of which "
            f"{host.front / host.seconds:.2f} the connections; "
            f"client {host.client / host.seconds:.2f}",
        ]
    if "rates" in report:
        lines += [
            "",
            "| rate, 1/s | sent | whole | first byte p50 / p95, ms | speech, s/s | with a gap | "
            "with 100 ms | ms of CPU a request | " + _MACHINE,
            "| --- " * 13 + "|",
        ]
        for given in report["rates"]:
            rate = RateFigures(**{**given, "host": HostFigures(**given["host"])})
            lines.append(
                f"| {rate.rate:g} | {rate.sent} | {rate.whole} | {rate.first_byte[0]:.0f} / "
                f"{rate.first_byte[1]:.0f} | {rate.sound:.1f} | {rate.gaps} ({rate.pause:.2f} s) | "
                f"{rate.gaps_buffered} | {1e3 * rate.host.cpu / max(1, rate.sent):.1f} | "
                + _machine(rate.host)
            )
    return "\n".join(lines)


def _machine(host: HostFigures) -> str:
    """Return the last cells of a row."""
    return (
        f"{host.cpu / host.seconds:.2f} | {host.front / host.seconds:.2f} | {host.threads} | "
        f"{100 * host.device:.0f} % | {host.client / host.seconds:.2f} |"
    )


def main() -> None:
    parser = new_parser("serving.host", __doc__ or "")
    parser.add_argument("--parts", nargs="+", choices=_PARTS, default=list(_PARTS))
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 64, 256])
    parser.add_argument("--side-by-side", type=int, default=8, help="short requests")
    parser.add_argument(
        "--rates", type=float, nargs="+", default=[2, 5, 10, 20, 40, 60], help="requests a second"
    )
    parser.add_argument("--seconds", type=float, default=8.0, help="of each row")
    parser.add_argument("--drain", type=float, default=4.0, help="seconds for the last answers")
    parser.add_argument("--texts", type=int, default=48, help="different texts of the rates")
    parser.add_argument(
        "--model-process", action="store_true", help="serve with a process for the model"
    )
    parser.add_argument("--json", type=Path, help="is added to, where other parts are in it")
    args = parser.parse_args()
    check_at_least_one(parser, args, "streams", "side_by_side", "texts")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        began = time.monotonic()
        file = folder / "counters"
        with ServerProcess(
            folder,
            running=_RUNNING,
            waiting=_WAITING,
            dtype="bfloat16",
            interfaces=(
                *("--no-grpc", "--max-connections", str(_CONNECTIONS)),
                *("--max-connections-per-address", str(_CONNECTIONS)),
                *(["--model-process"] if args.model_process else []),
            ),
            program=("-m", "benchmarks.serving.simulated.serve", str(file)),
        ) as server:
            ready = time.monotonic() - began
            counters = Counters.in_file(file, "r")
            found = {
                "ready": ready,
                "model_process": args.model_process,
                **measure(args, server, counters),
            }
    before = {}
    if args.json is not None and args.json.exists():
        before = json.loads(args.json.read_text(encoding="utf-8"))
    report = {**before, **origin(), **found}
    print(table(report))
    write_json(report, args.json)


if __name__ == "__main__":
    main()
