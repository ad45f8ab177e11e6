"""Kernels that are compiled by a script, into caches and temporary folders of a test's own."""

from __future__ import annotations

import functools
import logging
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ChatTTS.model.kernels.cpu import build, library
from ChatTTS.model.velocity.configs import EngineArgs
from ChatTTS.model.velocity.layers import Llama
from ChatTTS.model.velocity.loaded_model import LoadedModel
from ChatTTS.model.velocity.model_loader import ModelLoader

from .places import DATA, ROOT
from .velocity_models import make_team

# $@ ends with: kernels.cpp -o FILE
COPY = 'for last; do :; done; echo run >> "$LOG"; cp "$KERNELS" "$last"'


@functools.cache
def _compiled() -> bytes:
    """Return the real kernels of this machine; skip the test where there is no compiler."""
    make_team(1)
    return build.library().code


class Workshop:
    """An empty cache, an empty folder of temporary files, and a script for a compiler.

    Kernels that this process has loaded already are not used.

    Attributes:
        cache: the folder where kernels are kept.
        temporary: the temporary folder of this process and of its children.
        compiled: the real kernels of this machine.
        log: a line for each run of ``COPY``.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, self._monkeypatch = folder, monkeypatch
        self.compiled, self.log = folder / "compiled.so", folder / "log"
        self.compiled.write_bytes(_compiled())
        self.cache = folder / "cache" / "chattts-velocity" / "kernels"
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        monkeypatch.setattr(library, "load", library.load.__wrapped__)
        monkeypatch.setattr(tempfile, "tempdir", str(self.temporary))
        for name, value in {
            "XDG_CACHE_HOME": folder / "cache",
            "TMPDIR": self.temporary,
            "LOG": self.log,
            "KERNELS": self.compiled,
        }.items():
            monkeypatch.setenv(name, str(value))
        self.compiler(COPY)

    def compiler(self, script: str) -> None:
        """Make a shell script the compiler."""
        path = self._folder / "fake-c++"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        self._monkeypatch.setenv("CXX", str(path))

    @property
    def runs(self) -> int:
        """The number of runs of ``COPY``."""
        return self.log.read_text().count("run\n")


def load() -> LoadedModel:
    """Load a small model on the engine, as at a start."""
    args = EngineArgs(DATA / "model-a", device="cpu", num_threads=1)
    return ModelLoader(args.create_engine_config()).load()


def run_python(code: str, *arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run ``code`` in a process of its own, for at most ``timeout`` seconds."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def output_of(code: str, *arguments: str, timeout: float = 60) -> str:
    """Run ``code`` in a process of its own, which must succeed, and return what it prints."""
    done = run_python(code, *arguments, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_falls_back(caplog: pytest.LogCaptureFixture, why: str) -> None:
    """Check that torch computes, and that one warning says why the kernels do not."""
    caplog.clear()
    assert isinstance(load().llama, Llama)
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert why in warnings[0]
