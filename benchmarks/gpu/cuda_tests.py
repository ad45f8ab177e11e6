"""Run the tests of the CUDA code with compiled kernels instead of interpreted ones."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from .scale import Task

ROOT = Path(__file__).resolve().parents[2]
_OUTCOME = re.compile(r"\b(PASSED|FAILED|ERROR|SKIPPED|XFAIL)\b")
# Packages that the tests' conftest.py imports beside torch.
_WHOLE_PACKAGE = ("soundfile", "soxr")
_KEPT_LINES = 60


def measure(task: Task) -> None:
    """Run the tests, in several processes if possible, and record counts while they run.

    Files that cannot be imported because a package is missing do not count as failures.

    Raises:
        RuntimeError: pytest is missing, or a test failed; the record names it.
    """
    if importlib.util.find_spec("pytest") is None:
        raise RuntimeError("pytest is not installed: only the part `kernels` checks the kernels")
    missing = [name for name in _WHOLE_PACKAGE if importlib.util.find_spec(name) is None]
    record = task.record
    record.put(missing=missing)
    counts: Counter[str] = Counter()
    failed: list[str] = []
    unread: list[str] = []
    last: list[str] = []
    with subprocess.Popen(
        command(task.scale.tests, without_package=bool(missing)),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            last = [*last[1 - _KEPT_LINES :], line.rstrip()]
            file = unread_file(line)
            if file is not None and file not in unread:
                unread.append(file)
            outcome = outcome_of(line)
            if outcome is None:
                continue
            counts[outcome] += 1
            if outcome in ("FAILED", "ERROR"):
                failed.append(line.strip())
            record.put(counts=dict(counts), failed=failed)
    record.put(unread=unread)
    if process.returncode and (failed or not (missing and unread)):
        record.put(last_lines=last)
        raise RuntimeError(f"pytest ended with status {process.returncode}")


def command(patterns: Sequence[str], *, without_package: bool) -> list[str]:
    """Return the command line of pytest.

    Args:
        patterns: of the files below ``tests/``.
        without_package: audio packages are missing. Files that need them cannot be imported; all
            others run nevertheless.
    """
    found = (file for pattern in patterns for file in (ROOT / "tests").glob(pattern))
    files = sorted(str(file.relative_to(ROOT)) for file in found)
    options = ["-v", "--tb=short", "-p", "no:cacheprovider", "-o", "addopts="]
    options += ["-k", "not native and not torch- and not torch]"]  # backends that need no GPU
    if without_package:
        options += ["--noconftest", "--continue-on-collection-errors"]
    cores = len(os.sched_getaffinity(0))
    if importlib.util.find_spec("xdist") is not None and cores > 4:
        options += ["-n", str(min(8, cores - 4))]
    return [sys.executable, "-m", "pytest", *options, *files]


def unread_file(line: str) -> str | None:
    """Return the file that cannot be imported, if ``line`` names one."""
    found = re.search(r"ERROR collecting (\S+)", line)
    return found[1] if found else None


def outcome_of(line: str) -> str | None:
    """Return the outcome of a test that ``line`` reports, but not of lines of the final summary."""
    found = _OUTCOME.search(line)
    is_summary = line.startswith(("FAILED", "ERROR", "SKIPPED", "XFAIL", "="))
    is_outcome = not is_summary and unread_file(line) is None
    return found[1] if found and is_outcome else None
