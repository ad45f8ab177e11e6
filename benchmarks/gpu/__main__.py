"""Check the CUDA code on a GPU and time it: each part in a process of its own, within a limit.

    python -m benchmarks.gpu --seconds 450

``gpu.sh`` installs what is missing and calls this command. README.md explains each figure. This
module does not import torch, so that it survives any failure of a part and keeps the other results.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..common.command import new_parser, write_json
from .report import ratios, table

BENCHMARKS = Path(__file__).resolve().parents[1]
# With less time than this left, no part is started.
_LEAST_SECONDS = 8
_KEPT_CHARACTERS = 4000


@dataclass(frozen=True)
class Part:
    """The task of one process.

    Attributes:
        name: its name in the report.
        module: module of this package whose ``measure`` is called.
        limit: seconds after which the process is killed.
        given: arguments of ``measure``.
        environment: variables of the process; ``{folder}`` stands for the folder of all parts.
    """

    name: str
    module: str
    limit: float
    given: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


def _of(module: str, limit: float, dtype: str, **environment: str) -> Part:
    return Part(f"{module} {dtype}", module, limit, {"dtype": dtype}, environment)


# The checks run at once and share the cores.
_FEW_THREADS = {"OMP_NUM_THREADS": "2"}
MACHINE = Part("machine", "machine", 60)
# These run in parallel, because none of them measures time.
CHECKS = (
    *(_of("kernels", 130, dtype, **_FEW_THREADS) for dtype in ("float32", "bfloat16", "float16")),
    Part("codes", "codes", 130, environment=_FEW_THREADS),
    Part("tests", "cuda_tests", 185, environment=_FEW_THREADS),
)
# These run in sequence, the most important first.
FIGURES = (
    _of("steps", 80, "bfloat16"),
    _of("engine", 60, "bfloat16"),
    _of("products", 60, "bfloat16"),
    _of("profile", 40, "bfloat16"),
    Part("peer", "published", 90),
    _of("standard", 60, "float32"),
    _of("steps", 60, "float32"),
    Part(
        "steps bfloat16 without invariance",
        "steps",
        60,
        {"dtype": "bfloat16", "batch_invariant": False},
    ),
    _of("sound", 70, "bfloat16"),
    _of("attention", 30, "bfloat16"),
    _of("engine", 50, "float32"),
    _of("standard", 60, "bfloat16"),
    _of("products", 50, "float32"),
    Part(
        "first start",
        "engine",
        70,
        {"dtype": "bfloat16", "runs": False},
        {"TRITON_CACHE_DIR": "{folder}/no-kernels-yet"},
    ),
)


class Run:
    """Runs parts and adds their results to the report.

    Args:
        report: the report so far; each part's result is put into its ``parts``.
        folder: the folder that all parts share.
        ends: end of the time of the whole run, by ``time.monotonic``.
        dry: use tiny sizes on a CPU.
    """

    def __init__(self, report: dict[str, Any], folder: Path, ends: float, *, dry: bool) -> None:
        self.report, self._folder, self._ends, self._dry = report, folder, ends, dry

    def together(self, parts: Sequence[Part]) -> None:
        """Run parts in parallel."""
        with ThreadPoolExecutor(len(parts)) as pool:
            list(pool.map(self.one, parts))

    def one(self, part: Part) -> None:
        """Run a part and put its result, or how it failed, into the report."""
        left = self._ends - time.monotonic()
        if left < _LEAST_SECONDS:
            self.report["parts"][part.name] = {"error": "not begun: the time was up"}
            return
        print(f"{part.name} ...", file=sys.stderr, flush=True)
        began = time.monotonic()
        result = self._result(part, min(part.limit, left))
        self.report["parts"][part.name] = {"seconds": time.monotonic() - began, **result}

    def _result(self, part: Part, limit: float) -> dict[str, Any]:
        safe = re.sub(r"\W+", "-", part.name)
        file, log = self._folder / f"{safe}.json", self._folder / f"{safe}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                self._command(part, file),
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment(part),
                cwd=BENCHMARKS.parent,
                start_new_session=True,
            )
            error = _wait(process, limit)
        result = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        if error is not None:
            text = log.read_text(encoding="utf-8", errors="replace")
            result |= {"error": error, "log": text[-_KEPT_CHARACTERS:]}
        return result

    def _command(self, part: Part, file: Path) -> list[str]:
        command = [sys.executable, "-m", f"{__package__}.part", part.module, str(file)]
        command += ["--folder", str(self._folder), "--given", json.dumps(part.given)]
        return [*command, "--began", str(time.time()), *(["--dry-run"] if self._dry else [])]

    def _environment(self, part: Part) -> dict[str, str]:
        """Return the variables of a part's process.

        Caches lie in the folder of all parts: other parts find the compiled kernels, and nothing
        is left after the run.
        """
        paths = [str(BENCHMARKS.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        own = {
            "PYTHONPATH": os.pathsep.join(paths),
            "TRITON_CACHE_DIR": "{folder}/kernels",
            "XDG_CACHE_HOME": "{folder}/cache",
            **part.environment,
        }
        own = {name: value.format(folder=self._folder) for name, value in own.items()}
        return os.environ | own


def _wait(process: subprocess.Popen[bytes], limit: float) -> str | None:
    """Wait until a process ends, or kill it and its children after ``limit`` seconds.

    Returns:
        How it failed, or ``None``.
    """
    try:
        status = process.wait(limit)
    except subprocess.TimeoutExpired:
        return f"ended after {limit:.0f} s: it took too long"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return f"ended with status {status}" if status else None


def measure(args: argparse.Namespace, folder: Path) -> tuple[dict[str, Any], Path]:
    """Run all parts, and write the report after each one so that no failure can lose it.

    Returns:
        The report and its file.
    """
    report: dict[str, Any] = {"command": shlex.join(["python", *sys.argv]), "parts": {}}
    run = Run(report, folder, time.monotonic() + args.seconds, dry=args.dry_run)
    run.one(MACHINE)
    device = report["parts"]["machine"].get("device", "unknown")
    file = args.out / f"gpu-{re.sub('[^a-z0-9]+', '-', device.lower()).strip('-')}.json"
    args.out.mkdir(parents=True, exist_ok=True)

    def wanted(parts: Sequence[Part]) -> list[Part]:
        return [part for part in parts if args.parts is None or part.name in args.parts]

    def write() -> None:
        report["ratios"] = ratios(report)
        write_json(report, file)

    checks = wanted(CHECKS)
    if checks:
        run.together(checks)
        write()
    for part in wanted(FIGURES):
        run.one(part)
        write()
    return report, file


def parse() -> argparse.Namespace:
    parser = new_parser("gpu", __doc__)
    names = [part.name for part in (*CHECKS, *FIGURES)]
    parser.add_argument("--seconds", type=float, default=450, help="for everything")
    parser.add_argument(
        "--out", type=Path, default=BENCHMARKS / "results", help="folder of the JSON"
    )
    parser.add_argument(
        "--parts", nargs="+", choices=names, metavar="PART", help=f"only these: {', '.join(names)}"
    )
    parser.add_argument("--dry-run", action="store_true", help="tiny, on a CPU: times mean nothing")
    return parser.parse_args()


def main() -> None:
    args = parse()
    # SystemExit unwinds the stack, which also kills the part that runs.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="chattts-gpu-") as folder:
        report, file = measure(args, Path(folder))
    print(table(report))
    print(f"\n{file}")
    checks = [report["parts"][part.name] for part in CHECKS if part.name in report["parts"]]
    sys.exit(any("error" in check for check in checks))


if __name__ == "__main__":
    main()
