"""Compare velocity's generation with llama.cpp's, in turns, at each width of weights.

    python -m benchmarks.cpu.llama_cpp --bin llama.cpp/b/bin --gguf-python llamacpp/bin/python

README.md says how to build llama.cpp. Both have random weights of the published size. A frame of
velocity draws four codes; a token of llama.cpp draws one of a vocabulary as large as all four.
``--peer-python`` takes the published package into the turns. ``--kernels`` forces velocity's; a
llama.cpp that was built for those instructions makes the comparison fair.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from tqdm import tqdm

from ChatTTS.model.devices.instruction_sets import FORCED

from ..common.child import ChildProcess
from ..common.command import check_at_least_one, new_parser, origin, write_json
from ..common.comparison import LoadedSide, Side, call, load, peer_side
from ..common.random_checkpoint import add_size_arguments, config_from, temporary_checkpoint
from ..common.step_limit import Rates, StepWork

_GGUF = Path(__file__).parents[1] / "common" / "random_gguf.py"
# The kinds of weights of llama.cpp, by velocity's dtype.
_KINDS = {"float32": "F32", "bfloat16": "BF16", "int8": "Q8_0"}
_BATCH, _MICRO_BATCH = 2048, 512
_WARM_UP_FRAMES = 8
_PEER = "peer"


def write_models(args: argparse.Namespace, folder: Path) -> dict[str, Path]:
    """Write the random Llama in each kind of weights; return the files by velocity's dtype."""
    whole = folder / "F32.gguf"
    _run(str(args.gguf_python), str(_GGUF), str(whole))
    files = {}
    for dtype in args.dtypes:
        kind = _KINDS[dtype]
        files[dtype] = folder / f"{kind}.gguf"
        if files[dtype] != whole:
            _run(str(args.bin / "llama-quantize"), str(whole), str(files[dtype]), kind)
    return files


def tokens_per_second(model: Path, streams: int, args: argparse.Namespace) -> float:
    """Return the tokens that all streams of llama.cpp generate in a second, with the prompts."""
    context = streams * (args.prompt + args.frames) + _MICRO_BATCH
    said = _run(
        *(str(args.bin / "llama-batched-bench"), "-m", str(model), "-c", str(context)),
        *("-b", str(_BATCH), "-ub", str(_MICRO_BATCH)),
        *("-npp", str(args.prompt), "-ntg", str(args.frames), "-npl", str(streams)),
        *("-t", str(args.threads), "-tb", str(args.threads), "-fa", "on"),
        *("--output-format", "jsonl"),
    )
    lines = [line for line in said.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(f"llama-batched-bench measured nothing; it printed:\n{said[-2000:]}")
    found: dict[str, Any] = json.loads(lines[-1])
    if (found["pl"], found["pp"], found["tg"]) != (streams, args.prompt, args.frames):
        raise RuntimeError(f"llama-batched-bench did other work than asked for: {found}")
    return float(streams * args.frames / found["t"])


def frames_per_second(
    loaded: LoadedSide, streams: int, prompt: int, frames: int, first: int
) -> float:
    """Return the frames that all streams of a side generate in a second, with the prompts."""
    do = "generate" if loaded.side.generates_separately else "run"
    answer = call(loaded.child, do, streams, prompt, frames, first)
    return float(streams * frames / answer["generate_s"])


def measure(args: argparse.Namespace, folder: Path, files: Mapping[str, Path]) -> dict[str, Any]:
    """Measure all numbers of streams; only one process computes at a time."""
    config = config_from(args)
    environment = {FORCED: args.kernels} if args.kernels else {}
    with ChildProcess(
        "the limits",
        Path(sys.executable),
        "benchmarks.cpu.machine_limits",
        args.threads,
        environment,
    ) as child:
        limits = child.call("measure", threads=args.threads, megabytes=512, passes=5)
    if args.kernels:
        for rates in limits["product_gflop_s"].values():
            rates.pop("torch", None)  # not forced to those instructions
    sides = [
        Side(
            dtype,
            f"velocity {dtype}",
            "benchmarks.cpu.velocity.child",
            {"dtype": dtype, "use_vllm": True, "kv_memory": args.kv_memory},
            environment=environment,
            generates_separately=True,
        )
        for dtype in args.dtypes
    ]
    if args.peer_python is not None:
        sides.append(peer_side(args.peer_python))
    results: list[dict[str, Any]] = []
    peers: list[dict[str, Any]] = []
    first = 0
    with ExitStack() as stack:
        loaded = load(stack, sides, folder, args.threads)
        for one in loaded.values():
            frames_per_second(one, max(args.streams), args.prompt, _WARM_UP_FRAMES, first)
        first += max(args.streams)
        total = len(args.streams) * args.rounds * len(loaded)
        with tqdm(total=total, desc="rounds", leave=False) as bar:
            for streams in args.streams:
                ours: dict[str, list[float]] = {key: [] for key in loaded}
                others: dict[str, list[float]] = {dtype: [] for dtype in args.dtypes}
                for _ in range(args.rounds):
                    for key, one in loaded.items():
                        ours[key].append(
                            frames_per_second(one, streams, args.prompt, args.frames, first)
                        )
                        if key in files:
                            others[key].append(tokens_per_second(files[key], streams, args))
                        bar.update()
                    first += streams
                if _PEER in loaded:
                    peers.append({"streams": streams, "frames_per_s": ours[_PEER]})
                for dtype in args.dtypes:
                    stored = loaded[dtype].child.call("sizes")["dtype"]
                    work = StepWork.of(config.gpt, dtype, stored)
                    limit = work.limit(Rates.of(limits, dtype), streams, args.prompt, args.frames)
                    results.append(
                        _result(streams, dtype, ours[dtype], others[dtype], limit["step_ms"])
                    )
    kernels = {"kernels": args.kernels} if args.kernels else {}
    return {**origin(), **kernels, "limits": limits, "results": results, "published": peers}


def _result(
    streams: int, dtype: str, ours: list[float], others: list[float], limit_ms: float
) -> dict[str, Any]:
    ratios = [own / other for own, other in zip(ours, others, strict=True)]
    step_ms = 1000 * streams / median(ours)
    return {
        "streams": streams,
        "dtype": dtype,
        "velocity_frames_per_s": ours,
        "llama_cpp_tokens_per_s": others,
        "ratio": {"median": median(ratios), "min": min(ratios), "max": max(ratios)},
        "step_ms": step_ms,
        "limit_ms": limit_ms,
        "factor": step_ms / limit_ms,
    }


def table(report: Mapping[str, Any]) -> str:
    """Return the report as a table in Markdown."""
    lines = [
        "| streams | velocity | frames/s | llama.cpp | tokens/s | ratio | step, ms | over limit |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {each['streams']} | {each['dtype']} | {median(each['velocity_frames_per_s']):.0f} | "
        f"{_KINDS[each['dtype']]} | {median(each['llama_cpp_tokens_per_s']):.0f} | "
        f"{each['ratio']['median']:.2f} | {each['step_ms']:.1f} | {each['factor']:.2f} |"
        for each in report["results"]
    ]
    lines += [
        f"| {each['streams']} | the published package | {median(each['frames_per_s']):.0f} "
        "| | | | | |"
        for each in report["published"]
    ]
    return "\n".join(lines)


def _run(*command: str) -> str:
    """Run a program and return its output.

    Raises:
        SystemExit: it failed; the message has its last lines.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def main() -> None:
    parser = new_parser("cpu.llama_cpp", __doc__)
    add_size_arguments(parser)
    parser.add_argument("--bin", type=Path, required=True, help="folder of llama.cpp's programs")
    parser.add_argument(
        "--gguf-python", type=Path, required=True, help="interpreter with the package gguf"
    )
    parser.add_argument("--dtypes", nargs="+", choices=_KINDS, default=list(_KINDS))
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 4, 8, 16, 32, 64])
    parser.add_argument("--prompt", type=int, default=50, help="positions of each prompt")
    parser.add_argument("--frames", type=int, default=350, help="new frames of each stream")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kv-memory", default="4GB", help="of velocity's KV cache")
    parser.add_argument("--peer-python", type=Path, help="interpreter that has ChatTTS==0.2.5")
    parser.add_argument("--kernels", metavar="VARIANT", help="of velocity, such as x86-64-v3")
    parser.add_argument("--json", type=Path, help="write the report here")
    args = parser.parse_args()
    check_at_least_one(parser, args, "streams", "frames", "threads", "rounds")
    with temporary_checkpoint(config_from(args), args.seed) as folder:
        report = measure(args, folder, write_models(args, folder))
    print(table(report))
    write_json(report, args.json)


if __name__ == "__main__":
    main()
