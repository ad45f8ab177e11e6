"""Time the engine with a long queue: the cost of a request must not depend on the queue's length.

    python -m benchmarks.cpu.many_requests --threads 2 --json out.json

The random model is tiny, so that the time is that of the engine's bookkeeping. README.md explains
each figure.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

import ChatTTS
from ChatTTS.model.draws import DrawKey, Pass
from ChatTTS.model.generation import GenerationRequest
from ChatTTS.model.sampling_params import SamplingParams
from ChatTTS.model.tokenizer import Prompt
from ChatTTS.model.velocity.configs import EngineArgs
from ChatTTS.model.velocity.llm_engine import LLMEngine

from ..common.command import check_at_least_one, check_positions, new_parser, origin, write_json
from ..common.random_checkpoint import add_size_arguments, config_from, write_checkpoint

# The default sizes are those of a model that takes almost no time.
_TINY = {
    "layers": 2,
    "hidden": 64,
    "heads": 4,
    "intermediate": 128,
    "positions": 256,
    "text_tokens": 400,
    "audio_layers": 1,
}
_POLICIES = ("fcfs", "priority")
_WARM_UP_REQUESTS = 20
_SETTINGS = ("layers", "hidden", "prompt", "frames", "running", "threads", "rounds", "kv_memory")


@dataclass(frozen=True)
class Run:
    """Seconds a request of adding and of running, where all are queued before the first step."""

    add_s: float
    run_s: float

    @property
    def request_s(self) -> float:
        """Seconds a request in all."""
        return self.add_s + self.run_s


class Requests:
    """Makes requests with no common prefix, so that the prefix cache is of no use."""

    def __init__(self, prompt: int, frames: int, tokens: int, num_codebooks: int) -> None:
        self._numbers = itertools.count()
        self._prompt, self._tokens = prompt, tokens
        # The package's own settings of code generation, but without an end of sequence.
        self._sampling = SamplingParams((0.3,) * num_codebooks, 0.7, 20, 1.05, frames, frames)
        self._priorities = random.Random(0)

    def take(self, count: int) -> list[GenerationRequest]:
        """Return ``count`` new requests of random priority."""
        return [self._one(number) for number in itertools.islice(self._numbers, count)]

    def _one(self, number: int) -> GenerationRequest:
        digits = [number // self._tokens**place % self._tokens for place in range(self._prompt)]
        text = np.array(digits, dtype=np.int64)
        prompt = Prompt(text, np.zeros((0, 0), np.int64), None, np.zeros(len(text), np.bool_))
        key = DrawKey(number, Pass.CODE)
        return GenerationRequest(
            prompt,
            self._sampling,
            key,
            request_id=f"request-{number}",
            priority=self._priorities.randrange(10),
        )


def run(engine: LLMEngine, requests: Sequence[GenerationRequest]) -> Run:
    """Queue ``requests`` one by one, then step until all are done.

    Raises:
        RuntimeError: a request did not run to its last frame.
    """
    count = len(requests)
    before = engine.metrics().requests_at_limit
    start = time.perf_counter()
    for request in requests:
        engine.add([request])
    added = time.perf_counter()
    while engine.has_unfinished_requests():
        engine.step()
    done = time.perf_counter()
    ended = engine.metrics().requests_at_limit - before
    if ended != count:
        raise RuntimeError(f"{ended} of {count} requests ran to their last frame")
    return Run((added - start) / count, (done - added) / count)


def measure(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Time every policy and every number of requests, the numbers by turns."""
    torch.set_num_threads(args.threads)
    config = config_from(args)
    write_checkpoint(folder, config, args.seed)
    policies = {}
    for policy in _POLICIES:
        engine = LLMEngine.from_engine_args(
            EngineArgs(
                model=folder,
                policy=policy,
                device="cpu",
                num_threads=args.threads,
                max_num_seqs=args.running,
                kv_memory=args.kv_memory,
            )
        )
        requests = Requests(args.prompt, args.frames, config.gpt.num_text_tokens, config.gpt.num_vq)
        run(engine, requests.take(_WARM_UP_REQUESTS))
        runs: dict[int, list[Run]] = {count: [] for count in args.requests}
        for count in _turns(args, policy):
            runs[count].append(run(engine, requests.take(count)))
        engine.close()
        policies[policy] = _result(runs)
    return {
        **origin(),
        "versions": {
            "package": f"chattts-velocity {ChatTTS.__version__}",
            "python": platform.python_version(),
            "torch": torch.__version__,
        },
        "settings": {name: getattr(args, name) for name in _SETTINGS},
        "policies": policies,
    }


def _turns(args: argparse.Namespace, policy: str) -> Iterator[int]:
    order = list(args.requests) * args.rounds
    yield from tqdm(order, desc=policy, leave=False)


def _result(runs: dict[int, list[Run]]) -> dict[str, Any]:
    """Return the medians by number of requests, and how much they differ."""
    middles = {count: median(r.request_s for r in own) for count, own in runs.items()}
    return {
        "request_s": middles,
        "add_s": {count: median(r.add_s for r in own) for count, own in runs.items()},
        "spread": max(middles.values()) / min(middles.values()) - 1,
        "rounds": {count: [asdict(r) for r in own] for count, own in runs.items()},
    }


def table(report: dict[str, Any]) -> str:
    """Return the report as plain text."""
    machine = report["machine"]
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}",
        ", ".join(f"{name} {value}" for name, value in report["versions"].items()),
        ", ".join(f"{name} {value}" for name, value in report["settings"].items()),
        "",
        "policy    requests  us each  of it queueing  (least, most)",
    ]
    for policy, result in report["policies"].items():
        for count, seconds in result["request_s"].items():
            own = [1e6 * (r["add_s"] + r["run_s"]) for r in result["rounds"][count]]
            lines.append(
                f"{policy:<8}  {count:>8}  {1e6 * seconds:7.0f}  "
                f"{1e6 * result['add_s'][count]:14.1f}  ({min(own):.0f}, {max(own):.0f})"
            )
        lines.append(f"{policy:<8}  spread {100 * result['spread']:.0f} %")
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    parser = new_parser("cpu.many_requests", __doc__)
    add_size_arguments(parser)
    parser.set_defaults(**_TINY)
    parser.add_argument(
        "--requests", type=int, nargs="+", default=[100, 1000, 10_000], help="queued at once"
    )
    parser.add_argument("--prompt", type=int, default=10, help="positions of each prompt")
    parser.add_argument("--frames", type=int, default=4, help="new frames of each request")
    # Few, so that the last steps, which are not full, take little of the time.
    parser.add_argument("--running", type=int, default=8, help="requests side by side at most")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3, help="timed runs of each number")
    parser.add_argument("--kv-memory", default="16MB", help="of the KV cache")
    parser.add_argument("--json", type=Path, help="write the whole report here")
    args = parser.parse_args()
    names = ("prompt", "frames", "running", "threads", "rounds", "requests")
    check_at_least_one(parser, args, *names)
    check_positions(parser, args)
    return args


def main() -> None:
    args = parse()
    with tempfile.TemporaryDirectory(prefix="chattts-random-") as folder:
        report = measure(args, Path(folder))
    print(table(report))
    write_json(report, args.json)


if __name__ == "__main__":
    main()
