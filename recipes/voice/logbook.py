"""The log of a training: a JSON line every few steps, and a plot of the losses."""

from __future__ import annotations

import contextlib
import json
import logging
import math
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from .checkpoints import Position

logger = logging.getLogger(__name__)

_NOT_DRAWN = ("step", "seconds")


class Logbook:
    """``log/<name>.jsonl`` and ``plots/<name>.png`` of one stage.

    Args:
        out: the folder of the run.
        name: name of the stage.
        step: the step at which the training resumes. Lines of later steps are removed: they belong
            to work that was lost when a run ended without saving.

    Attributes:
        latest: a short form of the last line, for the progress log.
    """

    def __init__(self, out: Path, name: str, step: int) -> None:
        self.name = name
        self.path = out / "log" / f"{name}.jsonl"
        self.picture = out / "plots" / f"{name}.png"
        self.latest = ""
        self._sums: dict[str, Tensor] = {}
        self._times: dict[str, int] = defaultdict(int)
        self._counts: dict[str, int] = defaultdict(int)
        kept = [line for line in self.lines() if line["step"] <= step]
        self._seconds = kept[-1]["seconds"] if kept else 0.0
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")

    def lines(self) -> list[dict[str, Any]]:
        """Return all complete lines; a crash of the machine may have cut off the last one."""
        found = []
        if self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                with contextlib.suppress(json.JSONDecodeError):
                    found.append(json.loads(line))
        return found

    def add(self, values: Mapping[str, Tensor], counts: Mapping[str, int]) -> None:
        """Collect the scalars of an update; waiting for the device is left to ``write``."""
        for name, value in values.items():
            value = value.detach().float()
            self._sums[name] = self._sums[name] + value if name in self._sums else value
            self._times[name] += 1
        for name, count in counts.items():
            self._counts[name] += count

    def write(self, position: Position, extra: Mapping[str, float] | None = None) -> None:
        """Write the means since the last line, and the counts per second."""
        if not self._sums:
            return
        means = {name: float(total) / self._times[name] for name, total in self._sums.items()}
        took = max(position.seconds - self._seconds, 1e-9)
        rates = {f"{name}_per_second": count / took for name, count in self._counts.items()}
        line: dict[str, float | None] = {
            "step": position.step,
            "seconds": round(position.seconds, 3),
        }
        line |= {
            name: float(f"{value:.6g}") if math.isfinite(value) else None
            for name, value in (means | rates | dict(extra or {})).items()
        }
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self.latest = " ".join(f"{name} {value:.3g}" for name, value in means.items())
        self._seconds = position.seconds
        self._sums.clear()
        self._times.clear()
        self._counts.clear()

    def plot(self) -> None:
        """Plot every value over the steps, if matplotlib is installed."""
        try:
            from matplotlib.figure import Figure
        except ImportError:
            logger.debug("no picture of the losses: matplotlib is not installed")
            return
        lines = self.lines()
        names = list(dict.fromkeys(name for line in lines for name in line))
        names = [name for name in names if name not in _NOT_DRAWN]
        if not names:
            return
        columns = min(3, len(names))
        rows = -(-len(names) // columns)
        figure = Figure(figsize=(5 * columns, 2.6 * rows), dpi=100, layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes in grid.flat[len(names) :]:
            axes.remove()
        for axes, name in zip(grid.flat, names, strict=False):
            points = [(line["step"], line[name]) for line in lines if line.get(name) is not None]
            if points:
                axes.plot(*zip(*points, strict=True), linewidth=1)
            axes.set_title(name, loc="left", fontsize=10)
            axes.grid(alpha=0.3)
        for axes in grid[-1]:
            axes.set_xlabel("step")
        steps, minutes = lines[-1]["step"], lines[-1]["seconds"] / 60
        figure.suptitle(f"{self.name}: {steps} steps, {minutes:.0f} min")
        self.picture.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(self.picture)
