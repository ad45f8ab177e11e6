"""The simulation of replicas, beside one by ticks of a clock and beside queueing theory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.capacity import __main__ as command
from benchmarks.capacity.profiles import MEASURED, Measured
from benchmarks.capacity.simulation import (
    FRAMES_PER_SECOND,
    POLICIES,
    Load,
    Profile,
    Replica,
    round_robin,
    simulate,
)

from ..support.benchmark_tools import run_command

PROFILE = Profile((1, 4), (0.010, 0.016), first_frames=5, first_seconds=0.5, most=3)


def step_by_step(
    profile: Profile, choices: Sequence[int], moments: Any, lengths: Any, tick: float
) -> NDArray[np.float64]:
    """Return queue, first sound and latency of each request, (n, 3), by ticks of a clock.

    Args:
        choices: the replica of each request.
    """
    waits, frames = np.zeros((len(moments), 3)), np.zeros(len(moments))
    servers: list[list[int]] = [[] for _ in range(max(choices) + 1)]
    come, left, now = 0, len(moments), 0.0
    while left:
        while come < len(moments) and moments[come] <= now:
            servers[choices[come]].append(come)
            come += 1
        for server in servers:
            running = server[: profile.most]
            for request in running:
                if frames[request] == 0:
                    waits[request, 0] = now - moments[request]
                before = frames[request]
                frames[request] += tick / profile.step(len(running))
                first = min(profile.first_frames, lengths[request])
                if before < first <= frames[request]:
                    waits[request, 1] = now + profile.first_seconds - moments[request]
                if frames[request] >= lengths[request]:
                    waits[request, 2] = now - moments[request]
                    server.remove(request)
                    left -= 1
        now += tick
    return waits


@pytest.mark.parametrize("policy", POLICIES)
def test_requests_wait_as_long_as_step_by_step(policy: str) -> None:
    random = np.random.default_rng(1)
    moments = np.sort(random.uniform(0, 1.5, 40))
    lengths = random.integers(1, 40, 40)
    choices: list[int] = []

    def chosen(replicas: Sequence[Replica], random: Random, count: int) -> int:
        choices.append(POLICIES[policy](replicas, random, count))
        return choices[-1]

    found = simulate(PROFILE, 2, chosen, moments, lengths)
    tick = 0.0005
    plain = step_by_step(PROFILE, choices, moments, lengths, tick)
    assert plain[:, 0].max() > 0.05  # some waited
    for column, values in enumerate((found.queued, found.first_sound, found.latency)):
        # A stream that changes the pace is noticed up to a tick late, by all that follow it.
        np.testing.assert_allclose(values, plain[:, column], atol=25 * tick)


@dataclass(frozen=True)
class Busy:
    """A replica with so many ongoing requests."""

    ongoing: int


def choose(policy: str, *ongoing: int) -> list[int]:
    """Return the replicas that a policy gives to a hundred requests, none of which is ongoing."""
    replicas: Any = [Busy(count) for count in ongoing]
    random = Random(0)
    return [POLICIES[policy](replicas, random, count) for count in range(100)]


def test_policies_choose_by_turns_or_by_ongoing_requests() -> None:
    assert choose("round robin", 5, 0, 0)[:4] == [0, 1, 2, 0]
    assert choose("least ongoing", 5, 0, 0)[:4] == [1, 1, 2, 1]
    # Of any two the less busy one: the busiest of all gets nothing.
    assert set(choose("power of two", 0, 2, 1)) == {0, 2}
    assert set(choose("power of two", 1, 1, 1)) == {0, 1, 2}
    assert set(choose("power of two", 7)) == {0}


def test_streams_that_share_a_replica_wait_as_theory_says() -> None:
    """M/G/1 with processor sharing has rho / (1 - rho) requests on average, for any lengths."""
    seconds, busy, mean = 4000.0, 0.6, 100
    profile = Profile((1,), (0.001,), first_frames=1, first_seconds=0.0, most=400)
    random = np.random.default_rng(2)
    rate = busy / (0.001 * mean)
    moments = np.sort(random.uniform(0, seconds, random.poisson(rate * seconds)))
    lengths = np.where(random.random(len(moments)) < 0.5, mean // 2, 3 * mean // 2)
    latency = simulate(profile, 1, round_robin, moments, lengths).latency
    assert latency.sum() / seconds == pytest.approx(busy / (1 - busy), rel=0.1)


def test_a_step_is_linear_between_and_proportional_beyond_the_measured_ones() -> None:
    assert PROFILE.step(1) == 0.010
    assert PROFILE.step(2) == pytest.approx(0.012)
    assert PROFILE.step(8) == pytest.approx(0.032)


def test_requests_come_in_bursts_at_the_rate_that_is_wanted() -> None:
    load = Load(50.0, burst=5.0, burst_share=0.2)
    moments = load.moments(np.random.default_rng(3), 4000.0)
    assert (np.diff(moments) >= 0).all()
    assert len(moments) / 4000 == pytest.approx(load.rate, rel=0.1)
    counts = np.bincount(moments.astype(int))
    # In a burst 50 / (1 + 4 / 5) * 5 requests a second come, otherwise a fifth of that.
    low, high = np.percentile(counts, (25, 95))
    assert low == pytest.approx(28, abs=8)
    assert high == pytest.approx(139, abs=25)


def test_lengths_have_the_median_and_the_limit_of_the_load() -> None:
    load = Load(1.0, median_seconds=4.0, spread=1.0, longest_seconds=20.0)
    frames = load.lengths(np.random.default_rng(4), 20_000)
    assert np.median(frames) / FRAMES_PER_SECOND == pytest.approx(4.0, rel=0.05)
    assert frames.max() == round(20 * FRAMES_PER_SECOND)
    assert frames.min() >= 1


@pytest.mark.parametrize("name", MEASURED)
def test_a_measured_replica_keeps_its_streams_in_real_time(name: str) -> None:
    measured = MEASURED[name]()
    profile = measured.profile
    assert profile.streams[0] == 1
    assert list(profile.seconds) == sorted(profile.seconds)
    assert 1 < profile.most <= profile.streams[-1]
    assert profile.step(profile.most) * FRAMES_PER_SECOND < 1
    assert measured.cache == profile.most * 4096 * 61_440


@pytest.mark.smoke
def test_the_fewest_replicas_keep_the_bound_and_one_less_does_not() -> None:
    measured = Measured("small", PROFILE, 0, 0, 1, bound=0.7)
    requests = command.Requests(Load(30.0, median_seconds=1.0), 60.0, seed=5)
    policy = POLICIES["power of two"]
    fewest = command.fewest(requests, measured, policy, 1)

    def late(replicas: int) -> float:
        return float(np.percentile(requests.at(measured, replicas, policy).first_sound, 95))

    assert late(fewest) <= measured.bound < late(fewest - 1)


def test_the_command_reports_sizes_and_policies(tmp_path: Any) -> None:
    settings = "--replica cpu --streams 5 --compare 5 --daily 20000 --seconds 60 --bound 1.5"
    report, printed = run_command("capacity", tmp_path, *settings.split())
    streams, daily = report["sizes"]
    assert (streams["load"], daily["load"]) == ("5 streams at once", "20 000 requests a day")
    assert streams["rate"] * report["mean_seconds"] == pytest.approx(5)
    assert daily["rate"] == pytest.approx(2 * 20_000 / 86_400)
    for row in report["sizes"]:
        assert row["replicas"] >= math.ceil(row["busy"])
        assert row["machines"] == math.ceil(row["replicas"] / 16)
        assert f"| {row['load']} |" in printed
    assert {row["policy"] for row in report["policies"]} == set(POLICIES)
