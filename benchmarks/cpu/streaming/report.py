"""The report of ``benchmarks.cpu.streaming`` as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...common.report import head_lines, ratios_line

_MB = 1e6
_TIMES = "times sooner, and faster (least, most)"
_COLUMNS = (
    ("first s", "first_s", ".3f"),
    ("worst s", "first_worst_s", ".3f"),
    ("step ms", "step_ms", ".2f"),
    ("steps", "steps", ".0f"),
    ("+ ms", "beyond_ms", "+.1f"),
    ("60 steps + ms", "beyond_60_ms", "+.1f"),
    ("RTF", "rtf", ".3f"),
    ("offline", "offline_rtf", ".3f"),
    ("ratio", "rtf_ratio", ".3f"),
    ("underruns", "underruns", ".0f"),
    ("silent s", "silent_s", ".2f"),
    ("delay s", "delay_s", ".2f"),
)


def table(report: Mapping[str, Any]) -> str:
    """Return the report as plain text."""
    parts = (_head, _figures, _ratios, _memory)
    return "\n\n".join("\n".join(lines) for part in parts if (lines := part(report)))


def _head(report: Mapping[str, Any]) -> list[str]:
    numbers = ", ".join(f"{name} {value}" for name, value in report["low_latency"].items())
    return [*head_lines(report), f"low latency: {numbers}"]


def _figures(report: Mapping[str, Any]) -> list[str]:
    names = _names(report)
    width = max(map(len, names.values()))
    columns = [(f"{head:>6}", figure, form) for head, figure, form in _COLUMNS]
    lines = [f"{'streams':>7}  {'':<{width}}  " + "  ".join(head for head, _, _ in columns)]
    for result in report["results"]:
        for key, figures in result["summary"].items():
            cells = (
                f"{format(figures[figure], form):>{len(head)}}" for head, figure, form in columns
            )
            lines.append(f"{result['streams']:>7}  {names[key]:<{width}}  " + "  ".join(cells))
    return lines


def _ratios(report: Mapping[str, Any]) -> list[str]:
    names = _names(report)
    width = max(map(len, names.values()))
    lines = [
        ratios_line(result["streams"], f"{names[key]:<{width}}", ratio)
        for result in report["results"]
        for key, ratio in result.get("ratios", {}).items()
    ]
    return [_TIMES, *lines] if lines else []


def _memory(report: Mapping[str, Any]) -> list[str]:
    lines = []
    for key, found in report["memory"].items():
        state, resident = found["state"], found["resident"]
        lines.append(
            f"{report['sides'][key]['name']}  a stream keeps {state[0] / _MB:.2f} MB after "
            f"{found['frames'][0]} frames, {state[1] / _MB:.2f} MB after {found['frames'][1]}; "
            f"the process grew by {(resident[1] - resident[0]) / _MB:.1f} MB"
        )
    return lines


def _names(report: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of all ways to stream."""
    names: dict[str, str] = report["ways"]
    return names
