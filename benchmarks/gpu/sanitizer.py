"""Run a small engine on the GPU under compute-sanitizer, where that is installed.

It finds accesses out of bounds and reads of memory that nothing wrote, in the kernels as the driver
runs them. This module is also the program that is watched:

    compute-sanitizer --tool memcheck python -m benchmarks.gpu.sanitizer FOLDER
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from .scale import FULL, TINY, Record, Task

TOOLS = ("memcheck", "initcheck")
# Where CUDA's toolkit has it, beside the folders of PATH.
_TOOLKIT = "/usr/local/cuda/bin"
_SUMMARY = re.compile(r"ERROR SUMMARY: (\d+) error")
_KEPT_LINES = 40


def measure(task: Task, tool: str) -> None:
    """Record how many errors a tool finds, and its last lines where it finds any.

    Args:
        tool: one of ``TOOLS``.

    Raises:
        RuntimeError: it finds errors, or the engine fails under it.
    """
    record = task.record
    program = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path=_TOOLKIT)
    if program is None or task.device.type != "cuda":
        record.put(skipped="compute-sanitizer is not installed" if program is None else "no GPU")
        return
    command = [program, "--tool", tool, sys.executable, "-m", __name__, str(task.folder)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    found = told(done.stdout)
    record.put(tool=tool, **found)
    if done.returncode or found["errors"] != 0:
        record.put(last_lines=done.stdout.splitlines()[-_KEPT_LINES:])
        raise RuntimeError(f"{tool} found {found['errors']} errors (status {done.returncode})")


def told(printed: str) -> dict[str, Any]:
    """Return what a tool printed: its number of errors, and the first lines of different ones.

    ``errors`` is ``None`` where the summary is missing.
    """
    summary = _SUMMARY.search(printed)
    lines = [line.removeprefix("=========").strip() for line in printed.splitlines()]
    kinds = [line for line in lines if line.startswith(("Invalid", "Uninitialized", "Program hit"))]
    return {"errors": int(summary[1]) if summary else None, "kinds": list(dict.fromkeys(kinds))}


def main() -> None:
    """Run some requests on a small engine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="for the model")
    folder = parser.parse_args().folder / "sanitized"
    folder.mkdir(exist_ok=True)
    from ChatTTS.model.velocity.llm_engine import LLMEngine

    from .codes import answers_of
    from .model import engine_args, requests_of

    scale = replace(TINY, device=FULL.device)
    task = Task(scale, folder, Record(folder / "record.json"), time.time())
    for dtype in ("float32", "bfloat16"):
        engine = LLMEngine.from_engine_args(engine_args(task, dtype))
        answers_of(engine, requests_of(scale, max(scale.streams), scale.frames))
        engine.close()


if __name__ == "__main__":
    main()
