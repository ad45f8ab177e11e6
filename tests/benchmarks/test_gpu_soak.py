"""The soak, loads after loads, and other parts about memory, on a CPU at a tiny size."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from ChatTTS.model.velocity.llm_engine import LLMEngine

pytest.importorskip("triton")

from .test_gpu import do, shown

from ChatTTS.model.kernels.cuda import prefetch as prefetches  # isort: skip

# ---------------------------------------------------------------- the soak


def test_requests_of_a_soak_join_end_and_are_aborted(tmp_path: Path, on_triton: None) -> None:
    from benchmarks.gpu.soak import WAYS

    found = do("soak", tmp_path, dtype="float32")

    assert list(found["ways"]) == list(WAYS)
    assert all(own["differ"] == [] for own in found["ways"].values())
    assert found["ways"]["at once"]["ended"] == found["requests"] == 9
    assert found["ways"]["at once"]["ids"] >= found["ways"]["by chance"]["ids"] > 9
    assert "9 requests by chance" in shown("soak bfloat16", found)


def test_the_cpu_engine_keeps_its_bits_under_traffic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine that keeps bits on a CPU: so the soak itself disturbs nothing."""
    from benchmarks.gpu import soak

    monkeypatch.setattr(soak, "_is_no_longer", soak._is_beginning)
    monkeypatch.setattr(soak, "_STEPS", 5)
    monkeypatch.setattr(soak, "_ABORTED", 2)
    found = do("soak", tmp_path, dtype="float32")

    assert all(own["differ"] == [] for own in found["ways"].values())
    assert 0 < found["ways"]["by chance"]["ended"] < 9


@pytest.mark.parametrize("harm", ["ids", "hiddens", "length"])
def test_a_request_that_is_not_as_alone_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    from benchmarks.gpu import soak
    from benchmarks.gpu.codes import Answer
    from benchmarks.gpu.scale import TINY

    class Engine:
        def close(self) -> None:
            pass

    def serve(engine: Any, requests: Any, way: Any) -> dict[str, Answer]:
        answers = {r.request_id: Answer(np.ones((4, 2)), torch.ones(4, 8)) for r in requests}
        if way == soak.WAYS["without overlap"]:
            own = answers["r3"]
            if harm == "ids":
                own.ids[2, 1] = 0
            elif harm == "hiddens":
                own.hiddens[3, 7] = torch.nextafter(own.hiddens[3, 7], torch.tensor(2.0))
            else:
                answers["r3"] = Answer(np.ones((5, 2)), torch.ones(5, 8))
        elif len(requests) > 1:  # the beginning of an answer is right
            answers["r2"] = Answer(answers["r2"].ids[:2], answers["r2"].hiddens[:2])
        return answers

    monkeypatch.setattr(soak, "serve", serve)
    monkeypatch.setattr(LLMEngine, "from_engine_args", lambda args: Engine())
    scale = replace(TINY, device="cuda:0")
    with pytest.raises(RuntimeError, match=r"alone in bfloat16: without overlap: 1 of 9 \(r3\)"):
        do("soak", tmp_path, scale, dtype="bfloat16")
    found = json.loads((tmp_path / "soak.json").read_text(encoding="utf-8"))
    assert found["ways"]["by chance"] | {"seconds": 0} == {
        "seconds": 0,
        "ids": 34,
        "ended": 8,
        "differ": [],
    }
    assert "1 are not as alone" in shown("soak bfloat16", found)


# ---------------------------------------------------------------- memory


def test_an_engine_is_loaded_again_and_again(tmp_path: Path, on_triton: None) -> None:
    found = do("reload", tmp_path, dtype="float32")

    assert len(found["rounds"]) == 5
    assert all(own["host_mib"] > 0 < own["load_s"] for own in found["rounds"])
    assert shown("reload bfloat16", found).count("unloaded in") == 5


@pytest.mark.parametrize("harm", ["allocated_mib", "taken_mib", "bits", ""])
def test_what_a_load_leaves_behind_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    from benchmarks.gpu import reload
    from benchmarks.gpu.codes import Answer

    sizes = iter([100.0, 120.0, 140.0, 160.0, 180.0])
    numbers = iter([1.0, 1.0, 1.0, 2.0 if harm == "bits" else 1.0, 1.0])
    engine = SimpleNamespace(close=lambda: None)
    monkeypatch.setattr(LLMEngine, "from_engine_args", lambda args: engine)
    monkeypatch.setattr(
        reload,
        "answers_of",
        lambda *_: [Answer(np.ones((1, 2)), torch.full((1, 8), next(numbers)))],
    )
    grown = {harm: sizes} if harm.endswith("mib") else {}
    monkeypatch.setattr(
        reload, "_memory", lambda task: {name: next(each) for name, each in grown.items()}
    )
    if not harm:
        do("reload", tmp_path, dtype="float32")
        return
    expected = "other bits" if harm == "bits" else f"80 MiB stay behind .{harm[:-4]}"
    with pytest.raises(RuntimeError, match=expected):
        do("reload", tmp_path, dtype="float32")


def test_steps_of_text_and_places_of_results(tmp_path: Path, on_triton: None) -> None:
    found = do("text_steps", tmp_path, dtype="float32")
    assert found["ids"] == 400
    assert all(own["finite"] for own in found["streams"].values())
    assert "a step of text" in shown("text steps bfloat16", found)

    found = do("results_memory", tmp_path, dtype="float32")
    for own in found["streams"].values():
        assert list(own) == ["pinned", "device", "copied"]
        assert all(spread["min"] > 0 for spread in own.values())
    assert "pinned" in shown("results bfloat16", found)


def test_steps_that_fetch_ahead_and_steps_that_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_triton: None
) -> None:
    """Each way is captured with its own setting, by turns."""
    from benchmarks.gpu import prefetch
    from benchmarks.gpu.steps import Loaded

    seen: list[tuple[str, int]] = []
    capture = Loaded.capture

    def noting(loaded: Loaded, **given: Any) -> None:
        seen.append((os.environ.get(prefetches.FETCH_VARIABLE, ""), prefetches.LINE))
        capture(loaded, **given)

    monkeypatch.setattr(Loaded, "capture", noting)
    found = do("prefetch", tmp_path, dtype="float32")
    assert list(found["streams"]["1"]) == list(prefetch.WAYS)
    assert all(len(each) == 2 and min(each) > 0 for each in found["streams"]["1"].values())
    turn = [("0", 128), ("1", 128), ("1", 64), ("1", 32)]
    assert seen[1:] == [*turn, *turn, ("0", 128), ("1", 128)]
    assert list(found["kernels"]) == ["nothing", "lines of 128"]
    assert "lines of 64" in shown("prefetch bfloat16", found)


def test_other_bits_of_a_step_that_fetches_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_triton: None
) -> None:
    from benchmarks.gpu import prefetch

    bits, number = prefetch._bits, iter(range(100))

    def spoilt(loaded: Any, streams: int) -> Any:
        found = bits(loaded, streams)
        return replace(found, hiddens=found.hiddens + (next(number) == 1))

    monkeypatch.setattr(prefetch, "_bits", spoilt)
    with pytest.raises(RuntimeError, match="other bits in float32: lines of 128, 1 streams"):
        do("prefetch", tmp_path, dtype="float32")
    found = json.loads((tmp_path / "prefetch.json").read_text(encoding="utf-8"))
    assert "OTHER BITS: lines of 128" in shown("prefetch bfloat16", found)


# ---------------------------------------------------------------- compute-sanitizer

PRINTED = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at _attend_splits+0x1f0
========= Invalid __global__ read of size 4 bytes
=========     at _attend_splits+0x1f0
========= Uninitialized __global__ memory read of size 2 bytes
========= ERROR SUMMARY: 3 errors
"""


@pytest.mark.smoke
def test_what_compute_sanitizer_says_is_understood() -> None:
    from benchmarks.gpu.sanitizer import told

    assert told(PRINTED) == {
        "errors": 3,
        "kinds": [
            "Invalid __global__ read of size 4 bytes",
            "Uninitialized __global__ memory read of size 2 bytes",
        ],
    }
    assert told("========= ERROR SUMMARY: 0 errors") == {"errors": 0, "kinds": []}
    assert told("Killed") == {"errors": None, "kinds": []}


@pytest.mark.parametrize("fault", ["", "errors", "crash"])
def test_the_engine_runs_under_compute_sanitizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """A program in its place, which notes its command line."""
    from benchmarks.gpu.scale import TINY

    program, log = tmp_path / "compute-sanitizer", tmp_path / "log"
    printed = PRINTED if fault == "errors" else "========= ERROR SUMMARY: 0 errors"
    program.write_text(
        f"#!/bin/sh\necho \"$*\" >{log}\ncat <<'END'\n{printed}\nEND\n"
        f"exit {int(fault == 'crash')}\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    scale = replace(TINY, device="cuda:0")
    if fault:
        with pytest.raises(RuntimeError, match=r"memcheck found \d errors"):
            do("sanitizer", tmp_path, scale, tool="memcheck")
    else:
        do("sanitizer", tmp_path, scale, tool="memcheck")
    found = json.loads((tmp_path / "sanitizer.json").read_text(encoding="utf-8"))
    assert found["errors"] == (3 if fault == "errors" else 0)
    assert log.read_text().startswith("--tool memcheck ")
    assert log.read_text().strip().endswith(f"-m benchmarks.gpu.sanitizer {tmp_path}")
    assert f"{found['errors']} errors" in shown("memcheck", found)


def test_without_compute_sanitizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.gpu import sanitizer

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sanitizer, "_TOOLKIT", str(tmp_path))
    assert "not installed" in do("sanitizer", tmp_path, tool="initcheck")["skipped"]


def test_the_program_that_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_triton: None
) -> None:
    from benchmarks.gpu import sanitizer
    from benchmarks.gpu.scale import TINY

    monkeypatch.setattr(sanitizer, "FULL", TINY)
    monkeypatch.setattr("sys.argv", ["sanitizer", str(tmp_path)])
    sanitizer.main()
    assert (tmp_path / "sanitized" / "language-model").is_dir()
