"""The benchmarks' scripts for their tests: tiny sizes, whole commands, and sides that pretend."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .places import ROOT

BENCHMARKS = ROOT / "benchmarks"
TINY = "--layers 2 --hidden 64 --heads 4 --intermediate 128 --audio-layers 1 --text-tokens 120"
FIGURES = {
    "step_ms",
    "generate_frames_per_s_stream",
    "generate_frames_per_s",
    "infer_s",
    "infer_frames_per_s",
    "rtf",
}


def run_script(name: str, tmp_path: Path, *given: str) -> tuple[dict[str, Any], str]:
    """The command itself, with all its processes: its JSON report and what it printed."""
    out = tmp_path / "report.json"
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / f"{name}.py"), *given, "--json", str(out)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text(encoding="utf-8")), done.stdout


def peer_python() -> str:
    """The interpreter that has the published package; skips the test where there is none."""
    peer = os.environ.get("CHATTTS_PEER_PYTHON")
    if peer is None:
        pytest.skip("CHATTTS_PEER_PYTHON names no interpreter that has ChatTTS==0.2.5")
    return peer


def arguments(monkeypatch: pytest.MonkeyPatch, module: Any, *given: str) -> argparse.Namespace:
    monkeypatch.setattr(sys, "argv", [f"{module.__name__}.py", *given])
    parsed = module.parse()
    assert isinstance(parsed, argparse.Namespace)
    return parsed


class PretendedPeer:
    """Takes a thousand seconds for everything."""

    @staticmethod
    def load(folder: str, threads: int, dtype: str) -> dict[str, Any]:
        versions = {"package": "ChatTTS 0.2.5", "python": "3", "torch": "2", "transformers": "4"}
        return {"load_s": 1.0, "versions": versions, "threads": threads}

    @staticmethod
    def run(texts: list[str], frames: int) -> dict[str, Any]:
        prompts = [len(text.split()) + 4 for text in texts]
        done = {"prompts": prompts, "frames": [frames] * len(texts)}
        return {"infer_s": 2000.0, "generate_s": 1000.0, **done}


class WorkerHere:
    """A child without a process: the answers are real, and pass through JSON all the same."""

    calls: list[tuple[str, str, dict[str, Any]]]

    def __init__(
        self, name: str, python: Path, script: str, threads: int, environment: Any = None
    ) -> None:
        self.name = name
        self._script = Path(script).stem
        if self._script == "peer":
            self._module: Any = PretendedPeer
        else:
            self._module = __import__(self._script)

    def call(self, do: str, **given: Any) -> dict[str, Any]:
        self.calls.append((self._script, do, given))
        handler: Callable[..., dict[str, Any]] = getattr(self._module, do)
        answer: dict[str, Any] = json.loads(json.dumps(handler(**given)))
        return answer

    def __enter__(self) -> WorkerHere:
        return self

    def __exit__(self, *_: object) -> None:
        pass
