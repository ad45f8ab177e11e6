"""Fine-tune the bundled voice on a voice that it never heard, and measure how near it comes.

    python -m benchmarks.fine_tune --minutes 8 --decoder-steps 600 --json out.json

The voice is one of the teacher's with another throat: its speech, resampled. README.md explains
each figure. It needs the teacher of the bundled voice, peft and pocketsphinx.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import ChatTTS
from ChatTTS.config import Config
from recipes.fine_tune import corpus, decoder, evaluate, export, task
from recipes.fine_tune.run import Run, Settings
from recipes.voice.evaluation import heldout
from recipes.voice.evaluation.subject import Subject
from recipes.voice.evaluation.taught import FOLDER, Taught
from recipes.voice.styles import CAST
from recipes.voice.training import Budget

from .common.command import check_at_least_one, new_parser, origin, write_json
from .voices.codes import compared
from .voices.people import Person, changed_throat, record

_SETTINGS = (
    "voice", "factor", "seconds", "rank", "tokens", "rate", "minutes", "steps", "decoder_steps",
    "decoder_rate", "threads",
)  # fmt: skip
_COMPARED = 3  # sentences of each speaker, with the published package


def write_recordings(
    folder: Path, seconds: float, teacher: Taught, voice: str, factor: float
) -> None:
    """Write sound files with transcripts of about so many seconds."""
    person = Person("unheard", lambda line: changed_throat(teacher, line, voice, factor))
    record(folder, person, heldout.everyday(), seconds)


def measure(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Prepare, train, export, evaluate and merge."""
    torch.set_num_threads(args.threads)
    recordings = folder / "recordings"
    write_recordings(recordings, args.seconds, Taught(args.teacher), args.voice, args.factor)
    settings = Settings(
        str(recordings),
        name="unheard",
        rank=args.rank,
        alpha=2.0 * args.rank,
        tokens=args.tokens,
        rate=args.rate,
        decoder_rate=args.decoder_rate,
    )
    budget = Budget(steps=args.steps, minutes=None if args.steps else args.minutes)
    tuning = Budget(steps=args.decoder_steps)
    run = Run(folder / "run", settings, torch.device("cpu"), budget, decoder_budget=tuning)
    took: dict[str, float] = {}
    results: dict[str, Any] = {}
    tuned = (("decoder", decoder.main),) if args.decoder_steps else ()
    for name, stage in (
        ("prepare", corpus.main),
        ("train", task.main),
        *tuned,
        ("export", export.main),
        ("evaluate", evaluate.main),
        ("merge", export.merge),
    ):
        begin = time.perf_counter()
        found = stage(run)
        took[name] = time.perf_counter() - begin
        if name == "evaluate":
            assert isinstance(found, dict)
            results = found
    if args.peer_python is not None:
        results["published"] = published(run, args.peer_python)
    return {
        **origin(),
        "versions": {
            "package": f"chattts-velocity {ChatTTS.__version__}",
            "python": platform.python_version(),
            "torch": torch.__version__,
        },
        "settings": {name: getattr(args, name) for name in _SETTINGS},
        "seconds": {name: round(value, 1) for name, value in took.items()},
        "results": results,
    }


def published(run: Run, peer: Path) -> dict[str, Any]:
    """Compare codes of the merged checkpoint with those that the published package gives.

    The new voice and the base's own ones speak recordings' texts.
    """
    merged = Subject(run.out / export.MERGED)
    known = Config.from_file(merged.asset / "config.json").defaults.speakers
    found = corpus.Corpus.read(corpus.path_of(run))
    lines = [line.text for line in (*found.own_held, *found.own)][:_COMPARED]
    return compared(merged, lines, list(known.values()), peer, run.out / "float32")


def table(report: dict[str, Any]) -> str:
    """Return the report as plain text."""
    results = report["results"]
    machine = report["machine"]
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}",
        ", ".join(f"{name} {value}" for name, value in report["versions"].items()),
        ", ".join(f"{name} {value}" for name, value in report["settings"].items()),
        ", ".join(f"{name} {value} s" for name, value in report["seconds"].items()),
        "",
        f"nats a code: {results['nats_per_code']}",
        f"likeness to the recordings: {results['likeness_to_recordings']}",
        f"likeness to their copies through the codec: {results['likeness_to_copies']}",
        f"word error rate: {results['word_error_rate']}",
    ]
    for name in ("mel_distance", "published"):
        if name in results:
            lines.append(f"{name.replace('_', ' ')}: {results[name]}")
    lines += [f"old voice {name}: {found}" for name, found in results["old_voices"].items()]
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    parser = new_parser("fine_tune", __doc__)
    parser.add_argument("--voice", choices=CAST, default="clara", help="of the teacher")
    parser.add_argument("--factor", type=float, default=1.15, help="of pitch and formants")
    parser.add_argument("--seconds", type=float, default=90, help="of recordings")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=1536, help="of a step of training")
    parser.add_argument("--rate", type=float, default=2e-3, help="of learning")
    parser.add_argument("--minutes", type=float, default=8, help="of training")
    parser.add_argument("--steps", type=int, help="of training, in place of minutes")
    parser.add_argument("--decoder-steps", type=int, help="tune the Decoder too, for so many steps")
    parser.add_argument("--decoder-rate", type=float, default=3e-4, help="of that")
    parser.add_argument("--teacher", type=Path, default=FOLDER, help="folder with teacher/")
    parser.add_argument("--peer-python", type=Path, help="one that has the published package")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=Path, help="keep everything here")
    parser.add_argument("--json", type=Path, help="write the whole report here")
    args = parser.parse_args()
    check_at_least_one(parser, args, "rank", "tokens", "threads")
    return args


def main() -> None:
    args = parse()
    with tempfile.TemporaryDirectory(prefix="chattts-tuned-") as folder:
        report = measure(args, args.folder or Path(folder))
    print(table(report))
    write_json(report, args.json)


if __name__ == "__main__":
    main()
