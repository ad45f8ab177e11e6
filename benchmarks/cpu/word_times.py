"""Compare `infer` with word times and without, in turns: the cost of a step.

    python -m benchmarks.cpu.word_times --threads 2 --streams 1 8 16

The checkpoint is random, with the published sizes. Four heads give their attention. The step
includes the engine, the decoders, and the alignment of words.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ChatTTS.core import Chat

from ..common.command import check_at_least_one, new_parser, origin, write_json
from ..common.random_checkpoint import add_size_arguments, config_from, temporary_checkpoint

_TEXTS = (
    "we went to the market to buy some bread.",
    "the children are playing in the garden.",
    "she wants to read the new book.",
    "please close the door and open the window.",
)
_HEADS = 4


def step_ms(chat: Chat, streams: int, frames: int, seed: int, *, word_times: bool) -> float:
    """Return the milliseconds of a step, while ``streams`` texts are spoken together."""
    texts = [_TEXTS[number % len(_TEXTS)] for number in range(streams)]
    begin = time.perf_counter()
    chat.infer(
        texts,
        skip_refine_text=True,
        split_text=False,
        word_times=word_times,
        params_infer_code={
            "manual_seed": seed,
            "min_new_token": frames,
            "max_new_token": frames,
            "show_tqdm": False,
        },
    )
    return 1000 * (time.perf_counter() - begin) / frames


def in_turns(chat: Chat, streams: int, args: argparse.Namespace) -> dict[str, Any]:
    """Return the steps of all rounds, and the ratio of each round; the first round warms up."""
    plain: list[float] = []
    timed: list[float] = []
    for number in tqdm(range(args.rounds + 1), desc=f"{streams} streams", leave=False):
        for with_words in (False, True) if number % 2 else (True, False):
            step = step_ms(chat, streams, args.frames, number, word_times=with_words)
            (timed if with_words else plain).append(step)
    ratios = [b / a for a, b in zip(plain[1:], timed[1:], strict=True)]
    return {
        "streams": streams,
        "step_ms": {"without": plain[1:], "with": timed[1:]},
        "ratio": {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)},
        "added_ms": statistics.median(timed[1:]) - statistics.median(plain[1:]),
    }


def main() -> None:
    parser = new_parser("cpu.word_times", __doc__)
    add_size_arguments(parser)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 8, 16])
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "int8"), default="float32")
    parser.add_argument("--frames", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the report here")
    args = parser.parse_args()
    check_at_least_one(parser, args, "streams", "frames", "rounds", "threads")
    config = config_from(args)
    with temporary_checkpoint(config, args.seed) as folder:
        layers = [
            (number + 1) * config.gpt.num_hidden_layers // (_HEADS + 1) for number in range(_HEADS)
        ]
        defaults = {"alignment_heads": [[layer, 0] for layer in layers]}
        file = folder / "asset" / "config.json"
        known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        file.write_text(json.dumps({**known, "defaults": defaults}), encoding="utf-8")
        chat = Chat()
        chat.load_or_raise(
            "custom",
            custom_path=folder,
            device="cpu",
            use_vllm=True,
            dtype=args.dtype,
            num_threads=args.threads,
        )
        results = [in_turns(chat, streams, args) for streams in args.streams]
    for result in results:
        ratio, steps = result["ratio"], result["step_ms"]
        print(
            f"{result['streams']} streams: {statistics.median(steps['without']):.2f} ms a step, "
            f"{statistics.median(steps['with']):.2f} with word times: {ratio['median']:.3f} times "
            f"({ratio['min']:.3f} to {ratio['max']:.3f})"
        )
    write_json({**origin(), "results": results}, args.json)


if __name__ == "__main__":
    main()
