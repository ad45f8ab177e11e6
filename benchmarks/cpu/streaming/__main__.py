"""Time streams: how soon the first sound is there, and whether a player ever runs dry.

    python -m benchmarks.cpu.streaming --threads 2 --json out.json
    python -m benchmarks.cpu.streaming --threads 2 --peer-python peer/bin/python --plot out.png

By default the weights are random and have the published sizes. README.md explains each figure.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ChatTTS.config import Config
from ChatTTS.params import LowLatency

from ...common.command import new_parser, origin
from ...common.comparison import (
    LoadedSide,
    Side,
    add_arguments,
    call,
    check_arguments,
    load,
    peer_side,
)
from ...common.random_checkpoint import add_size_arguments, config_from, temporary_checkpoint
from .figures import Streamed, ratios, summary
from .player import Chunk
from .report import table

_DTYPES = ("bfloat16", "float32", "int8")
_SETTINGS = (
    *("layers", "hidden", "prompt", "frames", "threads", "rounds"),
    *("kv_memory", "memory_seconds"),
)
# Enough for the first pieces in every way.
_WARM_UP_FRAMES = 64
# The published package leaves out samples that are exactly zero.
_PEER_MAY_LOSE = 0.05


def sides(args: argparse.Namespace, cache: Path) -> list[Side]:
    """Return the sides that the options name; they use ``cache``, not the user's cache folder."""
    environment = {"XDG_CACHE_HOME": str(cache)}
    found = [
        Side(
            dtype,
            f"velocity {dtype}",
            "benchmarks.cpu.streaming.child",
            {"dtype": dtype, "use_vllm": True, "kv_memory": args.kv_memory},
            environment=environment,
            generates_separately=True,
        )
        for dtype in dict.fromkeys(args.dtypes)
    ]
    if args.peer_python is not None:
        found.append(peer_side(args.peer_python))
    return found


def ways(side: Side) -> dict[str, tuple[str, str]]:
    """Return the ways in which a side streams: by key, the child's handler and a name."""
    if not side.generates_separately:
        return {side.key: ("stream", side.name)}
    return {
        f"{side.key} exact": ("stream", f"{side.name} exact"),
        f"{side.key} low latency": ("low_latency", f"{side.name} low latency"),
    }


def measure(args: argparse.Namespace, config: Config, folder: Path) -> dict[str, Any]:
    """Measure everything in sequence, so that only one process computes at a time."""
    compared = sides(args, folder / "cache")
    memory = {
        side.key: _memory(side, folder, args) for side in compared if side.generates_separately
    }
    with ExitStack() as stack:
        loaded = load(stack, compared, folder, args.threads)
        results = [
            _result(streams, rounds)
            for streams, rounds in in_turns(loaded, args, config.vocos.mel.hop_length)
        ]
    return {
        **origin(),
        "settings": {name: getattr(args, name) for name in _SETTINGS},
        "low_latency": asdict(LowLatency()),
        "sides": {key: {"name": one.side.name, **one.answer} for key, one in loaded.items()},
        "ways": {key: name for side in compared for key, (_, name) in ways(side).items()},
        "results": results,
        "memory": memory,
    }


def in_turns(
    loaded: Mapping[str, LoadedSide], args: argparse.Namespace, hop: int
) -> Iterator[tuple[int, dict[str, list[Streamed]]]]:
    """Yield each number of streams with the rounds of every way to stream.

    After a warm-up the sides take turns.

    Args:
        hop: samples of half a frame.
    """
    # Numbers of the first texts of calls; no text is spoken twice.
    numbers = itertools.count(step=max(args.streams))
    with tqdm(total=len(args.streams) * (args.rounds + 1), desc="rounds", leave=False) as steps:
        for streams in args.streams:
            rounds: dict[str, list[Streamed]] = {}
            for index in range(1 + args.rounds):
                frames = args.frames if index else min(_WARM_UP_FRAMES, args.frames)
                for one in loaded.values():
                    for key, streamed in _run(one, streams, args.prompt, frames, numbers, hop):
                        rounds.setdefault(key, []).append(streamed)
                steps.update()
            yield streams, {key: own[1:] for key, own in rounds.items()}


def _run(
    one: LoadedSide, streams: int, prompt: int, frames: int, numbers: Iterator[int], hop: int
) -> Iterator[tuple[str, Streamed]]:
    """Time one round of one side: generation alone, ``infer`` offline, and every way to stream."""

    def ask(do: str) -> dict[str, Any]:
        return call(one.child, do, streams, prompt, frames, next(numbers))

    generated = ask("generate") if one.side.generates_separately else None
    offline = ask("run")
    for key, (do, name) in ways(one.side).items():
        answer = ask(do)
        chunks = [[Chunk(*values) for values in own] for own in answer["chunks"]]
        _check(name, chunks, (2 * frames - 1) * hop, 0 if generated else _PEER_MAY_LOSE)
        yield (
            key,
            Streamed(
                streams,
                frames,
                answer["stream_s"],
                chunks,
                offline["infer_s"],
                (generated or offline)["generate_s"],
            ),
        )


def _check(name: str, chunks: list[list[Chunk]], samples: int, may_lose: float) -> None:
    """Check that every stream gave all its samples.

    Raises:
        RuntimeError: a stream gave more than ``samples``, or lost more than ``may_lose`` of them.
    """
    given = [sum(chunk.samples for chunk in own) for own in chunks]
    if not all((1 - may_lose) * samples <= count <= samples for count in given):
        raise RuntimeError(f"{name} gave {given} samples, not {samples} in each stream")


def _memory(side: Side, folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Measure the memory that a stream keeps, in a process of its own."""
    with side.start_child(args.threads) as child:
        return child.call(
            "memory",
            folder=str(folder),
            threads=args.threads,
            seconds=args.memory_seconds,
            **side.load,
        )


def _result(streams: int, rounds: dict[str, list[Streamed]]) -> dict[str, Any]:
    """Return the figures of one number of streams."""
    result: dict[str, Any] = {
        "streams": streams,
        "summary": {key: summary(own) for key, own in rounds.items()},
        "rounds": {key: [one.record for one in own] for key, own in rounds.items()},
    }
    if "peer" in rounds:
        others = [key for key in rounds if key != "peer"]
        result["ratios"] = {key: ratios(rounds[key], rounds["peer"]) for key in others}
    return result


def as_json(report: Mapping[str, Any]) -> str:
    """Return the report as JSON, without the thousands of chunks that its figures come from."""
    results = [
        {**result, "rounds": {key: _without_chunks(own) for key, own in result["rounds"].items()}}
        for result in report["results"]
    ]
    return json.dumps({**report, "results": results}, indent=1) + "\n"


def _without_chunks(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{name: of for name, of in own.items() if name != "chunks"} for own in records]


def parse() -> argparse.Namespace:
    parser = new_parser("cpu.streaming", __doc__)
    add_size_arguments(parser)
    add_arguments(parser, streams=[1, 4])
    parser.add_argument(
        "--dtypes",
        nargs="+",
        choices=_DTYPES,
        default=list(_DTYPES[:2]),
        metavar="DTYPE",
        help=f"of the engine ({', '.join(_DTYPES)})",
    )
    parser.add_argument("--kv-memory", default="1GB", help="of the KV cache")
    parser.add_argument(
        "--memory-seconds", type=float, default=600, help="of sound, for a stream's memory"
    )
    parser.add_argument("--plot", type=Path, help="draw sound over time here (needs matplotlib)")
    args = parser.parse_args()
    check_arguments(parser, args)
    if args.memory_seconds < 11:
        parser.error("--memory-seconds must be at least 11: memory is looked at after 10 as well")
    return args


def main() -> None:
    args = parse()
    config = config_from(args)
    with temporary_checkpoint(config, args.seed) as folder:
        report = measure(args, config, folder)
    if args.json is not None:
        args.json.write_text(as_json(report), encoding="utf-8")
    print(table(report))
    if args.plot is not None:
        from .plot import draw

        draw(report, args.plot)


if __name__ == "__main__":
    main()
