"""Learn speakers with the bundled voice, and measure how near they come.

    python -m benchmarks.voices --json out.json

README.md explains each figure. It needs the teacher of the bundled voice and pocketsphinx;
espeak-ng for one more voice.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from pathlib import Path
from typing import Any

import torch

import ChatTTS
from recipes.voice.evaluation.taught import FOLDER, Taught

from ..common.command import check_at_least_one, new_parser, origin, write_json
from .codes import compared
from .measures import Bench, person, recovered
from .people import strangers, teachers

_COMPARED = 3  # sentences of each speaker
PARTS = ("teachers", "random", "strangers", "published")


def measure(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run the parts, in order; a part that a file has already is not run again."""
    torch.set_num_threads(args.threads)
    bench = Bench(folder, args.sentences, args.seed, Taught(args.teacher))
    results: dict[str, Any] = {}
    if args.json is not None and args.json.exists():
        results = json.loads(args.json.read_text(encoding="utf-8"))["results"]

    def keep(part: str, name: str, found: dict[str, Any]) -> None:
        results.setdefault(part, {})[name] = found
        print(part, name, json.dumps(found, ensure_ascii=False), flush=True)
        write_json(report(args, results), args.json)

    if "teachers" in args.parts:
        for who in teachers(bench.teacher):
            if who.name not in results.get("teachers", {}):
                keep("teachers", who.name, person(bench, who, args.seconds, built_in=True))
    if "random" in args.parts:
        for number in range(args.random):
            if str(number) not in results.get("random", {}):
                keep("random", str(number), recovered(bench, number, max(args.seconds)))
    if "strangers" in args.parts:
        for who in strangers(bench.teacher):
            if who.name not in results.get("strangers", {}):
                keep("strangers", who.name, person(bench, who, args.seconds[-1:], built_in=False))
    if "published" in args.parts and args.peer_python is not None:
        speakers = [
            found[f"learned from {max(args.seconds):g} s"]["speaker"]
            for found in results.get("teachers", {}).values()
        ]
        lines, copy = bench.lines[:_COMPARED], folder / "float32"
        found = compared(bench.subject, lines, speakers, args.peer_python, copy)
        keep("published", "codes", found)
    return report(args, results)


def report(args: argparse.Namespace, results: dict[str, Any]) -> dict[str, Any]:
    """Return the report of what was measured until now."""
    return {
        **origin(),
        "versions": {
            "package": f"chattts-velocity {ChatTTS.__version__}",
            "python": platform.python_version(),
            "torch": torch.__version__,
        },
        "settings": {name: getattr(args, name) for name in ("seconds", "sentences", "seed")},
        "results": results,
    }


def table(found: dict[str, Any]) -> str:
    """Return the voices of a report as rows of text."""
    lines = []
    for part, named in found["results"].items():
        for name, rows in named.items():
            lines.append(f"{part}: {name}")
            lines += [
                f"  {row:24} {values['likeness']:6.3f} {values['word_error_rate']:6.2f} %"
                for row, values in rows.items()
                if isinstance(values, dict) and "likeness" in values
            ]
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    parser = new_parser("voices", __doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seconds", type=float, nargs="+", default=[10, 30, 60])
    parser.add_argument("--sentences", type=int, default=20, help="spoken by each voice")
    parser.add_argument("--random", type=int, default=5, help="random speakers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--teacher", type=Path, default=FOLDER, help="folder with teacher/")
    parser.add_argument("--peer-python", type=Path, help="one that has the published package")
    parser.add_argument("--json", type=Path, help="write the whole report here, and go on from it")
    args = parser.parse_args()
    check_at_least_one(parser, args, "sentences", "random", "threads")
    return args


def main() -> None:
    args = parse()
    with tempfile.TemporaryDirectory(prefix="chattts-voices-") as folder:
        print(table(measure(args, Path(folder))))


if __name__ == "__main__":
    main()
