"""The speed and memory of replicas that were measured, from ``results/``."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ChatTTS.config import GPTConfig

from ..common.step_limit import StepWork
from .simulation import FRAMES_PER_SECOND, Profile

_RESULTS = Path(__file__).parents[1] / "results"
# All streams advance this many times as fast as they are played, so that no player runs dry.
_REAL_TIME = 1.1
# Steps before the first exact sound at the published sizes: 57.5, as `streaming-cpu.json` has it.
_FIRST_FRAMES = 58


@dataclass(frozen=True)
class Measured:
    """A replica that was measured.

    Attributes:
        name: what computes, as printed.
        profile: its speed.
        weights: bytes of its weights.
        cache: bytes of a KV cache that holds as many full sequences as streams may run.
        per_machine: replicas on a machine; an assumption.
        bound: seconds of the first sound's 95th percentile that users of such a replica accept.
    """

    name: str
    profile: Profile
    weights: int
    cache: int
    per_machine: int
    bound: float


def cpu() -> Measured:
    """Return a replica of two threads in bfloat16, as `velocity-cpu.json` has it."""
    report, streaming = _read("velocity-cpu.json"), _read("streaming-cpu.json")
    steps = {
        result["streams"]: result["streams"] / result["medians"]["bfloat16"]["infer_frames_per_s"]
        for result in report["results"]
    }
    beside = max(0.0, streaming["results"][0]["summary"]["bfloat16 exact"]["beyond_ms"] / 1000)
    return _measured(
        "two cores of an AMD EPYC (Zen 5), bfloat16",
        steps,
        beside,
        weights=report["starts"]["bfloat16"]["weights"],
        per_machine=16,
        bound=2.0,
    )


def h100() -> Measured:
    """Return an H100 in bfloat16, as its report has it."""
    parts = _read("gpu-nvidia-h100-80gb-hbm3.json")["parts"]
    sound = parts["sound bfloat16"]
    steps = {
        int(streams): each["infer_s"]["median"] / sound["frames"]
        for streams, each in sound["streams"].items()
    }
    first = sound["first_sound_ms"]["stream"]["median"] / 1000
    return _measured(
        "one H100, bfloat16",
        steps,
        max(0.0, first - _FIRST_FRAMES * steps[1]),
        weights=_read("velocity-cpu.json")["starts"]["bfloat16"]["weights"],
        per_machine=8,
        bound=0.5,
    )


def _measured(
    name: str,
    steps: dict[int, float],
    beside: float,
    *,
    weights: int,
    per_machine: int,
    bound: float,
) -> Measured:
    streams, seconds = tuple(steps), tuple(steps.values())
    # Of the numbers of streams that were measured, or are between those that were.
    all_streams = Profile(streams, seconds, _FIRST_FRAMES, beside, streams[-1])
    slowest = 1 / (_REAL_TIME * FRAMES_PER_SECOND)
    most = max(n for n in range(1, streams[-1] + 1) if all_streams.step(n) <= slowest)
    gpt = GPTConfig()
    position_bytes = StepWork.of(gpt, "bfloat16", "bfloat16").position_bytes
    cache = most * gpt.max_position_embeddings * position_bytes
    return Measured(name, replace(all_streams, most=most), weights, cache, per_machine, bound)


def _read(name: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((_RESULTS / name).read_text(encoding="utf-8"))
    return report


MEASURED = {"cpu": cpu, "h100": h100}
