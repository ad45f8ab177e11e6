"""The engine's benchmarks run and report every figure; no test depends on speed."""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.common import comparison
from benchmarks.common.memory import peak_bytes, resident_bytes
from benchmarks.common.random_checkpoint import config_from, write_checkpoint
from benchmarks.common.step_limit import Rates, StepWork, weight_bytes
from benchmarks.cpu import chat_child
from benchmarks.cpu.velocity import __main__ as velocity
from benchmarks.cpu.velocity.plot import draw
from benchmarks.cpu.velocity.report import table
from ChatTTS.config import EmbedConfig, GPTConfig

from ..support.benchmark_tools import (
    FIGURES,
    TINY,
    InProcessChild,
    arguments,
    peer_python,
    run_command,
)

SMALL = "--prompt 10 --frames 8 --threads 1 --rounds 2 --streams 1 3 --sample-frames 100"
QUICK = [*TINY.split(), *SMALL.split(), *["--read-mb", "1", "--passes", "1", "--kv-memory", "4MB"]]


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Run the whole command at the tiny size, all in this process."""
    monkeypatch.setattr(InProcessChild, "calls", [], raising=False)
    monkeypatch.setattr(comparison, "ChildProcess", InProcessChild)
    monkeypatch.setattr(velocity, "ChildProcess", InProcessChild)
    given = [*QUICK, "--dtypes", "int8", "--peer-python", "unused"]
    args = arguments(monkeypatch, velocity, *given)
    config = config_from(args)
    write_checkpoint(tmp_path, config)
    yield velocity.measure(args, config, tmp_path)
    chat_child.chat.unload()


@pytest.mark.thorough
def test_velocity_reports_every_figure(report: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")

    assert json.loads(json.dumps(report)) == report
    assert report["command"].startswith("python ")
    assert set(report["machine"]) == {"cpu", "cores", "system"}
    assert set(report["sides"]) == {"int8", "peer"}
    assert [result["streams"] for result in report["results"]] == [1, 3]
    for result in report["results"]:
        for key in ("int8", "peer"):
            assert set(result["medians"][key]) == FIGURES
            assert len(result["rounds"][key]) == 2
            limit = result["limits"][key]
            assert limit["factor"] == result["medians"][key]["step_ms"] / limit["step_ms"]
            assert limit["generate_frames_per_s"] > 0
        assert result["medians"]["peer"]["infer_s"] == 2000
        assert set(result["ratios"]) == {"int8"}
        ratio = result["ratios"]["int8"]["infer"]
        assert ratio["median"] > ratio["min"] > 1

    assert all(rate > 0 for rate in report["limits"]["read_gb_s"].values())
    assert set(report["limits"]["product_gflop_s"]) == {"float32", "bfloat16", "int8"}

    start = report["starts"]["int8"]
    for which in ("first", "second"):
        assert set(start[which]) == {"import_s", "load_s", "grown"}
        assert start[which]["load_s"] > 0
    assert start["weights"] > 0
    assert start["beyond"] == start["second"]["grown"] - start["weights"]
    assert 3 << 20 < start["pool"] <= 4 << 20

    again = report["again"]["int8"]
    assert len(again["rounds"]) == 2
    for one in again["rounds"]:
        assert one["prompt"] == 136
        # The second time whole blocks are cached; the last position is always computed.
        assert one["computed"][0] == one["prompt"]
        assert 1 <= one["computed"][1] <= 32
    assert again["ratio"]["min"] <= again["ratio"]["median"] <= again["ratio"]["max"]

    over = report["overhead"]["int8"]
    assert over["streams"] == 3
    assert over["steps"] >= 8
    assert over["model_s"] + over["engine_s"] < over["wall_s"]
    assert 0 < over["engine_share"] < over["outside_share"] < 1

    printed = table(report)
    for words in ("velocity int8", "ChatTTS 0.2.5", "times faster", "limit", "the same again"):
        assert words in printed
    draw(report, tmp_path / "out.png")
    assert (tmp_path / "out.png").stat().st_size > 1000


@pytest.mark.thorough
def test_velocity_never_gives_a_text_twice(report: dict[str, Any]) -> None:
    """A repeated prompt would be in the prefix cache and cost less."""
    asked = [
        given["texts"]
        for module, _, given in InProcessChild.calls
        if module == "benchmarks.cpu.velocity.child" and "texts" in given
    ]
    # Two numbers of streams, a warm-up and two rounds each, in two ways; that of the overhead.
    assert len(asked) == 2 * 3 * 2 + 1
    spoken = [text for texts in asked for text in texts]
    assert len(set(spoken)) == len(spoken)


def test_sides_start_with_cache_folders_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    args = arguments(
        monkeypatch, velocity, "--dtypes", "bfloat16", "float32", "standard:float32", "float32"
    )
    sides = velocity.sides(args, tmp_path)

    assert [side.key for side in sides] == ["bfloat16", "float32", "standard:float32"]
    ours = sides[:2]
    assert all(side.generates_separately and side.load["use_vllm"] for side in ours)
    assert len({side.environment["XDG_CACHE_HOME"] for side in ours}) == 2
    assert sides[2].load == {"dtype": "float32", "use_vllm": False}


@pytest.mark.smoke
def test_limit_of_a_step_is_bytes_or_operations() -> None:

    work = StepWork.of(GPTConfig(), "bfloat16", "bfloat16")
    assert work.position_bytes == 61_440
    llama = 20 * (4 * 768 * 768 + 3 * 768 * 3072)
    head = 4 * 626 * 768
    assert work.weight_bytes == 2 * (llama + head)
    eight_bits = StepWork.of(GPTConfig(), "int8", "bfloat16")
    assert eight_bits.weight_bytes == llama + 2 * head
    assert eight_bits.position_bytes == 32_640  # with a scale for 64 keys or values
    everything = weight_bytes(GPTConfig(), EmbedConfig(), "int8", "float32")
    assert everything == llama + 4 * 41 * 768 + 4 * 2 * 768 * (21178 + 4 * 626)

    slow_memory = Rates(read=1e9, products=1e18)
    limit = work.limit(slow_memory, streams=2, prompt=50, frames=3)
    at = [(work.weight_bytes + 2 * length * 61_440) / 1e6 for length in (50, 51, 52)]
    assert limit["prompt_ms"] == pytest.approx(at[0])
    assert limit["decode_ms"] == pytest.approx((at[1] + at[2]) / 2)
    assert limit["step_ms"] == pytest.approx(sum(at) / 3)
    assert limit["read_bound"] == 1

    slow_products = Rates(read=1e18, products=1e12)
    limit = work.limit(slow_products, streams=2, prompt=2, frames=2)
    attention = 20 * 4 * 768  # operations per position: products with keys and with values
    assert limit["prompt_ms"] == pytest.approx(2 * (2 * 2 * llama + 2 * head + 3 * attention) / 1e9)
    assert limit["decode_ms"] == pytest.approx(2 * (2 * (llama + head) + 3 * attention) / 1e9)
    assert limit["read_bound"] == 0


def test_rates_are_the_best_that_serve_the_weights() -> None:

    measured = {
        "read_gb_s": {"one way": 10.0, "another": 20.0},
        "product_gflop_s": {
            "float32": {"torch": 5.0, "kernels": 4.0},
            "bfloat16": {"torch": 7.0, "kernels": 9.0},
            "int8": {"kernels": 8.0},
        },
    }

    assert Rates.of(measured, "float32") == Rates(20e9, 5e9)
    assert Rates.of(measured, "int8") == Rates(20e9, 9e9)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only the peak is known here")
def test_memory_knows_the_peak() -> None:

    before = resident_bytes()
    # Pages of its own: the heap may hold as many that earlier tests have used and given back.
    with mmap.mmap(-1, 64 << 20) as held:
        held.write(b"x" * len(held))
        grown = resident_bytes()

    assert 1 << 20 < before < grown
    # Linux counts by thread and adds up now and then: a few pages may be missing in either.
    assert peak_bytes() > grown - (1 << 20) > before


@pytest.mark.parametrize(
    "bad", ["--dtypes float16", "--sample-frames 4090", "--read-mb 0", "--frames 4090"]
)
def test_settings_that_make_no_sense_are_refused(
    bad: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        arguments(monkeypatch, velocity, *bad.split())
    assert bad.split()[0] in capsys.readouterr().err


def run_velocity(tmp_path: Path, *given: str) -> dict[str, Any]:
    report, printed = run_command("cpu.velocity", tmp_path, *QUICK, *given)
    assert "the same again" in printed
    return report


@pytest.mark.thorough
def test_velocity_runs_all_its_processes(tmp_path: Path) -> None:
    report = run_velocity(
        tmp_path, "--dtypes", "bfloat16", "standard:float32", "--plot", str(tmp_path / "out.png")
    )

    assert set(report["sides"]) == {"bfloat16", "standard:float32"}
    assert set(report["starts"]) == set(report["again"]) == {"bfloat16"}
    assert report["starts"]["bfloat16"]["first"]["grown"] > 0
    assert (tmp_path / "out.png").exists()


@pytest.mark.peer
def test_velocity_runs_the_peer_beside_ours(tmp_path: Path) -> None:
    report = run_velocity(tmp_path, "--dtypes", "int8", "--peer-python", peer_python())

    assert report["sides"]["peer"]["versions"]["package"] == "ChatTTS 0.2.5"
    for result in report["results"]:
        assert set(result["ratios"]["int8"]) == {"generate", "infer"}
