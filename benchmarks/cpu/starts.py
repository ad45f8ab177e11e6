"""Time how long the package takes to start: its import, the help of the command, a short sentence.

    python -m benchmarks.cpu.starts --json out.json

Each is a process of its own. README.md explains the figures.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tqdm import tqdm

from ..common.command import check_at_least_one, new_parser, origin, write_json

_MAIN = "import sys; from ChatTTS.cli import main; sys.exit(main())"


def commands(folder: Path) -> dict[str, list[str]]:
    """Return the arguments of Python by name; ``folder`` is for what they write."""
    say = ["say", "Hello there.", "-o", str(folder / "hello.wav")]
    return {
        "python -c pass": ["-c", "pass"],
        "import ChatTTS": ["-c", "import ChatTTS"],
        "chattts --help": ["-c", _MAIN, "--help"],
        "chattts say": ["-c", _MAIN, *say],
    }


def timed(arguments: Sequence[str]) -> dict[str, float]:
    """Run Python with ``arguments``; return the seconds it took, and those of processors.

    Raises:
        SystemExit: it fails.
    """
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    ended = time.perf_counter()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{arguments} ended with status {process.returncode}")
    return {"wall_s": ended - began, "cpu_s": used.ru_utime + used.ru_stime}


def measure(rounds: int) -> dict[str, list[dict[str, float]]]:
    """Return the times of each command in each round, by turns, after one that is not counted."""
    with tempfile.TemporaryDirectory() as folder:
        given = commands(Path(folder))
        for arguments in given.values():
            timed(arguments)
        found: dict[str, list[dict[str, float]]] = {name: [] for name in given}
        for _ in tqdm(range(rounds), desc="rounds", disable=None):
            for name, arguments in given.items():
                found[name].append(timed(arguments))
    return found


def summary(rounds: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the median and the least of each figure."""
    return {
        f"{what}_{key}": choose(each[key] for each in rounds)
        for what, choose in (("median", median), ("least", min))
        for key in rounds[0]
    }


def main() -> None:
    parser = new_parser("cpu.starts", __doc__ or "")
    parser.add_argument("--rounds", type=int, default=9, help="of all commands by turns")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the whole run")
    args: argparse.Namespace = parser.parse_args()
    check_at_least_one(parser, args, "rounds")
    found = measure(args.rounds)
    summaries = {name: summary(rounds) for name, rounds in found.items()}
    report: dict[str, Any] = {**origin(), "summary": summaries, "rounds": found}
    for name, own in summaries.items():
        print(f"{name:16} " + "  ".join(f"{key} {value:.2f}" for key, value in own.items()))
    write_json(report, args.json)


if __name__ == "__main__":
    main()
