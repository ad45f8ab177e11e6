"""The GPU benchmark's own logic, on a CPU at a tiny size; no test depends on speed."""

from __future__ import annotations

import importlib
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ..support.places import ROOT

pytest.importorskip("triton")

FOUND_OF_STEPS = {"step_ms", "host_us", "read_us", "floor_ms", "share_of_limit", "frames_per_s"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that all parts share."""
    return tmp_path_factory.mktemp("gpu")


def do(module: str, folder: Path, scale: Any = None, **given: Any) -> dict[str, Any]:
    """Run the part in ``module`` and return its record."""
    from benchmarks.gpu.scale import TINY, Record, Task

    file = folder / f"{module}.json"
    task = Task(scale or TINY, folder, Record(file), time.time())
    importlib.import_module(f"benchmarks.gpu.{module}").measure(task, **given)
    found = json.loads(file.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def shown(name: str, found: dict[str, Any]) -> str:
    from benchmarks.gpu.report import table

    return table({"parts": {name: found}})


# ---------------------------------------------------------------- parts


def test_machine(folder: Path) -> None:
    found = do("machine", folder)

    assert found["device"] == "no GPU"
    assert found["versions"]["torch"] == torch.__version__
    assert found["copy_gb_s"] > 0
    assert torch.__version__ in shown("machine", found)


@pytest.mark.parametrize("batch_invariant", [True, False])
def test_steps(folder: Path, on_triton: None, batch_invariant: bool) -> None:
    found = do("steps", folder, dtype="float32", batch_invariant=batch_invariant)

    assert list(found["streams"]) == ["1", "3"]
    for streams, own in found["streams"].items():
        assert set(own) - {"finite"} == FOUND_OF_STEPS
        assert own["finite"]
        assert own["frames_per_s"] == pytest.approx(1000 * int(streams) / own["step_ms"]["median"])
        assert own["share_of_limit"] == pytest.approx(own["floor_ms"] / own["step_ms"]["median"])
    # Two layers, the heads, and the KV cache of 40 positions, four bytes an element.
    weights = 4 * (2 * (4 * 64 * 64 + 3 * 64 * 128) + 4 * 626 * 64)
    read = weights + 3 * 40 * 2 * 2 * 64 * 4
    assert found["streams"]["3"]["floor_ms"] == pytest.approx(read / found["copy_gb_s"] / 1e6)
    assert found["prompt_ms"]["9"]["median"] > 0
    assert "a prompt of 9" in shown("steps float32", found)


def test_kernels_and_expectations_of_steps(folder: Path, on_triton: None) -> None:
    (folder / "expected-steps.json").write_text('{"3": 0.125}')
    found = do("steps", folder, dtype="bfloat16", details=True)

    for own in found["kernels"].values():
        assert own["busy_us"] == pytest.approx(sum(each["us"] for each in own["each"]))
    assert "expected_ms" not in found["streams"]["1"]
    assert found["streams"]["3"]["expected_ms"] == 0.125
    assert all(own["without_overlap_ms"] > 0 for own in found["streams"].values())
    lines = shown("steps bfloat16", found)
    assert "without overlap" in lines
    assert " 0.125 " in lines
    assert "1 streams: " in lines


def test_steps_are_timed_where_they_should_be(folder: Path, on_triton: None) -> None:
    """Steps are timed around the requested length, with separate KV blocks for each sequence."""
    from benchmarks.gpu.scale import TINY, Record, Task
    from benchmarks.gpu.steps import load

    loaded = load(Task(TINY, folder, Record(folder / "x.json"), time.time()), "float32")
    streams = loaded.lay_out(3)
    tables, first = [work.block_table for work in streams.works], streams.works[0].start
    streams.run(1)()

    assert len({block for table in tables for block in table}) == 3 * loaded.blocks
    assert {block for table in tables for block in table} <= set(range(len(loaded.pool)))
    assert loaded.steps._positions[:3].tolist() == [first + 1] * 3
    assert first < TINY.positions <= first + 1 + TINY.steps


@pytest.mark.thorough
def test_adapters(folder: Path, on_triton: None) -> None:
    found = do("adapters", folder, dtype="float32")

    assert list(found["is_right"].values()) == [True] * 3
    for own in found["streams"].values():
        assert list(own) == ["not loaded", "none", "one", "two and none"]
        assert all(spread["min"] > 0 for spread in own.values())
    assert set(found["prompt_ms"]) == {"not loaded", "one"}
    lines = shown("adapters float32", found)
    assert "yes  rows without are as on an engine without" in lines
    assert "rank 16" in lines


def test_rows_that_adapters_change_are_found(folder: Path, on_triton: None) -> None:
    """Rows without an adapter that would get one."""
    from ChatTTS.model.velocity.backends.cuda import operations

    right: Any = vars(operations)["to_ranks"]

    def wrong(x: Any, low: Any, adapter_of: Any, **given: Any) -> Any:
        return right(x, low, adapter_of.clamp_min(0), **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operations, "to_ranks", wrong)
        with pytest.raises(RuntimeError, match="lone run; rows without"):
            do("adapters", folder, dtype="float32")


def test_engine(folder: Path, on_triton: None) -> None:
    found = do("engine", folder, dtype="float32")

    assert {"import_s", "load_s", "cache_s", "first_request_s", "behind_s"} <= set(found)
    for own in found["streams"].values():
        assert set(own) == {"frames_per_s", "step_ms", "first_frame_ms", "host_us"}
        assert all(spread["min"] > 0 for spread in own.values())
    assert "first frame" in shown("engine float32", found)


def test_a_start_alone(folder: Path, on_triton: None) -> None:
    found = do("engine", folder, dtype="float32", runs=False)

    assert found["first_request_s"] > 0
    assert "streams" not in found


def test_products(folder: Path, on_triton: None) -> None:
    found = do("products", folder, dtype="float32")

    for own in found["rows"].values():
        assert set(own["us"]) == {"qkv", "out", "gate_up", "down"}
        for way, total in own["layer_us"].items():
            assert total == pytest.approx(sum(each[way] for each in own["us"].values()))
    assert "SKINNY_ROWS" in shown("products float32", found)


def test_where_the_kernel_wins() -> None:
    from benchmarks.gpu.products import _wins

    def rows(kernel: float, library: float) -> dict[str, Any]:
        return {"layer_us": {"kernel": kernel, "library": library}}

    results = {"1": rows(1, 2), "8": rows(2, 2), "16": rows(3, 2), "32": rows(1, 2)}
    assert _wins(results) == 8
    assert _wins({"1": rows(3, 2)}) == 0


@pytest.mark.parametrize("part", ["attention", "standard"])
def test_other_figures(folder: Path, on_triton: None, part: str) -> None:
    found = do(part, folder, dtype="float32")

    assert "1 streams" in shown(f"{part} float32", found)
    if part == "standard":
        assert set(found["streams"]) == {"transformers"}
        assert found["streams"]["transformers"]["3"]["path_ms"]["median"] > 0
    else:
        assert found["streams"]["3"]["gb_s"] > 0


def test_sound(folder: Path) -> None:
    found = do("sound", folder, dtype="float32")

    assert set(found["first_sound_ms"]) == {"stream", "low_latency"}
    # Eight frames of 1 / 46.875 s each.
    own = found["streams"]["1"]
    assert own["rtf"] == pytest.approx(own["infer_s"]["median"] / (8 / 46.875))
    assert "RTF" in shown("sound float32", found)


# ---------------------------------------------------------------- checks


@pytest.mark.thorough
def test_kernels_are_right(folder: Path) -> None:
    found = do("kernels", folder, dtype="float32")

    assert found["wrong"] == []
    assert len(found["checks"]) > 20
    assert "checks are right" in shown("kernels float32", found)


@pytest.mark.parametrize("harm", ["wrong row", "no result"])
def test_a_broken_kernel_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch, harm: str) -> None:
    from benchmarks.gpu.scale import TINY
    from ChatTTS.model.kernels.cuda import attention, products

    right = attention.attend_rows

    def broken(query: Any, *given: Any, **named: Any) -> Any:
        if harm == "no result":
            raise RuntimeError("it does not compile")
        result = right(query, *given, **named)
        result[0] *= 1.001
        return result

    monkeypatch.setattr(attention, "attend_rows", broken)
    # The products, which are to stay right, use their quick torch reference.
    monkeypatch.setattr(products, "product", products.product_torch)
    with pytest.raises(RuntimeError, match="wrong in float32"):
        do("kernels", folder, replace(TINY, check_rows=(1, 2)), dtype="float32")
    found = json.loads((folder / "kernels.json").read_text(encoding="utf-8"))
    wrong = [name for name in found["wrong"] if "attention" in name and "prompt" not in name]
    assert "attention, 2 rows" in wrong
    assert not any("norm" in name for name in found["wrong"])
    assert wrong[0] in shown("kernels float32", found)


@pytest.mark.thorough
def test_codes_are_compared_with_the_published_ones(folder: Path) -> None:
    found = do("codes", folder, models=["model-a"])

    model = found["models"]["model-a"]
    assert model["requests"] == 17
    assert model["frames"] > 500
    assert all(model["is_right"].values())
    assert "17 requests" in shown("codes", found)


@pytest.mark.parametrize("harm", ["ids", "hiddens", "length"])
def test_other_codes_are_found(folder: Path, monkeypatch: pytest.MonkeyPatch, harm: str) -> None:
    from benchmarks.gpu import codes

    _, expected = codes._cases("model-a")

    def answers(name: str, requests: Any, device: str, **settings: Any) -> list[Any]:
        ids = [codes.copy() for codes in expected]
        hiddens = [torch.zeros(len(codes), 8) for codes in expected]
        if device != "cpu":
            if harm == "ids":
                ids[3][-1, 2] += 1
            elif harm == "hiddens":
                hiddens[5][0, 0] = 3e-5
            else:
                ids[7], hiddens[7] = ids[7][:-1], hiddens[7][:-1]
        return list(map(codes.Answer, ids, hiddens))

    monkeypatch.setattr(codes, "_answers", answers)
    from benchmarks.gpu.scale import TINY

    with pytest.raises(RuntimeError, match="model-a"):
        do("codes", folder, replace(TINY, device="cuda:0"), models=["model-a"])
    right = json.loads((folder / "codes.json").read_text("utf-8"))["models"]["model-a"]["is_right"]
    assert right["codes are the CPU's"] == (harm == "hiddens")
    assert right["hiddens are the CPU's"] == (harm == "ids")
    assert right["not a bit depends on the batch"]


@pytest.mark.smoke
def test_what_pytest_says_is_understood() -> None:
    from benchmarks.gpu.cuda_tests import command, outcome_of, unread_file
    from benchmarks.gpu.scale import FULL

    assert outcome_of("tests/test_a.py::test_b[x] PASSED   [ 10%]") == "PASSED"
    assert outcome_of("[gw1] [ 10%] FAILED tests/test_a.py::test_b ") == "FAILED"
    assert outcome_of("FAILED tests/test_a.py::test_b - assert False") is None
    assert outcome_of("==== 1 FAILED ====") is None
    collecting = "_____ ERROR collecting tests/test_a.py _____"
    assert outcome_of(collecting) is None
    assert unread_file(collecting) == "tests/test_a.py"
    assert unread_file("tests/test_a.py::test_b ERROR") is None

    whole = command(FULL.tests, without_package=False)
    for file in (
        "kernels/cuda/test_products",
        "synthesis/test_streaming_decoder",
        "velocity/backends/torch/test_sampler",
    ):
        assert f"tests/model/{file}.py" in whole
    assert "--noconftest" not in whole
    assert "--noconftest" in command(FULL.tests, without_package=True)


@pytest.mark.thorough
def test_the_tests_are_run(folder: Path) -> None:
    found = do("cuda_tests", folder)

    assert set(found["counts"]) == {"PASSED"}
    assert " PASSED" in shown("tests", found)


# ---------------------------------------------------------------- the published package


class FakePublishedChild:
    """A fake child process that reports a second of generation per frame."""

    def __init__(self, *given: Any, isolated: bool) -> None:
        assert isolated
        self.environment = given[-1]

    def __enter__(self) -> FakePublishedChild:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def call(self, do: str, **given: Any) -> dict[str, Any]:
        assert str(ROOT) not in self.environment["PYTHONPATH"].split(os.pathsep)
        if do == "load":
            return {"load_s": 1.0, "versions": {"package": "ChatTTS 0.2.5"}}
        count = given["frames"]
        return {"generate_s": float(count), "frames": [count] * len(given["texts"])}


def test_the_peer_is_apart_from_ours(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.gpu import published

    monkeypatch.setattr(published, "ChildProcess", FakePublishedChild)
    monkeypatch.setattr(published, "whole_checkpoint", lambda task: folder)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv(published.SITE, "/site")
    found = do("published", folder)

    assert found["streams"]["8"]["path_ms"]["median"] == 1000
    assert "ChatTTS 0.2.5" in shown("peer", found)


def test_without_the_peer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.gpu import published

    monkeypatch.delenv(published.SITE, raising=False)
    found = do("published", folder)

    assert "stands in" in found["skipped"]
    assert "not done" in shown("peer", found)


# ---------------------------------------------------------------- the model


def test_a_language_model_is_random_and_written_once(folder: Path, on_triton: None) -> None:
    from benchmarks.gpu.model import language_model, prompt
    from benchmarks.gpu.scale import TINY, Record, Task

    task = Task(TINY, folder, Record(folder / "x.json"), time.time())
    file = language_model(task) / "asset" / "gpt" / "model.safetensors"
    before = file.stat().st_mtime_ns
    assert language_model(task) / "asset" / "gpt" / "model.safetensors" == file
    assert file.stat().st_mtime_ns == before
    first, second = (prompt(TINY.gpt, 30, number).text for number in (1, 2))
    assert not np.array_equal(first, second)
