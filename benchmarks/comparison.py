"""Sides that take turns: who they are, what they are given to speak, how they are timed."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from report import Round
from tqdm import tqdm
from worker import Worker

# Positions of a code prompt beside the text: [Stts] [empty_spk] [speed_5] ... [Ptts].
FRAME_OF_PROMPT = 4
_WARM_UP_FRAMES = 4


@dataclass(frozen=True)
class Side:
    """One of those that are compared.

    Attributes:
        key: in the report.
        name: for messages and tables.
        script: of the child, beside this file.
        load: arguments of the child's ``load`` beside folder and threads.
        python: the interpreter that the child runs on.
        environment: variables of the child.
        generates_apart: time generation in a call of its own. An engine that goes on by itself
            while rows that ended early are made audible cannot be timed from within ``infer``.
    """

    key: str
    name: str
    script: str
    load: Mapping[str, Any]
    python: Path = Path(sys.executable)
    environment: Mapping[str, str] = field(default_factory=dict)
    generates_apart: bool = False

    def worker(self, threads: int) -> Worker:
        """A new child."""
        return Worker(self.name, self.python, self.script, threads, self.environment)


@dataclass(frozen=True)
class LoadedSide:
    """A side whose child has loaded, and what that answered."""

    side: Side
    worker: Worker
    answer: Mapping[str, Any]


def texts(streams: int, prompt: int, first: int = 0) -> list[str]:
    """Texts number ``first`` and following, each of a prompt of exactly ``prompt`` positions.

    A word of one letter is one token. Two texts differ as soon as their numbers do, at the latest
    after 26 to the power of the number of words: no engine knows a prompt from the round before.
    """
    words = prompt - FRAME_OF_PROMPT
    return [
        " ".join(chr(ord("a") + number // 26**place % 26) for place in range(words))
        for number in range(first, first + streams)
    ]


def call(
    worker: Worker, do: str, streams: int, prompt: int, frames: int, first: int = 0
) -> dict[str, Any]:
    """Have one side speak, and make sure that it did the work that was asked for.

    Raises:
        RuntimeError: it read other prompts, or gave other numbers of frames.
    """
    answer = worker.call(do, texts=texts(streams, prompt, first), frames=frames)
    wanted = {"prompts": [prompt] * streams, "frames": [frames] * streams}
    done = {name: answer[name] for name in wanted}
    if done != wanted:
        raise RuntimeError(f"{worker.name} did other work than asked for: {done}, not {wanted}")
    return answer


def run(loaded: LoadedSide, streams: int, prompt: int, frames: int, first: int) -> Round:
    """One round of one side, which takes the texts from number ``first`` on."""
    generated = None
    if loaded.side.generates_apart:
        generated = call(loaded.worker, "generate", streams, prompt, frames, first)
        first += streams
    spoken = call(loaded.worker, "run", streams, prompt, frames, first)
    return Round(streams, frames, (generated or spoken)["generate_s"], spoken["infer_s"])


def load(
    stack: ExitStack, sides: Sequence[Side], folder: Path, threads: int
) -> dict[str, LoadedSide]:
    """Start a child for every side and have it load ``folder``; they end with ``stack``."""
    loaded = {}
    for side in sides:
        worker = stack.enter_context(side.worker(threads))
        answer = worker.call("load", folder=str(folder), threads=threads, **side.load)
        loaded[side.key] = LoadedSide(side, worker, answer)
    return loaded


def in_turns(
    loaded: Mapping[str, LoadedSide], args: argparse.Namespace
) -> Iterator[tuple[int, dict[str, list[Round]]]]:
    """For each number of streams the rounds of every side, which take turns after a warm-up."""
    numbers = itertools.count(step=2 * max(args.streams))
    with tqdm(total=len(args.streams) * (args.rounds + 1), desc="rounds", leave=False) as steps:
        for streams in args.streams:
            rounds: dict[str, list[Round]] = {key: [] for key in loaded}
            first = next(numbers)
            for one in loaded.values():
                run(one, streams, args.prompt, min(_WARM_UP_FRAMES, args.frames), first)
            steps.update()
            for _ in range(args.rounds):
                first = next(numbers)
                for key, one in loaded.items():
                    rounds[key].append(run(one, streams, args.prompt, args.frames, first))
                steps.update()
            yield streams, rounds


def add_arguments(parser: argparse.ArgumentParser, streams: Sequence[int]) -> None:
    """The settings of a run, those that every figure depends on."""
    parser.add_argument("--prompt", type=int, default=50, help="positions of each prompt")
    parser.add_argument("--frames", type=int, default=350, help="new frames of each stream")
    parser.add_argument(
        "--streams", type=int, nargs="+", default=list(streams), help="started together"
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of each side")
    parser.add_argument("--rounds", type=int, default=3, help="timed runs of each side")
    parser.add_argument("--peer-python", type=Path, help="interpreter that has ChatTTS==0.2.5")
    parser.add_argument("--json", type=Path, help="write the whole report here")


def check_arguments(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """End with a message where the settings make no sense."""
    for name in ("prompt", "frames", "threads", "rounds"):
        least = FRAME_OF_PROMPT + 1 if name == "prompt" else 1
        if getattr(args, name) < least:
            parser.error(f"--{name} must be at least {least}")
    if min(args.streams) < 1:
        parser.error("--streams must be at least 1")
    if args.prompt + args.frames > args.positions:
        parser.error(
            f"--prompt and --frames together exceed the model's {args.positions} positions"
        )


def peer_side(python: Path) -> Side:
    """The published package, which computes in float32 on a CPU."""
    return Side("peer", "the published package", "peer.py", {"dtype": "float32"}, python)
