"""A plot of the outcomes of the requests of each load."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def draw(results: Mapping[str, Any], file: Path) -> None:
    """Write the plot of the results of ``benchmarks.serving``; the suffix selects the format.

    Raises:
        SystemExit: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise SystemExit("--plot needs matplotlib: pip install matplotlib") from None
    loads = results["loads"]
    names = [f"{load['times']:g}x\n{load['rate']:.1f} a second" for load in loads]
    places = range(len(loads))
    figure = Figure(figsize=(8, 4), layout="constrained")
    counts, times = figure.subplots(1, 2)
    bottom = [0.0] * len(loads)
    for part, color in (("served", "C0"), ("refused", "C7"), ("broken", "C3"), ("wrong", "C1")):
        heights = [float(load[part]) for load in loads]
        counts.bar(places, heights, bottom=bottom, label=part, color=color)
        bottom = [a + b for a, b in zip(bottom, heights, strict=True)]
    counts.set_ylabel("requests")
    counts.legend(fontsize=8)
    for shift, part, label in (
        (-0.3, "first_p50", "first sound, p50"),
        (-0.1, "first_p95", "first sound, p95"),
        (0.1, "refused_p50", "refusal, p50"),
        (0.3, "refused_p95", "refusal, p95"),
    ):
        heights = [load[part] or 0.0 for load in loads]
        times.bar([place + shift for place in places], heights, width=0.2, label=label)
    times.set_ylabel("milliseconds")
    times.set_yscale("log")
    times.margins(y=0.35)  # room for the legend
    times.legend(fontsize=8)
    for axes in (counts, times):
        axes.set_xticks(list(places), names)
    figure.savefig(file, dpi=150)
