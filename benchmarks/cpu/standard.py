"""Time the standard path, alone or side by side with the published package.

    python -m benchmarks.cpu.standard --streams 1 4 8 --threads 2
    python -m benchmarks.cpu.standard --threads 2 --peer-python peer/bin/python

By default the weights are random and have the published sizes. README.md explains each figure.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ..common.command import new_parser, origin, write_json
from ..common.comparison import Side, add_arguments, check_arguments, in_turns, load, peer_side
from ..common.random_checkpoint import add_size_arguments, config_from, temporary_checkpoint
from ..common.report import Round, medians, ratios, table


def compare(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Load every side, run the sides by turns and return the report."""
    given = {"dtype": args.dtype, "use_vllm": False}
    sides = [Side("ours", "this package", "benchmarks.cpu.chat_child", given)]
    if args.peer_python is not None:
        sides.append(peer_side(args.peer_python))
    with ExitStack() as stack:
        loaded = load(stack, sides, folder, args.threads)
        results = [_result(streams, rounds) for streams, rounds in in_turns(loaded, args)]
    return {
        **origin(),
        "settings": {
            "layers": args.layers,
            "hidden": args.hidden,
            "dtype": args.dtype,
            "prompt": args.prompt,
            "frames": args.frames,
            "threads": args.threads,
            "rounds": args.rounds,
        },
        "sides": {key: dict(one.answer) for key, one in loaded.items()},
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
    parser = new_parser("cpu.standard", __doc__)
    add_size_arguments(parser)
    add_arguments(parser, streams=[1])
    parser.add_argument("--dtype", default="float32", help="of this package; the peer's is float32")
    args = parser.parse_args()
    check_arguments(parser, args)
    return args


def main() -> None:
    args = parse()
    with temporary_checkpoint(config_from(args), args.seed) as folder:
        report = compare(args, folder)
    print(table(report))
    write_json(report, args.json)


if __name__ == "__main__":
    main()
