"""The results of ``evaluate`` as a table and pictures."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..corpus import DEFAULT_SPEED, SPEEDS
from ..styles import CAST

logger = logging.getLogger(__name__)

Results = Mapping[str, Mapping[str, Any]]
_SETS = {
    "everyday": "everyday sentences",
    "rare": "rare words",
    "strung": "everyday sentences strung together to 60 words",
}


def write_report(results: Results, out: Path) -> None:
    """Write ``table.md``, and pictures if matplotlib is installed."""
    (out / "table.md").write_text(table(results), encoding="utf-8")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        logger.info("no pictures: matplotlib is not installed")
        return
    for name, draw in (("speed", _speed), ("similarity", _similarity), ("voices", _voices)):
        if name in results:
            figure = Figure(figsize=(6, 4), dpi=120, layout="constrained")
            draw(figure.subplots(), results[name])
            figure.savefig(out / f"{name}.png")


def table(results: Results) -> str:
    """Return the results as Markdown, with lines for the measured parts only."""
    lines = ["| what | result |", "| --- | --- |"]

    def add(what: str, result: object) -> None:
        lines.append(f"| {what} | {result} |")

    for part, title in _SETS.items():
        if part in results:
            r = results[part]
            ways = f"from codes {r['from_codes']} %"
            if "in_one_go" in r:
                ways += f", in one go {r['in_one_go']} %"
            add(
                f"word error rate, {title} ({r['sentences']})",
                f"{r['spoken']} % ({ways}, teacher {r['teacher']} %, "
                f"teacher through the codec {r['copied']} %)",
            )
    for voice, r in results.get("voices", {}).items():
        add(f"word error rate, voice {voice}", f"{r['spoken']} % (teacher {r['teacher']} %)")
    for voice, r in results.get("similarity", {}).items():
        steady = "(too short)" if r["steady"] is None else r["steady"]
        add(
            f"voice {voice} recognised",
            f"{r['identified']} % (from a sample prompt {r['identified_from_sample']} %; "
            f"similarity within a long text at least {steady})",
        )
    if "random" in results:
        r = results["random"]
        add(
            f"word error rate, {r['speakers']} random speakers",
            f"{r['mean']} %, worst {r['worst']} %",
        )
    if "speed" in results:
        r = results["speed"]
        add("length at [speed_0] to [speed_9]", " ".join(f"{x:.2f}" for x in r["ratios"]))
        add("... wanted", " ".join(f"{x:.2f}" for x in r["wanted"]))
    if "pauses" in results:
        r = results["pauses"]
        add(
            "silence at [uv_break]",
            f"median {r['with']['median']} ms (without it {r['without']['median']} ms); "
            f"of 150 to 900 ms in {r['with']['paused']} % (without it in "
            f"{r['without']['paused']} %), longer in {r['with']['longer']} of {r['sentences']}",
        )
    if "laughs" in results:
        add("[laugh] makes a sentence longer by", f"{results['laughs']['median_seconds']} s")
    if "borders" in results:
        places = {name: n for name, n in results["borders"].items() if name != "sentences"}
        worst = max(places, key=lambda name: places[name])
        add(
            "runaways, early ends and empty results at tags between sentences",
            f"{sum(places.values())} of {results['borders']['sentences'] * len(places)}; most of "
            f"them with {worst}: {places[worst]}",
        )
    if "requests" in results:
        r = results["requests"]
        add(
            f"{r['requests']} random requests",
            f"runaways {r['runaway']}, early ends {r['early']}, empty {r['empty']}",
        )
    if "refining" in results:
        r = results["refining"]
        add("refined texts that keep their words", f"{r['kept']} %")
        for what in ("breaks", "laughs", "fillers"):
            found, asked = map(
                sum, zip(*(added[what] for added in r["added"].values()), strict=True)
            )
            add(f"... {what} put in", f"{found} where training has {asked}")
    if "exactness" in results:
        r = results["exactness"]
        add("streams that differ from the whole", f"{r['streams_that_differ']} of {r['sentences']}")
        add(
            "velocity against the standard engine",
            f"{r['engines_of_other_length']} of {r['sentences']} of another length; largest "
            f"difference {r['largest_difference_of_engines']:.1e}",
        )
    if "rate" in results:
        r = results["rate"]
        add(f"one stream on {r['threads']} threads, float32", f"{r['times_real_time']} x real time")
    return "\n".join(lines) + "\n"


def _speed(axes: Any, result: Mapping[str, Any]) -> None:
    steps = range(SPEEDS)
    axes.plot(steps, result["wanted"], "--", color="grey", label="wanted")
    axes.plot(steps, result["ratios"], "o-", label="measured")
    axes.set_xlabel("n of [speed_n]")
    axes.set_ylabel(f"length against [speed_{DEFAULT_SPEED}]")
    axes.legend()


def _similarity(axes: Any, result: Mapping[str, Any]) -> None:
    grid = np.array([[result[v]["to"].get(t, np.nan) for t in CAST] for v in CAST])
    axes.imshow(grid, vmin=-1, vmax=1, cmap="RdBu_r")
    for (row, column), value in np.ndenumerate(grid):
        axes.text(column, row, f"{value:.2f}", ha="center", va="center")
    axes.set_xticks(range(len(CAST)), list(CAST))
    axes.set_yticks(range(len(CAST)), list(CAST))
    axes.set_xlabel("teacher")
    axes.set_ylabel("voice")


def _voices(axes: Any, result: Mapping[str, Any]) -> None:
    places = np.arange(len(result))
    for offset, who in ((-0.2, "teacher"), (0.2, "spoken")):
        axes.bar(places + offset, [r[who] for r in result.values()], width=0.4, label=who)
    axes.set_xticks(places, list(result))
    axes.set_ylabel("word error rate (%)")
    axes.legend()
