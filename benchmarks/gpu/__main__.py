"""Check the CUDA code on a GPU and time it: each part in a process of its own, within a limit.

    python -m benchmarks.gpu --seconds 570

What could be wrong comes first: versions, codes, bits, bits under traffic. ``gpu.sh`` installs what
is missing and calls this command. README.md explains each figure. This module does not import
torch, so that it survives any failure of a part and keeps the other results.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..common.command import command_line, new_parser, write_json
from .report import ratios, table

BENCHMARKS = Path(__file__).resolve().parents[1]
# With less time than this left, no part is started.
_LEAST_SECONDS = 8
_POLL_SECONDS = 0.05
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
        is_check: whether the command fails if the part does.
    """

    name: str
    module: str
    limit: float
    given: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    is_check: bool = False


# Of a part that runs beside others.
_CORES = 2
_FEW_THREADS = {"OMP_NUM_THREADS": str(_CORES)}
_DTYPES = ("float32", "bfloat16", "float16")


def _of(module: str, limit: float, dtype: str, *, is_check: bool = False, **given: Any) -> Part:
    return Part(f"{module} {dtype}", module, limit, {"dtype": dtype, **given}, is_check=is_check)


def _check(name: str, module: str, limit: float, **given: Any) -> Part:
    return Part(name, module, limit, given, _FEW_THREADS, is_check=True)


MACHINE = Part("machine", "machine", 60, is_check=True)
# The parts of a group run in parallel; none of them measures time unless it is alone.
GROUPS: tuple[tuple[Part, ...], ...] = (
    (
        _check("codes", "codes", 110),
        *(_check(f"bits {dtype}", "bits", 110, dtype=dtype) for dtype in _DTYPES),
        Part("expected", "step_model", 110, environment=_FEW_THREADS),
    ),
    (_of("soak", 110, "bfloat16", is_check=True),),
    (_of("steps", 90, "bfloat16", details=True),),
    (_of("prefetch", 60, "bfloat16", is_check=True),),
    (_of("joins", 60, "bfloat16"),),
    (_of("beside", 70, "bfloat16", is_check=True),),
    (
        *(_check(f"kernels {dtype}", "kernels", 100, dtype=dtype) for dtype in _DTYPES),
        _check("tests", "cuda_tests", 220),
        _check("memcheck", "sanitizer", 200, tool="memcheck"),
        Part("initcheck", "sanitizer", 200, {"tool": "initcheck"}, _FEW_THREADS),
    ),
    (_of("reload", 60, "bfloat16", is_check=True),),
    (Part("text steps bfloat16", "text_steps", 40, {"dtype": "bfloat16"}),),
    (Part("results bfloat16", "results_memory", 50, {"dtype": "bfloat16"}),),
    (_of("adapters", 60, "bfloat16", is_check=True),),
    (_of("engine", 50, "bfloat16"),),
    (_of("products", 40, "bfloat16"),),
    (_of("steps", 50, "float32"),),
    (
        Part(
            "steps bfloat16 without invariance",
            "steps",
            50,
            {"dtype": "bfloat16", "batch_invariant": False},
        ),
    ),
    (_of("sound", 60, "bfloat16"),),
    (Part("peer", "published", 90),),
    (_of("standard", 60, "float32"),),
    (_of("attention", 30, "bfloat16"),),
    (
        Part(
            "first start",
            "engine",
            70,
            {"dtype": "bfloat16", "runs": False},
            {"TRITON_CACHE_DIR": "{folder}/no-kernels-yet"},
        ),
    ),
    (_of("products", 40, "float32"),),
    (_of("standard", 60, "bfloat16"),),
    (_of("engine", 50, "float32"),),
)
PARTS = (MACHINE, *(part for group in GROUPS for part in group))


@dataclass
class _Running:
    """A part's process, its files, and when it began and must have ended."""

    part: Part
    process: subprocess.Popen[bytes]
    file: Path
    log: Path
    began: float
    limit: float


class Run:
    """Runs parts and adds their results to the report.

    Args:
        report: the report so far; each part's result is put into its ``parts``.
        folder: the folder that all parts share.
        ends: end of the time of the whole run, by ``time.monotonic``.
        dry: use tiny sizes on a CPU.
        write: called after each part.
    """

    def __init__(
        self,
        report: dict[str, Any],
        folder: Path,
        ends: float,
        *,
        dry: bool,
        write: Callable[[], None] = lambda: None,
    ) -> None:
        self.report, self._folder, self._ends, self._dry = report, folder, ends, dry
        self._write = write
        self._most = max(1, len(os.sched_getaffinity(0)) // _CORES)

    def together(self, parts: Sequence[Part]) -> None:
        """Run parts in parallel; put what each found, or how it failed, into the report.

        Each gets two cores, so on a small machine some wait for others.
        """
        running: list[_Running] = []
        waiting = list(parts)
        try:
            while waiting or running:
                while waiting and len(running) < self._most:
                    part = waiting.pop(0)
                    left = self._ends - time.monotonic()
                    if left < _LEAST_SECONDS:
                        self._put(part, {"error": "not begun: the time was up"})
                    else:
                        running.append(self._start(part, min(part.limit, left)))
                ended = [each for each in running if _is_over(each)]
                for each in ended:
                    running.remove(each)
                    self._put(each.part, _result(each))
                if not ended:
                    time.sleep(_POLL_SECONDS)
        finally:
            for each in running:
                _kill(each.process)

    def _put(self, part: Part, result: dict[str, Any]) -> None:
        self.report["parts"][part.name] = result
        self._write()

    def _start(self, part: Part, limit: float) -> _Running:
        print(f"{part.name} ...", file=sys.stderr, flush=True)
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
        return _Running(part, process, file, log, time.monotonic(), limit)

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
        if self._dry:  # threads of tiny operators would only wait for one another
            own["OMP_NUM_THREADS"] = "1"
        own = {name: value.format(folder=self._folder) for name, value in own.items()}
        return os.environ | own


def _is_over(running: _Running) -> bool:
    """Return whether a part has ended, or must end."""
    is_late = time.monotonic() - running.began > running.limit
    return is_late or running.process.poll() is not None


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process with its children, and wait for it."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _result(running: _Running) -> dict[str, Any]:
    """Return what a part found, and how it failed if it did; kill it if it runs."""
    status = running.process.poll()
    _kill(running.process)
    seconds = time.monotonic() - running.began
    text = running.file.read_text(encoding="utf-8") if running.file.exists() else "{}"
    result: dict[str, Any] = {"seconds": seconds, **json.loads(text)}
    if status is None:
        result["error"] = f"ended after {running.limit:.0f} s: it took too long"
    elif status:
        result["error"] = f"ended with status {status}"
    if "error" in result:
        log = running.log.read_text(encoding="utf-8", errors="replace")
        result["log"] = log[-_KEPT_CHARACTERS:]
    return result


def measure(args: argparse.Namespace, folder: Path) -> tuple[dict[str, Any], Path]:
    """Run all parts, and write the report after each one so that no failure can lose it.

    If the kernels cannot run on the machine, no other part does.

    Returns:
        The report and its file.
    """
    report: dict[str, Any] = {"command": command_line(), "parts": {}}
    ends = time.monotonic() + args.seconds
    Run(report, folder, ends, dry=args.dry_run).together([MACHINE])
    machine = report["parts"]["machine"]
    device = machine.get("device", "unknown")
    file = args.out / f"gpu-{re.sub('[^a-z0-9]+', '-', device.lower()).strip('-')}.json"
    args.out.mkdir(parents=True, exist_ok=True)

    def write() -> None:
        report["ratios"] = ratios(report)
        write_json(report, file)

    write()
    run = Run(report, folder, ends, dry=args.dry_run, write=write)
    for group in GROUPS if "error" not in machine else ():
        run.together([part for part in group if args.parts is None or part.name in args.parts])
    return report, file


def parse() -> argparse.Namespace:
    parser = new_parser("gpu", __doc__)
    names = [part.name for part in PARTS[1:]]
    parser.add_argument("--seconds", type=float, default=570, help="for everything")
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
    checks = [report["parts"].get(part.name, {}) for part in PARTS if part.is_check]
    sys.exit(any("error" in check for check in checks))


if __name__ == "__main__":
    main()
