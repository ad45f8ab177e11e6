"""Time steps of the engine with adapters: two adapters and none in one batch against none.

    python -m benchmarks.cpu.adapters --threads 2 --json out.json

The random model has the published sizes. README.md explains each figure.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

import ChatTTS
from ChatTTS.model.draws import DrawKey, Pass
from ChatTTS.model.generation import GenerationRequest
from ChatTTS.model.llama.config import read_llama_shape
from ChatTTS.model.sampling_params import SamplingParams
from ChatTTS.model.tokenizer import Prompt
from ChatTTS.model.velocity.configs import EngineArgs
from ChatTTS.model.velocity.llm_engine import LLMEngine

from ..common.command import check_at_least_one, check_positions, new_parser, origin, write_json
from ..common.random_adapter import save_adapter
from ..common.random_checkpoint import add_size_arguments, config_from, write_checkpoint

# The adapters of the streams, by turns.
_MIXES: dict[str, tuple[str | None, ...]] = {
    "none": (None,),
    "one": ("anna",),
    "two and none": (None, "anna", "bert"),
}
_SETTINGS = ("layers", "hidden", "rank", "streams", "prompt", "frames", "threads", "rounds")
Codes = dict[int, list[list[int]]]


def requests_of(args: argparse.Namespace, mix: Sequence[str | None]) -> list[GenerationRequest]:
    """Return a request for each stream; a stream's draws do not depend on the others."""
    num_codebooks = 4
    sampling = SamplingParams((0.3,) * num_codebooks, 0.7, 20, 1.05, args.frames, args.frames)
    return [
        GenerationRequest(
            Prompt(
                np.arange(number, number + args.prompt) % args.text_tokens,
                np.zeros((0, 0), np.int64),
                None,
                np.zeros(args.prompt, np.bool_),
            ),
            sampling,
            DrawKey(number, Pass.CODE),
            adapter=mix[number % len(mix)],
            request_id=f"stream-{number}",
        )
        for number in range(args.streams)
    ]


def run(engine: LLMEngine, requests: Sequence[GenerationRequest]) -> tuple[float, Codes]:
    """Run requests side by side.

    Returns:
        The median seconds of a step in which all streams gain a frame, and the codes of each.
    """
    engine.add(requests)
    numbers = {request.request_id: i for i, request in enumerate(requests)}
    codes: Codes = {i: [] for i in numbers.values()}
    steps: list[float] = []
    while engine.has_unfinished_requests():
        start = time.perf_counter()
        outputs = engine.step()
        took = time.perf_counter() - start
        if len(outputs) == len(requests):
            steps.append(took)
        for output in outputs:
            for delta in output.deltas:
                codes[numbers[output.request_id]] += delta.ids.tolist()
    return median(steps), codes


def measure(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Time every mix in every precision, the mixes by turns."""
    torch.set_num_threads(args.threads)
    config = config_from(args)
    write_checkpoint(folder, config, args.seed)
    shape = read_llama_shape(folder / "asset" / "gpt" / "config.json", config.gpt)
    adapters = {
        name: save_adapter(folder / name, shape, seed, args.rank)
        for seed, name in enumerate(("anna", "bert"))
    }
    kinds = {kind: _measured(args, folder, adapters, kind) for kind in args.kinds}
    return {
        **origin(),
        "versions": {
            "package": f"chattts-velocity {ChatTTS.__version__}",
            "python": platform.python_version(),
            "torch": torch.__version__,
        },
        "settings": {name: getattr(args, name) for name in _SETTINGS},
        "adapter_bytes": sum(f.stat().st_size for f in adapters["anna"].glob("*.safetensors")),
        "kinds": kinds,
    }


def _measured(
    args: argparse.Namespace, folder: Path, adapters: dict[str, Path], kind: str
) -> dict[str, Any]:
    def engine(**options: Any) -> LLMEngine:
        return LLMEngine.from_engine_args(
            EngineArgs(
                folder,
                dtype=kind,
                device="cpu",
                num_threads=args.threads,
                enable_prefix_caching=False,
                kv_memory=f"{args.streams} sequences",
                **options,
            )
        )

    plain = engine()
    loaded = engine(adapters=adapters)
    seconds: dict[str, list[float]] = {"not loaded": [], **{name: [] for name in _MIXES}}
    codes: dict[str, Codes] = {}
    for _ in tqdm(range(args.rounds + 1), desc=kind, leave=False):  # the first is the warm-up
        took, codes["not loaded"] = run(plain, requests_of(args, (None,)))
        seconds["not loaded"].append(took)
        for name, mix in _MIXES.items():
            took, codes[name] = run(loaded, requests_of(args, mix))
            seconds[name].append(took)
    whole = requests_of(args, _MIXES["two and none"])
    alone = {i: run(loaded, [request])[1][0] for i, request in enumerate(whole)}
    plain.close()
    loaded.close()
    return {
        "step_s": {name: median(own[1:]) for name, own in seconds.items()},
        "rounds": {name: own[1:] for name, own in seconds.items()},
        "rows_equal_lone_runs": codes["two and none"] == alone,
        "rows_without_equal_plain_engine": all(
            codes["two and none"][i] == codes["not loaded"][i]
            for i, request in enumerate(whole)
            if request.adapter is None
        ),
    }


def table(report: dict[str, Any]) -> str:
    """Return the report as plain text."""
    machine = report["machine"]
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}",
        ", ".join(f"{name} {value}" for name, value in report["versions"].items()),
        ", ".join(f"{name} {value}" for name, value in report["settings"].items()),
        "",
        "precision  adapters       ms a step  cost   (least, most)",
    ]
    for kind, result in report["kinds"].items():
        base = result["step_s"]["not loaded"]
        for name, seconds in result["step_s"].items():
            own = [1e3 * each for each in result["rounds"][name]]
            lines.append(
                f"{kind:<9}  {name:<13}  {1e3 * seconds:9.1f}  {100 * (seconds / base - 1):4.1f} %"
                f"  ({min(own):.1f}, {max(own):.1f})"
            )
        lines.append(
            f"{kind:<9}  each row as in its lone run: {result['rows_equal_lone_runs']}; rows "
            f"without as on the plain engine: {result['rows_without_equal_plain_engine']}"
        )
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    parser = new_parser("cpu.adapters", __doc__)
    add_size_arguments(parser)
    parser.add_argument("--kinds", nargs="+", default=["float32", "int8"], help="precisions")
    parser.add_argument("--rank", type=int, default=16, help="of each product")
    parser.add_argument("--streams", type=int, default=16, help="side by side")
    parser.add_argument("--prompt", type=int, default=30, help="positions of each prompt")
    parser.add_argument("--frames", type=int, default=24, help="of each stream in a round")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3, help="timed runs of each mix")
    parser.add_argument("--json", type=Path, help="write the whole report here")
    args = parser.parse_args()
    names = ("rank", "streams", "prompt", "frames", "threads", "rounds")
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
