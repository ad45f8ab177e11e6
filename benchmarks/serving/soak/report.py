"""The report of a soak: its figures, its verdict, and both as Markdown."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .samples import Sample, busy
from .slope import Slope, slope_of
from .tally import total

WELL, FAULTY, TOO_SHORT = 0, 1, 3
"""Exit statuses; the last one: no fault was found, but the slope of memory is not known."""

# Threads of pools come and go with the load.
_MORE_THREADS = 8
# A server keeps the connections of requests that it has just answered for a moment.
_MORE_FILES = 4
_OWN = 1  # connection, by which the metrics are asked


@dataclass(frozen=True)
class End:
    """The things that a server left once it had ended.

    Attributes:
        status: its exit status.
        left: files and processes.
        troubles: places of its log that tell of an error of the program.
    """

    status: int | None
    left: Sequence[str]
    troubles: Sequence[str]


def slopes(samples: Sequence[Sample], warm_up: float) -> dict[str, dict[str, Slope | None]]:
    """Return the slope of RSS and USS of each server after the warm-up, in MB an hour."""
    later = [sample for sample in samples if sample.at >= warm_up]
    found: dict[str, dict[str, Slope | None]] = {}
    for role in sorted({role for sample in later for role in sample.holdings}):
        if role.startswith(("replica ", "beside ")):
            continue
        held = [(s.at / 3600, s.holdings[role]) for s in later if role in s.holdings]
        hours = [at for at, _ in held]
        found[role] = {
            "rss": slope_of(hours, [each.rss for _, each in held]),
            "uss": slope_of(hours, [each.uss for _, each in held]),
        }
    return found


def still_open(begin: Sample, warm: Sample | None, end: Sample) -> list[str]:
    """Return what the servers hold at the end that they did not hold at the begin.

    Pools make their threads when they are first needed. So those count that a server has beyond the
    begin and beyond the end of the warm-up.

    Args:
        begin, end: taken when nothing was spoken, before and after the load.
        warm: the first one after the warm-up, if there is one.
    """
    found = []
    for server, gauges in end.gauges.items():
        found += [f"{server}: {name} is {value:g}" for name, value in busy(gauges).items()]
        if (count := gauges.get("chattts_connections", 0.0)) > _OWN:
            found.append(f"{server}: {count:g} connections")
        if not gauges and begin.gauges.get(server):
            found.append(f"{server}: no metrics at the end")
    for role, held in end.holdings.items():
        if role not in begin.holdings or role.startswith("beside ") or role == "this program":
            continue
        before = begin.holdings[role]
        if held.files > before.files + _MORE_FILES:
            found.append(f"{role}: {held.files} open files, {before.files} at the begin")
        filled = warm.holdings.get(role, before).threads if warm else 0
        if held.threads > max(before.threads, filled) + _MORE_THREADS:
            found.append(
                f"{role}: {held.threads} threads, {before.threads} at the begin and {filled} after "
                "the warm-up"
            )
    for server, count in end.temporary.items():
        if count > begin.temporary.get(server, 0):
            found.append(f"{server}: {count} temporary files")
    return found


def verdict(
    told: Mapping[str, Any],
    memory: Mapping[str, Mapping[str, Slope | None]],
    left_open: Sequence[str] | None,
    ends: Mapping[str, End],
) -> tuple[int, list[str]]:
    """Return the exit status, and what is not well, a line each.

    Args:
        told: the counts of requests.
        memory: the slopes of RSS and USS.
        left_open: what is open at the end; ``None`` where that is not known.
        ends: what servers left.
    """
    wrong, unknown = [], []
    if told["different"]:
        wrong.append(f"{told['different']} answers differ from those of a lone request")
    if others := told["faults"] - told["different"]:
        wrong.append(f"{others} requests failed")
    for server, each in memory.items():
        if server == "this program":
            continue
        if (slope := each["rss"]) is None:
            unknown.append(f"{server}: too few samples after the warm-up to tell a slope of memory")
        elif slope.verdict == "grows":
            wrong.append(
                f"{server}: RSS grows by {slope.per_hour:+.1f} MB/h (± {slope.within:.1f})"
            )
    if not memory:
        unknown.append("no sample was taken after the warm-up, so memory is not judged")
    if left_open is None:
        wrong.append("servers ended before the last look, so what stayed open is not known")
    wrong += left_open or []
    for server, end in ends.items():
        if end.status != 0:
            wrong.append(f"{server}: exit status {end.status}")
        wrong += [f"{server} left {name}" for name in end.left]
        if end.troubles:
            wrong.append(f"{server}: {len(end.troubles)} errors of the program in its log")
    if wrong:
        return FAULTY, wrong + unknown
    return (TOO_SHORT if unknown else WELL), unknown


def memory_told(memory: Mapping[str, Mapping[str, Slope | None]]) -> dict[str, Any]:
    """Return the slopes for the report."""
    return {
        server: {
            what: slope and {**asdict(slope), "verdict": slope.verdict}
            for what, slope in each.items()
        }
        for server, each in memory.items()
    }


def ends_told(ends: Mapping[str, End]) -> dict[str, Any]:
    """Return the ends of servers for the report."""
    return {server: asdict(end) for server, end in ends.items()}


def write(report: Mapping[str, Any], file: Path) -> None:
    """Write a report as JSON, so that the file is always a whole one."""
    unfinished = file.with_name(file.name + ".part")
    unfinished.write_text(json.dumps(report) + "\n", encoding="utf-8")
    os.replace(unfinished, file)


def markdown(report: Mapping[str, Any]) -> str:
    """Return the report for readers."""
    told, hours = report["requests"], report["seconds"] / 3600
    lines = [
        f"# Soak of {hours:.2f} hours",
        "",
        f"`{report['command']}`",
        "",
        f"{report['machine']['cpu']}, {report['machine']['cores']} cores. "
        f"{told['requests']} requests at "
        f"{report['rate']:.2f} a second, of at most {report['highest_rate']:.2f}. "
        f"Bytes of {told['different']} answers differ; {told['faults']} requests ended badly.",
        "",
        "**All is well.**" if not report["problems"] else "Not well, or not known:",
        "",
        *(f"- {problem}" for problem in report["problems"]),
        *([""] if report["problems"] else []),
        *_memory_lines(report),
        *_open_lines(report),
        *_count_lines("protocol", told["by_way"]),
        *_count_lines("server", told["by_server"]),
        "Done to the servers: "
        + ("; ".join(f"{name}: {count}" for name, count in told["events"].items()) or "nothing")
        + ".",
        "",
    ]
    if told["gaps"]:
        stood = sum(end - begin for begin, end in told["gaps"])
        lines += [
            f"This program stood still {len(told['gaps'])} times, {stood:.0f} s together; "
            f"{told['faults_in_gaps']} requests that ended badly then are not counted.",
            "",
        ]
    for fault in told["first_faults"][:20]:
        lines.append(
            f"- {fault['kind']} at {fault['began']:.0f} s, {fault['server']}, {fault['request']} "
            f"({fault['conduct']}): {fault['said']}"
        )
    return "\n".join(lines).rstrip() + "\n"


def _memory_lines(report: Mapping[str, Any]) -> list[str]:
    lines = [
        "| process | RSS, MB an hour | 99 % within | verdict | USS, MB an hour | 99 % within |",
        "| --- " * 6 + "|",
    ]
    for server, each in report["memory"].items():
        rss, uss = each["rss"], each["uss"]
        cells = ["", "", "too short", "", ""]
        if rss is not None and uss is not None:
            cells = [f"{rss['per_hour']:+.2f}", f"± {rss['within']:.2f}", rss["verdict"]]
            cells += [f"{uss['per_hour']:+.2f}", f"± {uss['within']:.2f}"]
        lines.append("| " + " | ".join([server, *cells]) + " |")
    return [*lines, ""]


def _open_lines(report: Mapping[str, Any]) -> list[str]:
    begin, end = report.get("begin"), report.get("end")
    if not begin or not end:
        return []
    lines = [
        "| process | RSS, MB | open files | threads | established sockets |",
        "| --- " * 5 + "|",
    ]
    for role in sorted({*begin["processes"], *end["processes"]}):
        pairs = [begin["processes"].get(role, {}), end["processes"].get(role, {})]
        sockets = [each.get("sockets", {}) for each in pairs]
        values = [
            [f"{each['rss']:.0f}" if "rss" in each else "" for each in pairs],
            [str(each.get("files", "")) for each in pairs],
            [str(each.get("threads", "")) for each in pairs],
            [str(each.get("established", 0)) for each in sockets],
        ]
        cells = [" → ".join(pair) for pair in values]
        lines.append("| " + " | ".join([role, *cells]) + " |")
    return [*lines, ""]


def _count_lines(what: str, counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    kinds = sorted(total(counts))
    lines = [f"| {what} | " + " | ".join(kinds) + " |", "| --- " * (len(kinds) + 1) + "|"]
    for name, each in counts.items():
        lines.append(f"| {name} | " + " | ".join(str(each.get(kind, 0)) for kind in kinds) + " |")
    return [*lines, ""]
