"""Tools for the benchmarks' tests: tiny sizes, whole commands, and fakes of child processes."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from .places import ROOT

PUBLISHED = "benchmarks.common.published"
TINY = "--layers 2 --hidden 64 --heads 4 --intermediate 128 --audio-layers 1 --text-tokens 400"
FIGURES = {
    "step_ms",
    "generate_frames_per_s_stream",
    "generate_frames_per_s",
    "infer_s",
    "infer_frames_per_s",
    "rtf",
}


def run_command(name: str, tmp_path: Path, *given: str) -> tuple[dict[str, Any], str]:
    """Run ``python -m benchmarks.NAME`` with all its processes.

    Returns:
        Its JSON report, and what it printed.
    """
    out = tmp_path / "report.json"
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *given, "--json", str(out)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text(encoding="utf-8")), done.stdout


def peer_python() -> str:
    """Return the interpreter that has the published package, or skip the test."""
    peer = os.environ.get("CHATTTS_PEER_PYTHON")
    if peer is None:
        pytest.skip("CHATTTS_PEER_PYTHON names no interpreter that has ChatTTS==0.2.5")
    return peer


def arguments(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, *given: str
) -> argparse.Namespace:
    """Return the arguments as the command in ``module`` parses them."""
    monkeypatch.setattr(sys, "argv", [f"{module.__name__}.py", *given])
    parsed = module.parse()
    assert isinstance(parsed, argparse.Namespace)
    return parsed


class FakePublishedChat:
    """A fake of the published package's ``Chat``, in which all work takes a thousand seconds."""

    @staticmethod
    def load(folder: str, threads: int, dtype: str) -> dict[str, Any]:
        versions = {"package": "ChatTTS 0.2.5", "python": "3", "torch": "2", "transformers": "4"}
        return {"load_s": 1.0, "versions": versions, "threads": threads}

    @staticmethod
    def run(texts: list[str], frames: int) -> dict[str, Any]:
        prompts = [len(text.split()) + 4 for text in texts]
        done = {"prompts": prompts, "frames": [frames] * len(texts)}
        return {"infer_s": 2000.0, "generate_s": 1000.0, **done}


class InProcessChild:
    """A child in this process. Its answers are real, and pass through JSON."""

    calls: list[tuple[str, str, dict[str, Any]]]
    published: type[FakePublishedChat] = FakePublishedChat

    def __init__(
        self,
        name: str,
        python: Path,
        module: str,
        threads: int,
        environment: Any = None,
        *,
        isolated: bool = False,
    ) -> None:
        assert isolated == (module == PUBLISHED)
        self.name = name
        self._module = module
        self._handlers = self.published if isolated else importlib.import_module(module)

    def call(self, do: str, **given: Any) -> dict[str, Any]:
        self.calls.append((self._module, do, given))
        handler: Callable[..., dict[str, Any]] = getattr(self._handlers, do)
        answer: dict[str, Any] = json.loads(json.dumps(handler(**given)))
        return answer

    def __enter__(self) -> InProcessChild:
        return self

    def __exit__(self, *_: object) -> None:
        pass
