"""The figures of a comparison: medians, ratios of paired rounds, and tables of both."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

FRAMES_PER_SECOND = 24_000 / 512  # of audio
TIMES_FASTER = "times faster (least, most)"


@dataclass(frozen=True)
class Round:
    """One side's run of ``streams`` streams with ``frames`` frames each. Times are in seconds."""

    streams: int
    frames: int
    generate_s: float
    infer_s: float

    @property
    def figures(self) -> dict[str, float]:
        """The figures of the run.

        ``step_ms`` is the time of generation divided by the frames of a stream; it includes the
        prompt. ``generate_*`` are frames a second of generation alone, ``infer_*`` from text to
        samples. ``rtf`` is the time of the run divided by the length of all streams' audio.
        """
        total = self.streams * self.frames
        return {
            "step_ms": 1000 * self.generate_s / self.frames,
            "generate_frames_per_s_stream": self.frames / self.generate_s,
            "generate_frames_per_s": total / self.generate_s,
            "infer_s": self.infer_s,
            "infer_frames_per_s": total / self.infer_s,
            "rtf": self.infer_s * FRAMES_PER_SECOND / total,
        }


def medians(rounds: Sequence[Round]) -> dict[str, float]:
    """Return each figure's median over the rounds."""
    return {name: median(r.figures[name] for r in rounds) for name in rounds[0].figures}


def ratios(ours: Sequence[Round], peer: Sequence[Round]) -> dict[str, dict[str, float]]:
    """Return the peer's times divided by ours, for each pair of rounds: median, least and most."""
    pairs = {
        "generate": [p.generate_s / o.generate_s for o, p in zip(ours, peer, strict=True)],
        "infer": [p.infer_s / o.infer_s for o, p in zip(ours, peer, strict=True)],
    }
    return {
        name: {"median": median(values), "min": min(values), "max": max(values)}
        for name, values in pairs.items()
    }


def machine() -> dict[str, Any]:
    """Return what identifies the computer: processor, number of cores and system."""
    return {"cpu": _cpu_model(), "cores": os.cpu_count(), "system": platform.platform()}


def _cpu_model() -> str:
    """Return the processor's name; on Linux the readable one is in a file."""
    info = Path("/proc/cpuinfo")
    if sys.platform == "linux" and info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


_COLUMNS = (
    ("step ms", "step_ms", ".1f"),
    ("frames/s/stream", "generate_frames_per_s_stream", ".1f"),
    ("frames/s", "generate_frames_per_s", ".1f"),
    ("infer s", "infer_s", ".2f"),
    ("infer frames/s", "infer_frames_per_s", ".1f"),
    ("RTF", "rtf", ".2f"),
)


def table(report: Mapping[str, Any]) -> str:
    """Return the report as plain text."""
    lines = head_lines(report)
    names = {key: side["versions"]["package"] for key, side in report["sides"].items()}
    width = max(len(name) for name in (*names.values(), TIMES_FASTER))
    lines += ["", heading(width)]
    for result in report["results"]:
        for key, figures in result["medians"].items():
            lines.append(figures_line(result["streams"], f"{names[key]:<{width}}", figures))
        if "ratios" in result:
            name = f"{TIMES_FASTER:<{width}}"
            lines.append(ratios_line(result["streams"], name, result["ratios"]))
    return "\n".join(lines)


def head_lines(report: Mapping[str, Any]) -> list[str]:
    """Return lines with the machine, the settings, and the sides with their versions."""
    machine, settings = report["machine"], report["settings"]
    lines = [f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}"]
    lines.append(", ".join(f"{name} {value}" for name, value in settings.items()))
    for side in report["sides"].values():
        versions = side["versions"]
        others = ", ".join(f"{k} {v}" for k, v in versions.items() if k != "package")
        name = f"{side['name']}: " if "name" in side else ""
        lines.append(f"{name}{versions['package']} ({others}): loaded in {side['load_s']:.2f} s")
    return lines


def heading(width: int) -> str:
    """Return the table's heading; the names below it are ``width`` characters wide."""
    return f"{'streams':>7}  {'':<{width}}  " + "  ".join(head for head, _, _ in _COLUMNS)


def figures_line(streams: int, name: str, figures: Mapping[str, float]) -> str:
    """Return the line with one side's figures."""
    cells = (f"{figures[f]:>{len(h)}{form}}" for h, f, form in _COLUMNS)
    return f"{streams:>7}  {name}  " + "  ".join(cells)


def ratios_line(streams: int, name: str, ratios: Mapping[str, Mapping[str, float]]) -> str:
    """Return the line that says how many times faster one side is than the peer."""
    both = (
        f"{what} {r['median']:.2f} ({r['min']:.2f}, {r['max']:.2f})" for what, r in ratios.items()
    )
    return f"{streams:>7}  {name}  " + "; ".join(both)
