"""A plot of frames a second by side and number of streams, each with its limit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def draw(report: Mapping[str, Any], file: Path) -> None:
    """Write the plot of a report of ``benchmarks.cpu.velocity``; the suffix selects the format.

    Raises:
        SystemExit: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise SystemExit("--plot needs matplotlib: pip install matplotlib") from None
    results, sides = report["results"], report["sides"]
    width = 0.8 / len(sides)
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for index, (key, side) in enumerate(sides.items()):
        places = [group + width * (index - (len(sides) - 1) / 2) for group in range(len(results))]
        heights = [result["medians"][key]["generate_frames_per_s"] for result in results]
        bars = axes.bar(places, heights, 0.9 * width, label=side["name"])
        axes.bar_label(bars, fmt="%.0f", fontsize=8)
        limits = [result["limits"][key]["generate_frames_per_s"] for result in results]
        left = [place - 0.45 * width for place in places]
        right = [place + 0.45 * width for place in places]
        name = "limit of the machine" if index == 0 else "_"  # which the legend leaves out
        axes.hlines(limits, left, right, colors="black", linewidth=1.2, label=name)
    axes.set_xticks(range(len(results)), [str(result["streams"]) for result in results])
    axes.set_xlabel("streams")
    axes.set_ylabel("frames a second of generation, all streams")
    axes.legend(loc="upper left")
    figure.savefig(file, dpi=150)
