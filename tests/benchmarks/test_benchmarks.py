"""The benchmarks' common parts and the standard path's command; no test depends on speed."""

from __future__ import annotations

import argparse
import hashlib
import importlib.machinery
import logging
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks.common.child import ChildProcess, Stopwatch
from benchmarks.common.command import command_line
from benchmarks.common.comparison import call, texts
from benchmarks.common.random_checkpoint import add_size_arguments, config_from, write_checkpoint
from benchmarks.common.report import Round, medians, ratios
from benchmarks.cpu import standard
from ChatTTS.checkpoints.assets import AssetFolder
from ChatTTS.config import Config
from ChatTTS.loading import load_model
from ChatTTS.model.devices.placement import choose_placement
from ChatTTS.model.gpt import EngineOptions

from ..support.benchmark_tools import FIGURES, TINY, peer_python, run_command


def test_a_report_tells_its_command_without_private_folders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = importlib.machinery.ModuleSpec("benchmarks.cpu.velocity.__main__", None)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", spec)
    home = Path(sys.executable).anchor + "home"
    monkeypatch.setattr(sys, "argv", ["m.py", "--threads", "2", "--json", f"{home}/me/out/a.json"])
    said = command_line()
    assert said.startswith("python -m benchmarks.cpu.velocity --threads 2 --json ")
    assert Path(said.split()[-1].strip("'")) == Path("out/a.json")


def tiny_sizes(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_size_arguments(parser)
    return parser.parse_args([*TINY.split(), *arguments])


def run_standard(tmp_path: Path, *given: str) -> tuple[dict[str, Any], str]:
    sizes = "--prompt 10 --frames 8 --streams 1 3 --threads 1 --rounds 2"
    return run_command("cpu.standard", tmp_path, *TINY.split(), *sizes.split(), *given)


@pytest.mark.thorough
def test_standard_reports_every_figure(tmp_path: Path) -> None:
    report, printed = run_standard(tmp_path)

    assert report["command"].startswith("python ")
    assert set(report["machine"]) == {"cpu", "cores", "system"}
    assert report["settings"]["frames"] == 8
    assert report["sides"]["ours"]["threads"] == 1
    assert report["sides"]["ours"]["load_s"] > 0
    assert [result["streams"] for result in report["results"]] == [1, 3]
    for result in report["results"]:
        assert set(result["medians"]["ours"]) == FIGURES
        assert all(value > 0 for value in result["medians"]["ours"].values())
        assert len(result["rounds"]["ours"]) == 2
        # `infer` also makes audio, so it takes longer than generation alone.
        assert all(
            r["infer_frames_per_s"] < r["generate_frames_per_s"] for r in result["rounds"]["ours"]
        )
        assert "ratios" not in result
    assert report["sides"]["ours"]["versions"]["package"] in printed


@pytest.mark.peer
def test_standard_runs_the_peer_beside_ours(tmp_path: Path) -> None:
    report, printed = run_standard(tmp_path, "--peer-python", peer_python())

    assert report["sides"]["peer"]["versions"]["package"] == "ChatTTS 0.2.5"
    for result in report["results"]:
        assert set(result["medians"]["peer"]) == FIGURES
        assert set(result["ratios"]) == {"generate", "infer"}
    assert "times faster" in printed


def test_random_checkpoint_loads_without_a_complaint(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = config_from(tiny_sizes())
    write_checkpoint(tmp_path, config)
    with caplog.at_level(logging.WARNING):
        model = load_model(
            AssetFolder(tmp_path, "custom"), choose_placement("cpu"), EngineOptions(use_vllm=False)
        )

    assert not caplog.records
    assert model.config.gpt == config.gpt
    assert model.config.decoder.n_layer == 1
    assert model.config.vocos == config.vocos


def test_random_checkpoint_repeats_with_its_seed(tmp_path: Path) -> None:
    def hashes(name: str, seed: int) -> dict[str, str]:
        write_checkpoint(tmp_path / name, config_from(tiny_sizes()), seed)
        files = sorted((tmp_path / name).rglob("*.safetensors"))
        return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}

    first = hashes("first", 0)
    assert hashes("second", 0) == first
    other = hashes("third", 1)
    assert len(other) == 5
    assert not set(other.values()) & set(first.values())


def test_default_sizes_are_the_published_ones() -> None:
    parser = argparse.ArgumentParser()
    add_size_arguments(parser)
    assert config_from(parser.parse_args([])) == Config()


@pytest.mark.smoke
def test_figures_follow_their_definitions() -> None:

    # Four streams of 375 frames are 32 seconds of audio.
    figures = Round(streams=4, frames=375, generate_s=30.0, infer_s=40.0).figures

    assert figures == {
        "step_ms": 80.0,
        "generate_frames_per_s_stream": 12.5,
        "generate_frames_per_s": 50.0,
        "infer_s": 40.0,
        "infer_frames_per_s": 37.5,
        "rtf": 1.25,
    }


def test_medians_and_ratios_go_pair_by_pair() -> None:

    ours = [Round(1, 10, generate_s=g, infer_s=2 * g) for g in (1.0, 2.0, 5.0)]
    peer = [Round(1, 10, generate_s=g, infer_s=3 * g) for g in (2.0, 3.0, 5.0)]

    assert medians(ours)["step_ms"] == 200.0
    assert ratios(ours, peer) == {
        "generate": {"median": 1.5, "min": 1.0, "max": 2.0},
        "infer": {"median": 2.25, "min": 1.5, "max": 3.0},
    }


class LazyChild:
    """A child whose last text has one frame less than requested."""

    name = "a lazy side"

    def call(self, do: str, texts: list[str], frames: int) -> dict[str, Any]:
        assert do == "run"
        prompts = [len(text.split()) + 4 for text in texts]
        return {"prompts": prompts, "frames": [frames, frames - 1], "generate_s": 1, "infer_s": 1}


def test_a_side_that_does_less_is_found_out() -> None:
    with pytest.raises(RuntimeError, match=r"a lazy side did other work.*\[8, 7\]"):
        call(cast(ChildProcess, LazyChild()), "run", 2, 10, 8)


def test_texts_are_of_one_length_and_never_come_twice() -> None:

    found = [*texts(16, 10), *texts(40, 10, first=16), *texts(5, 10, first=700)]

    assert {len(text.split()) for text in found} == {6}
    assert all(len(word) == 1 for text in found for word in text.split())
    assert len(set(found)) == len(found)


def test_stopwatch_leaves_out_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.perf_counter", lambda: now)

    def work() -> Any:
        nonlocal now
        for item in range(3):
            now += 1
            yield item
        now += 1

    watch = Stopwatch()
    items = []
    for item in watch.over(work()):
        items.append(item)
        now += 10

    assert items == [0, 1, 2]
    assert watch.seconds == 4


CHILD = """
import os
from benchmarks.common.child import serve

def echo(value):
    print("this is no answer")
    return {"value": value, "threads": os.environ["OMP_NUM_THREADS"], "own": os.environ["OWN"]}

serve({"echo": echo, "fail": lambda: 1 / 0, "die": lambda: os._exit(3)})
"""


def test_child_answers_fails_and_dies_with_a_message(tmp_path: Path) -> None:
    (tmp_path / "echoing_child.py").write_text(CHILD, encoding="utf-8")

    own = {"OWN": "variable", "PYTHONPATH": str(tmp_path)}
    with ChildProcess("the child", Path(sys.executable), "echoing_child", 7, own) as child:
        answer = {"value": "ä\n1", "threads": "7", "own": "variable"}
        assert child.call("echo", value="ä\n1") == answer
        with pytest.raises(RuntimeError, match=r"the child failed in 'fail'(.|\n)*ZeroDivision"):
            child.call("fail")
        assert child.call("echo", value=2)["value"] == 2
        with pytest.raises(RuntimeError, match="the child ended in 'die' with exit status 3"):
            child.call("die")


@pytest.mark.thorough
def test_an_isolated_child_finds_the_package_of_its_own_environment(tmp_path: Path) -> None:
    """The child runs a module of the benchmarks, but does not import this project's package."""
    package = tmp_path / "ChatTTS"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('this is another package')\n")
    environment = {"PYTHONPATH": str(tmp_path)}
    module = "benchmarks.common.published"
    with (
        ChildProcess(
            "the child", Path(sys.executable), module, 1, environment, isolated=True
        ) as child,
        pytest.raises(RuntimeError, match="this is another package"),
    ):
        child.call("load", folder=str(tmp_path), threads=1)


@pytest.mark.parametrize("bad", ["--prompt 4", "--rounds 0", "--streams 0", "--frames 4090"])
def test_settings_that_make_no_sense_are_refused(
    bad: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["standard.py", *bad.split()])
    with pytest.raises(SystemExit):
        standard.parse()
    assert bad.split()[0] in capsys.readouterr().err
