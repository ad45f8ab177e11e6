"""The whole GPU benchmark: the processes of its parts, time limits, report and command."""

from __future__ import annotations

import importlib
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.gpu import __main__ as gpu
from benchmarks.gpu.__main__ import Part
from benchmarks.gpu.report import _LINES

from ..support.places import ROOT


def scripted(monkeypatch: pytest.MonkeyPatch, scripts: dict[str, str]) -> None:
    """Replace the modules of parts by ``scripts``; a script gets the result file as argument."""

    def command(run: Any, part: Any, file: Path) -> list[str]:
        script = scripts.get(part.module, "")
        return [sys.executable, "-S", "-c", f"import json, os, sys, time\n{script}", str(file)]

    monkeypatch.setattr(gpu.Run, "_command", command)


def put(values: dict[str, Any]) -> str:
    return f"open(sys.argv[1], 'w').write(json.dumps({values!r}))\n"


def new_run(folder: Path, seconds: float = 60) -> gpu.Run:
    return gpu.Run({"parts": {}}, folder, time.monotonic() + seconds, dry=True)


def test_what_a_part_found_is_kept_when_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, {"good": put({"x": 1}), "bad": put({"x": 2}) + "sys.exit('no memory')"})
    run = new_run(tmp_path)
    run.together([Part("a", "good", 30), Part("b", "bad", 30)])

    parts = run.report["parts"]
    assert parts["a"]["x"] == 1
    assert "error" not in parts["a"]
    assert parts["b"]["x"] == 2
    assert "status 1" in parts["b"]["error"]
    assert "no memory" in parts["b"]["log"]


def ends(process: int) -> bool:
    """Return whether a process that was killed ends within 30 seconds."""
    state = Path(f"/proc/{process}/stat")
    for _ in range(600):
        try:
            if state.read_text().split()[2] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_a_part_that_takes_too_long_ends_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = tmp_path / "child"
    script = (
        "import subprocess\n"
        f"child = subprocess.Popen(['sleep', '600'])\nopen({str(child)!r}, 'w')"
        ".write(str(child.pid))\n" + put({"x": 3}) + "time.sleep(600)"
    )
    scripted(monkeypatch, {"slow": script})
    run = new_run(tmp_path)
    run.together([Part("a", "slow", 1.5)])

    found = run.report["parts"]["a"]
    assert found["x"] == 3
    assert "too long" in found["error"]
    assert ends(int(child.read_text()))


def test_no_part_is_begun_when_the_time_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, {"good": put({"x": 1})})
    run = new_run(tmp_path, seconds=2)
    run.together([Part("a", "good", 30)])

    assert run.report["parts"]["a"] == {"error": "not begun: the time was up"}


def test_the_report_is_written_and_named_after_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(ms: float, name: str = "path_ms") -> dict[str, Any]:
        return {name: {"median": ms}}

    theirs = {"transformers": {"1": step(30)}}
    scripts = {
        "machine": put({"device": "NVIDIA H100 80GB HBM3"}),
        "engine": put({"streams": {"1": step(0.5, "step_ms")}}),
        "published": put({"streams": {"1": step(40)}}),
        "standard": put({"streams": theirs}),
    }
    scripted(monkeypatch, scripts)
    wanted = ["engine bfloat16", "peer", "standard float32"]
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--out", str(tmp_path / "new"), "--parts", *wanted])
    report, file = gpu.measure(gpu.parse(), tmp_path)

    assert file == tmp_path / "new" / "gpu-nvidia-h100-80gb-hbm3.json"
    assert json.loads(file.read_text(encoding="utf-8")) == report
    assert list(report["parts"]) == ["machine", "engine bfloat16", "peer", "standard float32"]
    assert list(report["ratios"].values()) == [80, 60]


def test_nothing_else_runs_where_the_kernels_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, {"machine": put({"device": "GTX"}) + "sys.exit('too old')"})
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--out", str(tmp_path)])
    report, file = gpu.measure(gpu.parse(), tmp_path)

    assert list(report["parts"]) == ["machine"]
    assert "too old" in json.loads(file.read_text(encoding="utf-8"))["parts"]["machine"]["log"]


def test_a_result_is_written_as_soon_as_its_part_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So nothing is lost when the command is ended, and no process outlives it."""
    process = tmp_path / "process"
    slow = f"open({str(process)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)"
    scripted(monkeypatch, {"good": put({"x": 1}), "slow": slow})
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(4))
    report: dict[str, Any] = {"parts": {}}

    def write() -> None:
        while not process.exists() or not process.read_text():
            time.sleep(0.01)
        raise SystemExit

    run = gpu.Run(report, tmp_path, time.monotonic() + 60, dry=True, write=write)
    with pytest.raises(SystemExit):
        run.together([Part("a", "good", 30), Part("b", "slow", 30)])
    assert report["parts"]["a"]["x"] == 1
    assert ends(int(process.read_text()))


def test_parts_wait_for_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = f"os.mkdir({str(tmp_path / 'busy')!r}); time.sleep(0.1)\n"
    scripted(monkeypatch, {"good": alone + f"os.rmdir({str(tmp_path / 'busy')!r})"})
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    run = new_run(tmp_path)
    run.together([Part(name, "good", 30) for name in "abc"])

    assert not any("error" in part for part in run.report["parts"].values())


@pytest.mark.smoke
def test_every_part_has_a_module_and_is_shown_in_its_own_way() -> None:
    pytest.importorskip("triton")
    assert len({part.name for part in gpu.PARTS}) == len(gpu.PARTS)
    for part in gpu.PARTS:
        assert callable(importlib.import_module(f"benchmarks.gpu.{part.module}").measure)
        assert part.name.partition(" ")[0] in _LINES


def test_what_could_be_wrong_comes_first_and_fits_into_ten_minutes() -> None:
    first = gpu.GROUPS[:6]
    modules = [{part.module for part in group} for group in first]
    assert modules[0] == {"codes", "bits", "step_model"}
    assert modules[1:] == [{"soak"}, {"steps"}, {"prefetch"}, {"joins"}, {"beside"}]
    # Even if each takes all its time.
    limits = [max(part.limit for part in group) for group in ((gpu.MACHINE,), *first)]
    assert sum(limits) < 570
    timed = [part.module for group in gpu.GROUPS for part in group if len(group) > 1]
    assert {"steps", "joins", "beside", "engine", "results_memory"}.isdisjoint(timed)


@pytest.mark.thorough
def test_a_dry_run(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.gpu", "--dry-run", "--out", str(tmp_path)]
    done = subprocess.run(
        [*command, "--parts", "attention bfloat16"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )

    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "gpu-no-gpu.json").read_text(encoding="utf-8"))
    assert report["command"].startswith("python ")
    assert report["parts"]["machine"]["versions"]["torch"] == torch.__version__
    assert set(report["parts"]["attention bfloat16"]["streams"]) == {"1", "3"}
    assert "== attention bfloat16" in done.stdout


# ---------------------------------------------------------------- the command


@pytest.fixture
def shell(tmp_path: Path) -> Callable[..., list[str]]:
    """Run gpu.sh with a fake interpreter that logs its arguments and reports safetensors."""
    log, python = tmp_path / "log", tmp_path / "python"
    python.write_text(
        '#!/bin/sh\n[ "$1" = -c ] && { [ "$3" = safetensors ]; exit; }\n'
        f'echo "$CHATTTS_PEER_SITE|$PYTHONPATH|$*" >>{log}\n'
        'case "$*" in *broken*) exit 1 ;; esac\n'
    )
    python.chmod(python.stat().st_mode | stat.S_IEXEC)

    def run(*arguments: str, **environment: str) -> list[str]:
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        subprocess.run(
            ["bash", str(ROOT / "benchmarks" / "gpu.sh"), *arguments],
            check=True,
            env={**kept, "PYTHON": str(python), **environment},
            capture_output=True,
        )
        return log.read_text().splitlines()

    return run


def test_the_command_installs_what_is_missing_and_there(
    tmp_path: Path, shell: Callable[..., list[str]]
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for name in ("ChatTTS-0.2.5", "broken-1", "safetensors-1", "torch-2.0", "vocos-0.1"):
        (wheels / f"{name}-py3-none-any.whl").touch()
    *installs, run = shell(str(wheels), "--dry-run", OUT="/results")

    installed = [Path(line.split()[-1]).name.partition("-")[0] for line in installs]
    assert sorted(installed) == ["ChatTTS", "broken", "vocos"]
    assert all("--no-index" in line and "--no-deps" in line for line in installs)
    peer, paths, command = run.split("|")
    targets = {line.split()[-1]: line.split()[-2] for line in installs}
    site = targets[str(wheels / "vocos-0.1-py3-none-any.whl")]
    assert paths == f"{ROOT}:{site}"
    assert targets[str(wheels / "ChatTTS-0.2.5-py3-none-any.whl")] == peer != site
    assert "-m benchmarks.gpu --seconds 5" in command
    assert command.endswith("--out /results --dry-run")


def test_the_command_needs_no_wheels(shell: Callable[..., list[str]]) -> None:
    (run,) = shell("--parts", "codes")

    assert run.startswith(f"|{ROOT}|")
    assert run.endswith("benchmarks/results --parts codes")
