"""The report of ``benchmarks.cpu.velocity`` as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...common.report import TIMES_FASTER, figures_line, head_lines, heading, ratios_line

_MB = 1e6


def table(report: Mapping[str, Any]) -> str:
    """Return the report as plain text."""
    parts = (_head, _limits, _figures, _against_limits, _starts, _repeated_prompt, _overhead)
    return "\n\n".join("\n".join(part(report)) for part in parts if part(report))


def _names(report: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of the sides, padded to one width."""
    names = {key: side["name"] for key, side in report["sides"].items()}
    width = max(map(len, names.values()))
    return {key: f"{name:<{width}}" for key, name in names.items()}


def _head(report: Mapping[str, Any]) -> list[str]:
    return head_lines(report)


def _limits(report: Mapping[str, Any]) -> list[str]:
    limits = report["limits"]
    reads = ", ".join(f"{way} {rate:.1f}" for way, rate in limits["read_gb_s"].items())
    lines = [f"read GB/s: {reads}"]
    for kind, rates in limits["product_gflop_s"].items():
        ways = ", ".join(f"{way} {rate:.0f}" for way, rate in rates.items())
        if ways:
            lines.append(f"products GFLOP/s, {kind}: {ways}")
    return lines


def _figures(report: Mapping[str, Any]) -> list[str]:
    names = _names(report)
    width = max(len(TIMES_FASTER), *map(len, names.values()))
    lines = [heading(width)]
    for result in report["results"]:
        for key, figures in result["medians"].items():
            lines.append(figures_line(result["streams"], f"{names[key]:<{width}}", figures))
    ratios = [
        ratios_line(result["streams"], f"{names[key]:<{width}}", ratio)
        for result in report["results"]
        for key, ratio in result.get("ratios", {}).items()
    ]
    return [*lines, TIMES_FASTER, *ratios] if ratios else lines


def _against_limits(report: Mapping[str, Any]) -> list[str]:
    names = _names(report)
    width = len(next(iter(names.values())))
    lines = [f"streams  {'':<{width}}  step ms   limit  factor  read bound"]
    for result in report["results"]:
        for key, limit in result["limits"].items():
            lines.append(
                f"{result['streams']:>7}  {names[key]}  "
                f"{result['medians'][key]['step_ms']:7.2f} {limit['step_ms']:7.2f} "
                f"{limit['factor']:7.2f} {100 * limit['read_bound']:9.0f} %"
            )
    return lines


def _starts(report: Mapping[str, Any]) -> list[str]:
    names = _names(report)
    lines = []
    for key, start in report["starts"].items():
        first, second = start["first"], start["second"]
        lines.append(
            f"{names[key]}  imports {second['import_s']:.2f} s; loaded in {first['load_s']:.2f} s "
            f"at first, {second['load_s']:.2f} s again"
        )
        lines.append(
            f"{names[key]}  grew by {second['grown'] / _MB:.0f} MB "
            f"({first['grown'] / _MB:.0f} at first), weights {start['weights'] / _MB:.0f}, "
            f"beyond them {start['beyond'] / _MB:.0f} ({start['beyond_at_first'] / _MB:.0f}); "
            f"pool {start['pool'] / _MB:.0f}"
        )
    return lines


def _repeated_prompt(report: Mapping[str, Any]) -> list[str]:
    names = _names(report)
    lines = []
    for key, again in report["again"].items():
        ratio, prompt = again["ratio"], again["rounds"][0]["prompt"]
        lines.append(
            f"{names[key]}  first frame after a prompt of {prompt} positions: "
            f"{1000 * again['first_s']:.1f} ms, the same again {1000 * again['second_s']:.1f} ms: "
            f"{ratio['median']:.1f} times ({ratio['min']:.1f}, {ratio['max']:.1f})"
        )
    return lines


def _overhead(report: Mapping[str, Any]) -> list[str]:
    names = _names(report)
    return [
        f"{names[key]}  {over['streams']} streams, {over['steps']} steps: "
        f"plans and outputs {100 * over['engine_share']:.2f} % of a step, "
        f"all outside the model {100 * over['outside_share']:.2f} % of the run"
        for key, over in report["overhead"].items()
    ]
