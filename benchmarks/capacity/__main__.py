"""Find how many replicas keep the first sound in time while requests come in bursts.

    python -m benchmarks.capacity --replica h100 --json out.json
    python -m benchmarks.capacity --replica cpu --bound 1.5 --burst 5

Replicas are simulated, with the speeds that were measured; README.md says what is assumed.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..common.command import check_at_least_one, new_parser, origin, write_json
from .profiles import MEASURED, Measured
from .simulation import FRAMES_PER_SECOND, POLICIES, Load, Outcome, Policy, simulate

_DAY = 86_400
_PERCENTILES = (50, 95, 99)


class Requests:
    """Requests of a load, the same for every number of replicas and every policy.

    Args:
        load: says how they come.
        seconds: for how long they come. What comes in the first tenth is not counted: the replicas
            are empty at first.
    """

    def __init__(self, load: Load, seconds: float, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.load = load
        self.moments = load.moments(random, seconds)
        self.lengths = load.lengths(random, len(self.moments))
        self._counted = self.moments >= seconds / 10

    def at(self, measured: Measured, replicas: int, policy: Policy) -> Outcome:
        """Return what becomes of them with so many replicas."""
        outcome = simulate(measured.profile, replicas, policy, self.moments, self.lengths)
        return Outcome(*(values[self._counted] for values in vars(outcome).values()))


def fewest(requests: Requests, measured: Measured, policy: Policy, least: int) -> int:
    """Return the fewest replicas that keep the 95th percentile of the first sound in its bound.

    Args:
        least: replicas that are too few, or just enough.
    """

    def suffices(replicas: int) -> bool:
        first_sound = requests.at(measured, replicas, policy).first_sound
        return float(np.percentile(first_sound, 95)) <= measured.bound

    low, high = least - 1, least
    while not suffices(high):
        low, high = high, math.ceil(1.25 * high)
    while high - low > max(1, high // 100):  # to one in a hundred
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def busy_replicas(measured: Measured, load: Load) -> float:
    """Return how many replicas the load would keep busy without a pause."""
    profile = measured.profile
    speech = load.rate * load.mean_seconds()
    return speech * FRAMES_PER_SECOND * profile.step(profile.most) / profile.most


def percentiles(values: NDArray[np.float64]) -> list[float]:
    """Return the seconds of the median and of the 95th and 99th percentile."""
    return [float(np.percentile(values, share)) for share in _PERCENTILES]


def bursts(args: argparse.Namespace) -> dict[str, float]:
    """Return the fields of a load, beside its rate."""
    names = ("burst", "burst_share", "burst_seconds", "median_seconds", "spread")
    return {name: getattr(args, name) for name in names}


def loads(args: argparse.Namespace) -> dict[str, Load]:
    """Return the loads by their names."""
    how = bursts(args)
    # As many listeners as requests come in the time that one of them listens.
    mean = Load(1.0, **how).mean_seconds()
    rates = {f"{n:,} streams at once": n / mean for n in args.streams}
    if args.daily:
        rates[f"{args.daily:,} requests a day"] = args.daily * args.busy_hour / _DAY
    return {name.replace(",", " "): Load(rate, **how) for name, rate in rates.items()}


def policies_table(measured: Measured, requests: Requests) -> list[dict[str, Any]]:
    """Simulate each policy with just enough replicas and with more; return the rows."""
    least = math.ceil(busy_replicas(measured, requests.load))
    enough = fewest(requests, measured, POLICIES["power of two"], least)
    counts = (enough, math.ceil(1.25 * enough))
    rows = []
    for count in counts:
        for name, policy in POLICIES.items():
            outcome = requests.at(measured, count, policy)
            queued, first_sound = percentiles(outcome.queued), percentiles(outcome.first_sound)
            rows.append(
                {"replicas": count, "policy": name, "queued": queued, "first_sound": first_sound}
            )
            waits = " / ".join(f"{1000 * value:.0f}" for value in queued)
            sounds = " / ".join(f"{1000 * value:.0f}" for value in first_sound)
            print(f"| {count} | {name} | {waits} | {sounds} |", flush=True)
    return rows


def size_row(measured: Measured, name: str, load: Load, args: argparse.Namespace) -> dict[str, Any]:
    """Find the replicas for a load; return the row of the table."""
    requests = Requests(load, args.seconds, args.seed)
    busy = busy_replicas(measured, load)
    replicas = fewest(requests, measured, POLICIES["power of two"], math.ceil(busy))
    row = {
        "load": name,
        "rate": load.rate,
        "busy": busy,
        "replicas": replicas,
        "gigabytes": replicas * (measured.weights + measured.cache) / 1e9,
        "machines": math.ceil(replicas / measured.per_machine),
    }
    print(
        f"| {name} | {load.rate:.1f} | {busy:.1f} | {replicas} | {row['gigabytes']:.0f} "
        f"| {row['machines']} |",
        flush=True,
    )
    return row


def main() -> None:
    parser = new_parser("capacity", __doc__)
    parser.add_argument("--replica", choices=MEASURED, default="h100")
    parser.add_argument(
        "--bound", type=float, help="seconds of the first sound, 95th percentile (default: its own)"
    )
    parser.add_argument("--streams", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument(
        "--compare", type=int, default=1000, help="streams at once, for which to compare policies"
    )
    parser.add_argument("--daily", type=int, default=1_000_000, help="requests a day; 0 for none")
    parser.add_argument(
        "--busy-hour", type=float, default=2.0, help="its requests, by those of a mean hour"
    )
    parser.add_argument("--burst", type=float, default=Load.burst)
    parser.add_argument("--burst-share", type=float, default=Load.burst_share)
    parser.add_argument("--burst-seconds", type=float, default=Load.burst_seconds)
    parser.add_argument("--median-seconds", type=float, default=Load.median_seconds)
    parser.add_argument("--spread", type=float, default=Load.spread)
    parser.add_argument("--seconds", type=float, default=600.0, help="of simulated time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    check_at_least_one(parser, args, "streams", "compare", "seconds", "burst")
    report = run(args)
    write_json(origin() | report, args.json)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Simulate all loads; return the report."""
    measured = MEASURED[args.replica]()
    if args.bound is not None:
        measured = replace(measured, bound=args.bound)
    all_loads = loads(args)
    mean = Load(1.0, **bursts(args)).mean_seconds()
    print(
        f"{measured.name}: at most {measured.profile.most} streams, each {mean:.1f} s; "
        f"first sound p95 within {measured.bound} s"
    )
    print(
        "\n| load | requests/s | busy replicas | replicas | GB of weights and caches | machines |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    sizes = [size_row(measured, name, load, args) for name, load in all_loads.items()]
    print(f"\n{args.compare} streams at once; p50 / p95 / p99 in ms")
    print("\n| replicas | policy | queued | first sound |\n| --- | --- | --- | --- |")
    requests = Requests(Load(args.compare / mean, **bursts(args)), args.seconds, args.seed)
    return {
        "settings": {name: value for name, value in vars(args).items() if name != "json"},
        "replica": measured.name,
        "most": measured.profile.most,
        "bound": measured.bound,
        "mean_seconds": mean,
        "sizes": sizes,
        "policies": policies_table(measured, requests),
    }


if __name__ == "__main__":
    main()
