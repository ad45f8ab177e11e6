"""A plot of the memory, open files and threads of the servers over time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def draw(report: Mapping[str, Any], file: Path) -> None:
    """Write the plot of a report; the suffix selects the format.

    Raises:
        SystemExit: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise SystemExit("--plot needs matplotlib: pip install matplotlib") from None
    figure = Figure(figsize=(8, 9), layout="constrained")
    axes = figure.subplots(3, 1, sharex=True)
    roles = sorted({role for sample in report["samples"] for role in sample["processes"]})
    for role in roles:
        held = [
            (sample["at"] / 3600, sample["processes"][role])
            for sample in report["samples"]
            if role in sample["processes"]
        ]
        # Replicas are many, one after another, and are told apart by where they begin.
        is_replica = role.startswith("replica ")
        style: dict[str, Any] = (
            {"color": "0.6", "linewidth": 0.8} if is_replica else {"label": role}
        )
        for panel, what in zip(axes, ("rss", "files", "threads"), strict=True):
            points = [(at, each[what]) for at, each in held if what in each]
            if points:
                panel.plot(*zip(*points, strict=True), **style)
    for panel, what in zip(axes, ("RSS, MB", "open files", "threads"), strict=True):
        panel.set_ylabel(what)
        panel.axvspan(0, report["warm_up"] / 3600, color="0.93")
        for begin, end in report["requests"]["gaps"]:
            panel.axvspan(begin / 3600, end / 3600, color="mistyrose")
    axes[0].legend(fontsize=8)
    axes[-1].set_xlabel("hours; the warm-up is grey, replicas are thin lines")
    figure.savefig(file, dpi=120)
