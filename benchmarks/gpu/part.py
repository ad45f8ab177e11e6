"""One part of the GPU benchmark in its own process; a child of ``python -m benchmarks.gpu``."""

from __future__ import annotations

import argparse
import importlib
import json
import time
from pathlib import Path


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.part", description=__doc__)
    parser.add_argument("module", help="module of this package whose `measure` is called")
    parser.add_argument("result", type=Path, help="the JSON file that results are written to")
    parser.add_argument("--folder", type=Path, required=True, help="shared by all parts")
    parser.add_argument("--given", type=json.loads, default={}, help="arguments, as JSON")
    parser.add_argument("--began", type=float, default=time.time(), help="start of this process")
    parser.add_argument("--dry-run", action="store_true", help="tiny, on a CPU")
    return parser.parse_args()


def main() -> None:
    args = parse()
    if args.dry_run:
        from .rehearsal import rehearse

        rehearse(args.module)
    from .scale import FULL, TINY, Record, Task

    scale = TINY if args.dry_run else FULL
    task = Task(scale, args.folder, Record(args.result), args.began)
    try:
        importlib.import_module(f".{args.module}", __package__).measure(task, **args.given)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith(("ChatTTS", "benchmarks")):
            raise
        task.record.put(skipped=f"{error.name} is not installed")


if __name__ == "__main__":
    main()
