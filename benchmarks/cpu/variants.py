"""Count how often the codes of a seed part between the variants of the CPU kernels.

    python -m benchmarks.cpu.variants --threads 2

Every variant that this processor can run speaks equal requests with equal seeds, in a process of
its own. A sequence has parted from the fastest variant's once a code differs; what follows is
another speech.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch

import ChatTTS
from ChatTTS.errors import ConfigError
from ChatTTS.model.devices.instruction_sets import FORCED, VARIANTS, forced
from ChatTTS.model.draws import DrawKey, Pass
from ChatTTS.model.generation import GenerationRequest
from ChatTTS.model.sampling_params import SamplingParams
from ChatTTS.model.tokenizer import code_prompt

from ..common.command import check_at_least_one, new_parser, origin, write_json
from .precision import TEXTS, load, spoken

_MOST_FRAMES = 400

Codes = list[list[list[int]]]  # by sequence, frame and codebook


def runnable() -> list[str]:
    """Return the names of the variants that this processor can run, the fastest last."""
    names = []
    for variant in VARIANTS:
        try:
            forced({FORCED: variant.name})
        except ConfigError:
            continue
        names.append(variant.name)
    return names


def speak(args: argparse.Namespace) -> Codes:
    """Return the codes of every text and seed, by the kernels of this process."""
    chat = load(args, args.dtype)
    defaults = chat.config.defaults
    voice = defaults.speaker
    speaker = None if voice is None else chat.speaker.vector(defaults.speakers[voice])
    sampling = SamplingParams((0.3,) * chat.config.gpt.num_vq, 0.7, 20, 1.05, 0, _MOST_FRAMES)
    requests = []
    for text in TEXTS:
        decorated = code_prompt(text, "[speed_5]", speaker=speaker is not None)
        prompt = chat.tokenizer.prompt(decorated, speaker=speaker)
        requests += [
            GenerationRequest(prompt, sampling, DrawKey(seed, Pass.CODE))
            for seed in range(args.seeds)
        ]
    return [ids.tolist() for ids, _ in spoken(chat, requests)]


def spoken_by(variant: str, dtype: str, args: argparse.Namespace) -> Codes:
    """Return what :func:`speak` gives in a process with the kernels of ``variant``."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "codes.json"
        command = [sys.executable, "-m", "benchmarks.cpu.variants", "--codes", str(out)]
        command += ["--dtype", dtype, "--seeds", str(args.seeds)]
        if args.threads is not None:
            command += ["--threads", str(args.threads)]
        if args.model is not None:
            command += ["--model", str(args.model)]
        subprocess.run(command, check=True, env=os.environ | {FORCED: variant})
        codes: Codes = json.loads(out.read_text(encoding="utf-8"))
    return codes


def parting(codes: Sequence[Any], others: Sequence[Any]) -> int | None:
    """Return the first frame in which two sequences differ, None where they are equal."""
    pairs = enumerate(zip_longest(codes, others))
    return next((frame for frame, (ours, theirs) in pairs if ours != theirs), None)


def compare(codes: Mapping[str, Codes]) -> dict[str, dict[str, Any]]:
    """Return how the sequences of each variant part from those of the last one."""
    *names, last = codes
    results = {}
    for name in names:
        places = [parting(*pair) for pair in zip(codes[name], codes[last], strict=True)]
        parted = [place for place in places if place is not None]
        results[name] = {
            "sequences": len(places),
            "parted": len(parted),
            "frames_before_parting": statistics.median(parted) if parted else None,
        }
    return results


def parse() -> argparse.Namespace:
    parser = new_parser("cpu.variants", __doc__)
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16", "int8"])
    parser.add_argument("--variants", nargs="+", help="default: all that this processor can run")
    parser.add_argument("--seeds", type=int, default=10, help="of each of the four texts")
    parser.add_argument("--model", type=Path, help="a checkpoint (default: the bundled voice)")
    parser.add_argument("--threads", type=int, help="default: the cores that may be used")
    parser.add_argument("--json", type=Path, help="write the report here")
    parser.add_argument("--codes", type=Path, help="speak in this process alone, and write codes")
    parser.add_argument("--dtype", default="float32", help="with --codes")
    args = parser.parse_args()
    check_at_least_one(parser, args, "seeds")
    return args


def main() -> None:
    args = parse()
    if args.codes is not None:
        args.codes.write_text(json.dumps(speak(args)), encoding="utf-8")
        return
    names = args.variants or runnable()
    results = {}
    for dtype in args.dtypes:
        results[dtype] = compare({name: spoken_by(name, dtype, args) for name in names})
        for name, figures in results[dtype].items():
            print(
                f"{dtype}: {figures['parted']} of {figures['sequences']} sequences of {name} part "
                f"from {names[-1]}, at the median after {figures['frames_before_parting']} frames",
                flush=True,
            )
    versions = {"package": ChatTTS.__version__, "torch": torch.__version__}
    settings = {"seeds": args.seeds, "threads": args.threads, "reference": names[-1]}
    report = {**origin(), "versions": versions, "settings": settings, "results": results}
    write_json(report, args.json)


if __name__ == "__main__":
    main()
