"""Check the CUDA code on a GPU and time it: each part in a process of its own, within a limit.

    python benchmarks/gpu.py --seconds 450

``gpu.sh`` installs what is missing and calls this. README.md says what each figure means. Nothing
here imports torch: whatever happens to a part, what the others found is kept.
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

from gpu_report import ratios, table

HERE = Path(__file__).parent
# With less time than this left, no part is begun.
_LEAST_SECONDS = 8
_KEPT_CHARACTERS = 4000


@dataclass(frozen=True)
class Part:
    """What one process does.

    Attributes:
        name: in the report.
        module: whose ``measure`` is called.
        limit: seconds after which it is ended.
        given: arguments of ``measure``.
        environment: variables; ``{folder}`` is the folder of all parts.
    """

    name: str
    module: str
    limit: float
    given: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


def _of(module: str, limit: float, dtype: str, **environment: str) -> Part:
    name = f"{module.removeprefix('gpu_')} {dtype}"
    return Part(name, module, limit, {"dtype": dtype}, environment)


# Many processes share the cores.
_FEW = {"OMP_NUM_THREADS": "2"}
MACHINE = Part("machine", "gpu_machine", 60)
# Side by side: none of them times anything.
CHECKS = (
    *(_of("gpu_kernels", 130, dtype, **_FEW) for dtype in ("float32", "bfloat16", "float16")),
    Part("codes", "gpu_codes", 130, environment=_FEW),
    Part("tests", "gpu_tests", 170, environment=_FEW),
)
# One after another, the most wanted first.
FIGURES = (
    _of("gpu_steps", 80, "bfloat16"),
    _of("gpu_engine", 60, "bfloat16"),
    _of("gpu_products", 60, "bfloat16"),
    _of("gpu_profile", 40, "bfloat16"),
    Part("peer", "gpu_peer", 90),
    _of("gpu_standard", 60, "float32"),
    _of("gpu_steps", 60, "float32"),
    Part(
        "steps bfloat16 without invariance",
        "gpu_steps",
        60,
        {"dtype": "bfloat16", "batch_invariant": False},
    ),
    _of("gpu_sound", 70, "bfloat16"),
    _of("gpu_attention", 30, "bfloat16"),
    _of("gpu_engine", 50, "float32"),
    _of("gpu_standard", 60, "bfloat16"),
    _of("gpu_products", 50, "float32"),
    Part(
        "first start",
        "gpu_engine",
        70,
        {"dtype": "bfloat16", "runs": False},
        {"TRITON_CACHE_DIR": "{folder}/no-kernels-yet"},
    ),
)


class Run:
    """All parts, and the report that grows with them.

    Args:
        report: what is known so far; each part's result is put into its ``parts``.
        folder: of all parts.
        ends: when the time is up, by ``time.monotonic``.
        dry: tiny, on a CPU.
    """

    def __init__(self, report: dict[str, Any], folder: Path, ends: float, *, dry: bool) -> None:
        self.report, self._folder, self._ends, self._dry = report, folder, ends, dry

    def together(self, parts: Sequence[Part]) -> None:
        """Do parts side by side."""
        with ThreadPoolExecutor(len(parts)) as pool:
            list(pool.map(self.one, parts))

    def one(self, part: Part) -> None:
        """Do a part, and put what it found into the report, or how it failed."""
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
                start_new_session=True,
            )
            error = _wait(process, limit)
        result = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        if error is not None:
            text = log.read_text(encoding="utf-8", errors="replace")
            result |= {"error": error, "log": text[-_KEPT_CHARACTERS:]}
        return result

    def _command(self, part: Part, file: Path) -> list[str]:
        command = [sys.executable, str(HERE / "gpu_part.py"), part.module, str(file)]
        command += ["--folder", str(self._folder), "--given", json.dumps(part.given)]
        return [*command, "--began", str(time.time()), *(["--dry-run"] if self._dry else [])]

    def _environment(self, part: Part) -> dict[str, str]:
        """Compiled kernels are kept for the other parts, and nothing outlasts the run."""
        paths = [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        own = {
            "PYTHONPATH": os.pathsep.join(paths),
            "TRITON_CACHE_DIR": "{folder}/kernels",
            "XDG_CACHE_HOME": "{folder}/cache",
            **part.environment,
        }
        own = {name: value.format(folder=self._folder) for name, value in own.items()}
        return os.environ | own


def _wait(process: subprocess.Popen[bytes], limit: float) -> str | None:
    """Until a process ends; how it failed, or ``None``. Its own children end with it."""
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
    """All parts. The report is written after each, so that it is there whatever happens.

    Returns:
        The report, and the file that it is in.
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
        file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")

    checks = wanted(CHECKS)
    if checks:
        run.together(checks)
        write()
    for part in wanted(FIGURES):
        run.one(part)
        write()
    return report, file


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    names = [part.name for part in (*CHECKS, *FIGURES)]
    parser.add_argument("--seconds", type=float, default=450, help="for everything")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the JSON")
    parser.add_argument(
        "--parts", nargs="+", choices=names, metavar="PART", help=f"only these: {', '.join(names)}"
    )
    parser.add_argument("--dry-run", action="store_true", help="tiny, on a CPU: times mean nothing")
    return parser.parse_args()


def main() -> None:
    args = parse()
    # Whoever ends this ends the part that runs as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="chattts-gpu-") as folder:
        report, file = measure(args, Path(folder))
    print(table(report))
    print(f"\n{file}")
    checks = [report["parts"][part.name] for part in CHECKS if part.name in report["parts"]]
    sys.exit(any("error" in check for check in checks))


if __name__ == "__main__":
    main()
