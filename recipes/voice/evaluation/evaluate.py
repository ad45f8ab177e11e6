"""The evaluation of the voice: every claim about it as a number, measured on velocity.

python -m recipes.voice.evaluation.evaluate --checkpoint DIR --out DIR/evaluation
python -m recipes.voice.evaluation.evaluate --parts everyday speed --count 20
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import behaviour, intelligibility, voice_similarity
from .report import write_report
from .subject import Result, Subject
from .taught import FOLDER, Taught

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Part:
    """One measurement, and its number of sentences, requests or speakers."""

    measure: Callable[[Subject, int], Result]
    count: int


PARTS = {
    "everyday": Part(intelligibility.everyday, 200),
    "rare": Part(intelligibility.rare, 100),
    "strung": Part(intelligibility.strung, 12),
    "voices": Part(intelligibility.voices, 200),
    "similarity": Part(voice_similarity.similarity, 30),
    "random": Part(intelligibility.random_speakers, 20),
    "speed": Part(behaviour.speed, 40),
    "pauses": Part(behaviour.pauses, 50),
    "laughs": Part(behaviour.laughs, 30),
    "borders": Part(behaviour.borders, 20),
    "requests": Part(behaviour.requests, 1000),
    "refining": Part(behaviour.refining, 50),
    "exactness": Part(behaviour.exactness, 10),
    "rate": Part(behaviour.rate, 20),
}


def evaluate(
    subject: Subject, out: Path, parts: Sequence[str] | None = None, count: int | None = None
) -> dict[str, Result]:
    """Measure ``parts``, and write ``results.json``, ``table.md`` and pictures.

    Earlier results of this checkpoint in ``results.json`` are kept. Results of another checkpoint
    are moved to another file.

    Args:
        parts: names of the parts to measure, again if need be; by default all missing ones.
        count: limit of the sentences, requests or speakers of each part.
    """
    path = out / "results.json"
    out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Result] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    known = results.get("checkpoint", {}).get("checksum", "unknown")
    if known != subject.checksum:
        if results:
            other = path.with_name(f"results-{known}.json")
            os.replace(path, other)
            logger.warning("results of another checkpoint are in %s now", other)
        results = {"checkpoint": {"checksum": subject.checksum, "counts": {}}}
    counts = results["checkpoint"]["counts"]
    numbers = {name: min(part.count, count or part.count) for name, part in PARTS.items()}
    missing = [name for name in PARTS if counts.get(name) != numbers[name]]
    for name in missing if parts is None else parts:
        begin = time.monotonic()
        results[name] = PARTS[name].measure(subject, numbers[name])
        counts[name] = numbers[name]
        logger.info("%s: %s (%.0f s)", name, results[name], time.monotonic() - begin)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        os.replace(partial, path)
    write_report(results, out)
    return results


def _command() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m recipes.voice.evaluation.evaluate",
        description=(__doc__ or "").split("\n")[0],
    )
    parser.add_argument(
        "--checkpoint",
        type=Path,
        help="folder that holds asset/ (default: the voice in the package)",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("evaluation"), help="folder of the results"
    )
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=PARTS,
        help="what to measure (default: all that was not measured of this checkpoint yet)",
    )
    parser.add_argument("--count", type=int, help="sentences of a part at most")
    parser.add_argument("--workers", type=int, help="processes that recognise (default: all cores)")
    parser.add_argument(
        "--teacher", type=Path, default=FOLDER, help="folder that holds teacher/ (%(default)s)"
    )
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    subject = Subject(given.checkpoint, given.workers, teacher=Taught(given.teacher))
    evaluate(subject, given.out, given.parts, given.count)


if __name__ == "__main__":
    _command()
