"""Time the velocity engine where no kernels can run, beside the standard path.

    python -m benchmarks.cpu.fallback --threads 2
    python -m benchmarks.cpu.fallback --threads 2 --bundled

By default the weights are random and have the published sizes. README.md explains each figure.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import ChatTTS

from ..common.command import new_parser, origin, write_json
from ..common.comparison import Side, add_arguments, check_arguments, in_turns, load
from ..common.random_checkpoint import add_size_arguments, config_from, temporary_checkpoint
from ..common.report import Round, medians, ratios, table

# A compiler that is asked for and is not there: neither a wheel's kernels nor new ones are used.
_NO_KERNELS = {"CXX": "there-is-no-such-compiler"}
_SETTINGS = ("dtype", "prompt", "frames", "threads", "rounds", "bundled", "kv_memory")


def compare(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Load both sides, run them by turns and return the report."""
    velocity = {"dtype": args.dtype, "use_vllm": True, "kv_memory": args.kv_memory}
    sides = [
        Side(
            "velocity",
            "velocity on torch",
            "benchmarks.cpu.velocity.child",
            velocity,
            environment=_NO_KERNELS,
            generates_separately=True,
        ),
        Side(
            "standard",
            "the standard path",
            "benchmarks.cpu.chat_child",
            {"dtype": args.dtype, "use_vllm": False},
            environment=_NO_KERNELS,
        ),
    ]
    with ExitStack() as stack:
        loaded = load(stack, sides, folder, args.threads)
        results = [_result(streams, rounds) for streams, rounds in in_turns(loaded, args)]
    return {
        **origin(),
        "settings": {name: getattr(args, name) for name in _SETTINGS},
        "sides": {key: {"name": one.side.name, **one.answer} for key, one in loaded.items()},
        "results": results,
    }


def _result(streams: int, rounds: dict[str, list[Round]]) -> dict[str, Any]:
    return {
        "streams": streams,
        "medians": {key: medians(own) for key, own in rounds.items()},
        "rounds": {key: [r.figures for r in own] for key, own in rounds.items()},
        "ratios": ratios(rounds["velocity"], rounds["standard"]),
    }


@contextmanager
def _checkpoint(args: argparse.Namespace) -> Iterator[Path]:
    """Give the folder of the bundled voice or of a random checkpoint."""
    if args.bundled:
        yield Path(ChatTTS.__file__).parent / "bundled"
        return
    with temporary_checkpoint(config_from(args), args.seed) as folder:
        yield folder


def parse() -> argparse.Namespace:
    parser = new_parser("cpu.fallback", __doc__)
    add_size_arguments(parser)
    add_arguments(parser, streams=[1, 4, 8, 16])
    parser.add_argument("--dtype", default="float32", help="of both sides")
    parser.add_argument("--bundled", action="store_true", help="take the bundled voice")
    parser.add_argument("--kv-memory", default="1GB", help="of the KV cache")
    args = parser.parse_args()
    check_arguments(parser, args)
    return args


def main() -> None:
    args = parse()
    with _checkpoint(args) as folder:
        report = compare(args, folder)
    print(table(report))
    write_json(report, args.json)


if __name__ == "__main__":
    main()
