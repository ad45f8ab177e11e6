"""Time the velocity engine beside the published package and the limits of the machine.

    python -m benchmarks.cpu.velocity --threads 2 --json out.json
    python -m benchmarks.cpu.velocity --threads 2 --peer-python peer/bin/python --plot out.png

By default the weights are random and have the published sizes. README.md explains each figure.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from ChatTTS.config import Config

from ...common.child import ChildProcess
from ...common.command import check_at_least_one, new_parser, origin, write_json
from ...common.comparison import (
    CONTROL_POSITIONS,
    LoadedSide,
    Side,
    add_arguments,
    check_arguments,
    in_turns,
    load,
    peer_side,
    texts,
)
from ...common.random_checkpoint import add_size_arguments, config_from, temporary_checkpoint
from ...common.report import Round, medians, ratios
from ...common.step_limit import Rates, StepWork
from .report import table
from .starts import measure_starts

_SIDES = ("bfloat16", "float32", "int8", "standard:float32", "standard:bfloat16")
# Words of a sample prompt's transcript, and of the text behind it.
_WORDS = 16
_SETTINGS = ("layers", "hidden", "prompt", "frames", "threads", "rounds", "kv_memory")


def sides(args: argparse.Namespace, caches: Path) -> list[Side]:
    """Return the sides that the options name.

    Each dtype has a cache folder of its own, so that its first start finds the folder empty.
    """
    found = []
    for name in dict.fromkeys(args.dtypes):
        engine, _, dtype = name.rpartition(":")
        environment = {"XDG_CACHE_HOME": str(caches / dtype)}
        if engine:
            given = {"dtype": dtype, "use_vllm": False}
            module = "benchmarks.cpu.chat_child"
            found.append(Side(name, name, module, given, environment=environment))
        else:
            given = {"dtype": dtype, "use_vllm": True, "kv_memory": args.kv_memory}
            found.append(
                Side(
                    name,
                    f"velocity {name}",
                    "benchmarks.cpu.velocity.child",
                    given,
                    environment=environment,
                    generates_separately=True,
                )
            )
    if args.peer_python is not None:
        found.append(peer_side(args.peer_python))
    return found


def measure(args: argparse.Namespace, config: Config, folder: Path) -> dict[str, Any]:
    """Measure everything in sequence, so that only one process computes at a time."""
    compared = sides(args, folder / "caches")
    with ChildProcess(
        "the limits", Path(sys.executable), "benchmarks.cpu.machine_limits", args.threads
    ) as child:
        limits = child.call(
            "measure", threads=args.threads, megabytes=args.read_mb, passes=args.passes
        )
    starts = {
        side.key: measure_starts(side, folder, args.threads, config)
        for side in compared
        if side.generates_separately
    }
    works = {
        side.key: StepWork.of(
            config.gpt, side.load["dtype"], starts.get(side.key, side.load)["dtype"]
        )
        for side in compared
    }
    with ExitStack() as stack:
        loaded = load(stack, compared, folder, args.threads)
        results = []
        for streams, rounds in in_turns(loaded, args):
            bounds = {
                side.key: works[side.key].limit(
                    Rates.of(limits, side.load["dtype"]), streams, args.prompt, args.frames
                )
                for side in compared
            }
            results.append(_result(streams, rounds, bounds))
        ours = {key: one for key, one in loaded.items() if one.side.generates_separately}
        again = {key: _repeated_prompt(one, args) for key, one in ours.items()}
        overhead = {key: _overhead(one, args) for key, one in ours.items()}
    return {
        **origin(),
        "settings": {name: getattr(args, name) for name in _SETTINGS},
        "sides": {key: {"name": one.side.name, **one.answer} for key, one in loaded.items()},
        "limits": limits,
        "starts": starts,
        "results": results,
        "again": again,
        "overhead": overhead,
    }


def _result(
    streams: int, rounds: dict[str, list[Round]], bounds: dict[str, dict[str, float]]
) -> dict[str, Any]:
    """Return the figures of one number of streams, and the limits beside them."""
    middles = {key: medians(own) for key, own in rounds.items()}
    limits = {
        key: {
            **bound,
            "generate_frames_per_s": 1000 * streams / bound["step_ms"],
            "factor": middles[key]["step_ms"] / bound["step_ms"],
        }
        for key, bound in bounds.items()
    }
    result: dict[str, Any] = {
        "streams": streams,
        "medians": middles,
        "limits": limits,
        "rounds": {key: [r.figures for r in own] for key, own in rounds.items()},
    }
    if "peer" in rounds:
        others = [key for key in rounds if key != "peer"]
        result["ratios"] = {key: ratios(rounds[key], rounds["peer"]) for key in others}
    return result


def _repeated_prompt(loaded: LoadedSide, args: argparse.Namespace) -> dict[str, Any]:
    """Time the first frame of a prompt that the engine does not know, and of its repetition."""
    rounds = []
    for first in range(0, 2 * (args.rounds + 1), 2):
        transcript, text = texts(2, CONTROL_POSITIONS + _WORDS, first)
        rounds.append(
            loaded.child.call(
                "repeated_prompt", text=text, transcript=transcript, frames=args.sample_frames
            )
        )
    del rounds[0]  # the warm-up
    times = [first / second for first, second in (r["seconds"] for r in rounds)]
    return {
        "first_s": median(r["seconds"][0] for r in rounds),
        "second_s": median(r["seconds"][1] for r in rounds),
        "ratio": {"median": median(times), "min": min(times), "max": max(times)},
        "rounds": rounds,
    }


def _overhead(loaded: LoadedSide, args: argparse.Namespace) -> dict[str, Any]:
    """Return the time outside the model with the most streams, on texts that no round has had."""
    streams = max(args.streams)
    first = 2 * streams * len(args.streams) * (args.rounds + 1)
    return {
        "streams": streams,
        **loaded.child.call(
            "overhead", texts=texts(streams, args.prompt, first), frames=args.frames
        ),
    }


def parse() -> argparse.Namespace:
    parser = new_parser("cpu.velocity", __doc__)
    add_size_arguments(parser)
    add_arguments(parser, streams=[1, 8, 16])
    parser.add_argument(
        "--dtypes",
        nargs="+",
        choices=_SIDES,
        default=list(_SIDES[:3]),
        metavar="DTYPE",
        help=f"of the engine; with 'standard:' the standard path ({', '.join(_SIDES)})",
    )
    parser.add_argument("--kv-memory", default="1GB", help="of the KV cache")
    parser.add_argument(
        "--sample-frames", type=int, default=300, help="of the sample prompt that comes twice"
    )
    parser.add_argument("--read-mb", type=int, default=512, help="read in a pass for the limit")
    parser.add_argument("--passes", type=int, default=5, help="for the limits; the best counts")
    parser.add_argument("--plot", type=Path, help="draw frames a second here (needs matplotlib)")
    args = parser.parse_args()
    check_arguments(parser, args)
    check_at_least_one(parser, args, "sample_frames", "read_mb", "passes")
    if args.sample_frames + CONTROL_POSITIONS + 2 * _WORDS + 2 > args.positions:
        parser.error(f"--sample-frames does not fit into the model's {args.positions} positions")
    return args


def main() -> None:
    args = parse()
    config = config_from(args)
    with temporary_checkpoint(config, args.seed) as folder:
        report = measure(args, config, folder)
    print(table(report))
    write_json(report, args.json)
    if args.plot is not None:
        from .plot import draw

        draw(report, args.plot)


if __name__ == "__main__":
    main()
