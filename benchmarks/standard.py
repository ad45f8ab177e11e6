"""Time the standard path, alone or side by side with the published package.

    python benchmarks/standard.py --streams 1 4 8 --threads 2
    python benchmarks/standard.py --threads 2 --peer-python peer/bin/python

Random weights at the published sizes by default. README.md says what each figure means.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from random_checkpoint import add_size_arguments, config_from, write_checkpoint
from report import Round, machine, medians, ratios, table
from tqdm import tqdm
from worker import Worker

# Positions of a code prompt beside the text: [Stts] [empty_spk] [speed_5] ... [Ptts].
_FRAME_OF_PROMPT = 4
_WARM_UP_FRAMES = 4


def texts(streams: int, prompt: int) -> list[str]:
    """Texts whose prompts have exactly ``prompt`` positions; a word of one letter is one token."""
    words = prompt - _FRAME_OF_PROMPT
    return [" ".join([chr(ord("a") + row % 26)] * words) for row in range(streams)]


def run(worker: Worker, streams: int, prompt: int, frames: int) -> Round:
    """Have one side speak, and make sure that it did the work that was asked for.

    Raises:
        RuntimeError: it read other prompts, or gave other numbers of frames.
    """
    answer = worker.call("run", texts=texts(streams, prompt), frames=frames)
    wanted = {"prompts": [prompt] * streams, "frames": [frames] * streams}
    done = {name: answer[name] for name in wanted}
    if done != wanted:
        raise RuntimeError(f"{worker.name} did other work than asked for: {done}, not {wanted}")
    return Round(streams, frames, answer["generate_s"], answer["infer_s"])


def compare(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Load every side, then let them run in turns."""
    with ExitStack() as stack:

        def start(name: str, python: Path, script: str) -> Worker:
            return stack.enter_context(Worker(name, python, script, args.threads))

        sides = {"ours": start("this package", Path(sys.executable), "ours.py")}
        if args.peer_python is not None:
            sides["peer"] = start("the published package", args.peer_python, "peer.py")
        loads = {
            key: side.call("load", folder=str(folder), threads=args.threads, dtype=args.dtype)
            for key, side in sides.items()
        }
        results = []
        steps = tqdm(total=len(args.streams) * (args.rounds + 1), desc="rounds", leave=False)
        stack.enter_context(steps)
        for streams in args.streams:
            rounds: dict[str, list[Round]] = {key: [] for key in sides}
            for side in sides.values():
                run(side, streams, args.prompt, min(_WARM_UP_FRAMES, args.frames))
            steps.update()
            for _ in range(args.rounds):
                for key, side in sides.items():
                    rounds[key].append(run(side, streams, args.prompt, args.frames))
                steps.update()
            results.append(_result(streams, rounds))
    return {
        "command": shlex.join(["python", *sys.argv]),
        "machine": machine(),
        "settings": {
            "layers": args.layers,
            "hidden": args.hidden,
            "dtype": args.dtype,
            "prompt": args.prompt,
            "frames": args.frames,
            "threads": args.threads,
            "rounds": args.rounds,
        },
        "sides": loads,
        "results": results,
    }


def _result(streams: int, rounds: dict[str, list[Round]]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "streams": streams,
        "medians": {key: medians(own) for key, own in rounds.items()},
        "rounds": {key: [r.figures for r in own] for key, own in rounds.items()},
    }
    if "peer" in rounds:
        result["ratios"] = ratios(rounds["ours"], rounds["peer"])
    return result


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add_size_arguments(parser)
    parser.add_argument("--prompt", type=int, default=50, help="positions of each prompt")
    parser.add_argument("--frames", type=int, default=350, help="new frames of each stream")
    parser.add_argument("--streams", type=int, nargs="+", default=[1], help="started together")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of each side")
    parser.add_argument("--rounds", type=int, default=3, help="timed runs of each side")
    parser.add_argument("--dtype", default="float32", help="of this package; the peer's is float32")
    parser.add_argument("--peer-python", type=Path, help="interpreter that has ChatTTS==0.2.5")
    parser.add_argument("--json", type=Path, help="write the whole report here")
    args = parser.parse_args()
    for name in ("prompt", "frames", "threads", "rounds"):
        least = _FRAME_OF_PROMPT + 1 if name == "prompt" else 1
        if getattr(args, name) < least:
            parser.error(f"--{name} must be at least {least}")
    if min(args.streams) < 1:
        parser.error("--streams must be at least 1")
    if args.prompt + args.frames > args.positions:
        parser.error(
            f"--prompt and --frames together exceed the model's {args.positions} positions"
        )
    return args


def main() -> None:
    args = parse()
    with tempfile.TemporaryDirectory(prefix="chattts-random-") as folder:
        write_checkpoint(Path(folder), config_from(args), args.seed)
        report = compare(args, Path(folder))
    print(table(report))
    if args.json is not None:
        args.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
