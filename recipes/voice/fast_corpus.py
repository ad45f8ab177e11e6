"""The command ``python -m recipes.voice.fast_corpus``: the corpus from the teacher on a GPU.

    python -m recipes.voice.fast_corpus --out build/voice --pack               # once, anywhere
    python -m recipes.voice.fast_corpus --out build/voice --first 300 --seconds 100

The first writes ``teacher.npz`` and ``voices.npz``, 60 MB together, which are all of the teacher
that the second needs beside ``lines/`` and ``teacher/vocab.json``. Shards are those that the stage
``speech`` would make.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from .corpus import SHARD, Plan, read_lines
from .fast_teacher import FastTeacher, take_of
from .fast_weights import VOICES_FILE, WEIGHTS_FILE, pack, pack_voices
from .styles import StyleSpace
from .takes import Take, is_whole, write_shard
from .teacher import assemble, style_tables

logger = logging.getLogger(__name__)

_TOGETHER = 32  # shards of a round; the more there are, the more even are the batches


def speak(
    teacher: FastTeacher,
    plan: Plan,
    folder: Path,
    first: int,
    shards: int,
    seconds: float,
    together: int = _TOGETHER,
) -> float:
    """Speak the shards that are missing in ``folder``, as long as another round fits in.

    Args:
        teacher: who speaks.
        plan: what is spoken.
        folder: of the takes.
        first: the first shard.
        shards: number of the shard after the last.
        seconds: of the wall, that all may take.
        together: shards of a round.

    Returns:
        The seconds of speech.
    """
    began = time.monotonic()
    missing = [shard for shard in range(first, shards) if not is_whole(folder, shard)]
    longest = spoken = 0.0
    written: list[Future[float]] = []
    with ThreadPoolExecutor() as pool:
        for start in range(0, len(missing), together):
            since = time.monotonic()
            if since - began + longest > seconds:
                break
            writing = _round(teacher, plan, folder, missing[start : start + together], pool)
            spoken += sum(shard.result() for shard in written)
            written = writing
            # The first round also waits for libraries to load, but it is the only one to go by.
            longest = time.monotonic() - since
            logger.info("shards to %d: %.1f s", missing[start : start + together][-1], longest)
        spoken += sum(shard.result() for shard in written)
    return spoken


def _round(
    teacher: FastTeacher, plan: Plan, folder: Path, shards: Sequence[int], pool: ThreadPoolExecutor
) -> list[Future[float]]:
    """Speak shards, and return the seconds of each, which are there when it is written."""
    requests = [plan[shard * SHARD + place] for shard in shards for place in range(SHARD)]
    takes: dict[int, Future[Take]] = {}
    sounds = teacher.sounds(
        [request.line for request in requests],
        np.stack([request.weights for request in requests]),
        [request.pace for request in requests],
    )
    for row, samples, frames in sounds:
        request = requests[row]
        takes[row] = pool.submit(
            take_of, request.line, request.weights, request.pace, samples, frames
        )
    return [
        pool.submit(_write, folder, shard, [takes[index * SHARD + n] for n in range(SHARD)])
        for index, shard in enumerate(shards)
    ]


def _write(folder: Path, shard: int, takes: Sequence[Future[Take]]) -> float:
    whole = [take.result() for take in takes]
    write_shard(folder, shard, whole)
    return sum(take.seconds for take in whole)


def main(argv: Sequence[str] | None = None) -> int:
    """Pack the teacher, or speak; return the exit status.

    Args:
        argv: the arguments after the program's name; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m recipes.voice.fast_corpus", description="Speak the corpus on a GPU."
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for everything made")
    parser.add_argument("--pack", action="store_true", help="write the teacher's two files, only")
    parser.add_argument("--speech", type=Path, help="folder of the takes (default OUT/speech)")
    parser.add_argument("--first", type=int, default=0, help="first shard")
    parser.add_argument("--shards", type=int, default=100_000, help="the shard after the last")
    parser.add_argument("--seconds", type=float, default=100.0, help="of the wall (%(default)g)")
    parser.add_argument("--together", type=int, default=_TOGETHER, help="shards of a round")
    parser.add_argument("--seed", type=int, default=1, help="of the corpus (default %(default)s)")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--kind", default="float32", choices=("float32", "float16", "bfloat16"))
    parser.add_argument("--compile", action="store_true", help="compile what is between layers")
    args = parser.parse_args(argv)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr, force=True
    )
    weights, voices = args.out / WEIGHTS_FILE, args.out / VOICES_FILE
    symbols = args.out / "teacher" / "vocab.json"
    if args.pack:
        assemble(args.out / "teacher.onnx")
        pack(args.out / "teacher.onnx", weights)
        pack_voices(style_tables(args.out / "teacher" / "voices"), voices)
        return 0
    # Where most convolutions are narrower anyway, pitch and durations can be precise.
    torch.backends.cudnn.allow_tf32 = args.kind == "float32"
    teacher = FastTeacher(
        weights,
        symbols,
        voices,
        torch.device(args.device),
        getattr(torch, args.kind),
        compiled=args.compile,
    )
    plan = Plan(args.seed, read_lines(args.out / "lines"), StyleSpace.of(teacher.tables))
    began = time.monotonic()
    spoken = speak(
        teacher,
        plan,
        args.speech or args.out / "speech",
        args.first,
        args.shards,
        args.seconds,
        args.together,
    )
    passed = time.monotonic() - began
    logger.info(
        "%.2f hours of speech in %.1f s, %.0f times", spoken / 3600, passed, spoken / passed
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
