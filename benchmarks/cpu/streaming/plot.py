"""A plot of the audio that streams gave over time, and of its playback."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .player import SAMPLE_RATE, Chunk, Playback


def draw(report: Mapping[str, Any], file: Path) -> None:
    """Write the plot of a report of ``benchmarks.cpu.streaming``; the suffix selects the format.

    It shows runs with the first number of streams. For each way to stream it takes the round with
    the median time to the first sound, and of that round the first stream.

    Raises:
        SystemExit: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise SystemExit("--plot needs matplotlib: pip install matplotlib") from None
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for index, (key, rounds) in enumerate(report["results"][0]["rounds"].items()):
        in_order = sorted(rounds, key=lambda record: record["first_s"])
        chunks = [Chunk(*values) for values in in_order[len(in_order) // 2]["chunks"][0]]
        times, given = [chunks[0].seconds], [0.0]
        for chunk in chunks:
            times.append(chunk.seconds)
            given.append(given[-1] + chunk.samples / SAMPLE_RATE)
        color = f"C{index}"
        axes.plot(
            times, given, drawstyle="steps-post", color=color, label=report["ways"][key], lw=1.4
        )
        when, heard = zip(*Playback.of(chunks).line, strict=True)
        axes.plot(when, heard, linestyle="--", color=color, lw=0.8)
    axes.plot([], [], linestyle="--", color="black", lw=0.8, label="heard by a player")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds since the call")
    axes.set_ylabel("seconds of sound")
    axes.legend(loc="lower right", fontsize=8)
    figure.savefig(file, dpi=150)
