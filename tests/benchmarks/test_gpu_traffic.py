"""Joins, leaves and other work beside a stream, and the checks of bits, on a CPU at a tiny size.

No test depends on speed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("triton")

from ..ptx.children import needs_emulator
from ..support.places import ROOT
from .test_gpu import do, shown

# ---------------------------------------------------------------- joins and leaves


def test_traffic_joins_and_leaves(tmp_path: Path, on_triton: None) -> None:
    found = do("joins", tmp_path, dtype="float32")

    assert list(found["streams"]) == ["1", "3"]
    for own in found["streams"].values():
        assert 0 <= own["waited"] < 1
        assert own["step_ms"] > 0
    assert "the device waits" in shown("joins float32", found)


@pytest.mark.smoke
def test_requests_of_traffic_fit_the_model() -> None:
    from benchmarks.gpu.model import traffic
    from benchmarks.gpu.scale import TINY
    from ChatTTS.model.random_numbers import Pass

    requests = list(islice(traffic(TINY.gpt), 40))
    kinds = [request.key.kind for request in requests]
    assert kinds.count(Pass.REFINE) == 5
    for request in requests:
        most = request.sampling.max_new
        assert len(request.prompt) + most <= TINY.gpt.max_position_embeddings
        assert request.sampling.min_new == most > 0
    again = [request.sampling for request in islice(traffic(TINY.gpt), 40)]
    assert again == [request.sampling for request in requests]


def test_no_plan_knows_when_a_request_of_the_timed_traffic_ends() -> None:
    from benchmarks.gpu.joins import _unpredictable
    from benchmarks.gpu.model import traffic
    from benchmarks.gpu.scale import TINY

    pairs = islice(zip(_unpredictable(TINY), traffic(TINY.gpt), strict=False), 40)
    for request, planned in pairs:
        assert request.sampling.min_new == 0
        assert request.sampling.max_new == planned.sampling.max_new
        assert request.key == planned.key


def test_the_device_waits_between_plans_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.gpu import joins

    times = iter([10.0, 12.0, 12.5, 13.0, 16.0, 17.0])
    monkeypatch.setattr(joins, "time", SimpleNamespace(perf_counter=lambda: next(times)))
    monkeypatch.setattr(joins, "_execute_model", lambda runner, plan: plan)
    clock = joins.SubmitClock(torch.device("cpu"))
    runner: Any = None
    plans: list[Any] = [1, 2, 3]
    assert [clock.execute_model(runner, plan) for plan in plans] == plans
    assert clock.seconds() == (7.0, 3.5)


# ---------------------------------------------------------------- beside a stream


class FakeChat:
    """Streams pieces of 100 ms each; the clock moves by a given time before each of them."""

    def __init__(self, clock: list[float], delays: list[float]) -> None:
        self._clock, self._delays = clock, delays

    def stream(self, text: str, **settings: Any) -> Iterator[Any]:
        for number, delay in enumerate(self._delays):
            self._clock[0] += delay
            yield SimpleNamespace(samples=np.full(2400, number, np.float32))


def listen(monkeypatch: pytest.MonkeyPatch, delays: list[float]) -> Any:
    from benchmarks.gpu import beside
    from benchmarks.gpu.scale import TINY

    clock = [0.0]
    monkeypatch.setattr(beside, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    chat: Any = FakeChat(clock, delays)
    return beside._listen(chat, TINY)


def test_a_player_pauses_where_a_piece_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = listen(monkeypatch, [5.0, 0.05, 0.01, 0.5, 0.1])
    # 300 ms of sound began at 5.0, and the fourth piece came at 5.56.
    assert heard.silent == pytest.approx(0.26)
    assert heard.gap == pytest.approx(0.5)
    assert len(heard.samples) == 5 * 2400


def test_other_samples_are_noticed() -> None:
    from benchmarks.gpu.beside import Heard, _told

    alone = Heard(np.ones(100, np.float32), 0, 0)
    assert _told(alone, alone)["difference"] == 0
    near = replace(alone, samples=alone.samples * np.float32(1.01))
    assert _told(near, alone)["difference"] == pytest.approx(0.01, rel=1e-3)
    for other in (alone.samples[1:], alone.samples * np.float32("nan")):
        assert _told(replace(alone, samples=other), alone)["difference"] == float("inf")


@pytest.mark.parametrize("harm", ["", "failing work", "other samples"])
def test_a_disturbed_stream_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    from benchmarks.gpu import beside

    disturbed, heard = threading.Event(), threading.Event()

    class Chat(FakeChat):
        def sample_audio_speaker(self, wav: Any) -> str:
            disturbed.set()
            if harm == "failing work":
                raise RuntimeError("a capture was broken")
            heard.wait()  # until a stream has run beside it
            return ""

        def infer(self, texts: Any, **settings: Any) -> None:
            pass

        def unload(self) -> None:
            pass

        def stream(self, text: str, **settings: Any) -> Iterator[Any]:
            is_beside = disturbed.is_set()
            for piece in super().stream(text):
                if is_beside and harm == "other samples":
                    piece.samples = -piece.samples
                yield piece
            if is_beside:
                heard.set()

    monkeypatch.setattr(beside, "whole_checkpoint", lambda task: tmp_path)
    monkeypatch.setattr(beside, "_loaded", lambda *_: Chat([0.0], [0.0] * 4))
    if not harm:
        found = do("beside", tmp_path, dtype="float32")
        assert len(found["beside"]) == 3
        assert all(own["times"] > 0 for own in found["beside"].values())
    else:
        with pytest.raises(RuntimeError, match="sample prompts read"):
            do("beside", tmp_path, dtype="float32")


@pytest.mark.thorough
def test_a_stream_beside_other_work(tmp_path: Path) -> None:
    found = do("beside", tmp_path, dtype="float32")

    assert all(own["difference"] == 0 for own in found["beside"].values())
    assert "another model loaded: silent" in shown("beside float32", found)


# ---------------------------------------------------------------- bits


@pytest.mark.thorough
@pytest.mark.parametrize(
    "harm", ["", "tile", "rows", "failing", "attention", "prompts", "new rows"]
)
def test_other_bits_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str) -> None:
    from benchmarks.gpu.scale import TINY
    from ChatTTS.model.kernels import torch_references
    from ChatTTS.model.kernels.cuda import (
        attention,
        output_product,
        products,
        prompt_attention,
        rotary,
    )

    def row_of(ranks: Any, row: int) -> Any:
        own = slice(row, row + 1)
        return replace(ranks, values=ranks.values[own], adapter_of=ranks.adapter_of[own])

    # References whose rows are computed one by one stand in for the kernels.
    def product(x: torch.Tensor, weight: torch.Tensor, **given: Any) -> torch.Tensor:
        residual, ranks = given.pop("residual", None), given.pop("ranks", None)
        rows = [
            products.product_torch(
                x[row : row + 1],
                weight,
                residual=None if residual is None else residual[row : row + 1],
                ranks=None if ranks is None else row_of(ranks, row),
                **given,
            )
            for row in range(len(x))
        ]
        result = torch.cat(rows)
        if harm == "rows" and len(x) == 5:
            result[0, 0] = torch.nextafter(result[0, 0], result.new_tensor(9.0))
        return result

    def compute(config: Any, x: Any, weight: Any, out: Any, *, added: bool, **given: Any) -> None:
        if harm == "failing" and not given["norm"]:
            raise RuntimeError("out of shared memory")
        out.copy_(product(x, weight, residual=out.clone() if added else None, **given))
        if harm == "tile" and config.tile_rows != 4:
            out[-1, -1] = torch.nextafter(out[-1, -1], out.new_tensor(9.0))

    def attend(query: torch.Tensor, *given: Any, **named: Any) -> torch.Tensor:
        found = torch_references.attend_rows_torch(query, *given, **named)
        return found * (1 + 1e-6 * (harm == "attention" and len(query) == 5))

    def attend_prompts(*given: Any, tile_rows: int, **named: Any) -> torch.Tensor:
        found = torch_references.attend_rows_torch(*given, **named)
        return found * (1 + 1e-6 * (harm == "prompts" and tile_rows > 1))

    def attend_new(qkv: torch.Tensor, *given: Any, **named: Any) -> Any:
        found = attention.attend_new_rows_torch(qkv, *given, **named)
        if harm == "new rows" and len(qkv) == 2:
            found.sums[0, 0, 0, 0] += 1e-3
        return found

    def project(splits: Any, weight: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        merged = splits.merged_torch(weight.dtype).flatten(1)
        return product(merged, weight, residual=residual)

    monkeypatch.setattr(products, "product", product)
    monkeypatch.setattr(products, "compute", compute)
    monkeypatch.setattr(attention, "attend_rows", attend)
    monkeypatch.setattr(attention, "attend_new_rows", attend_new)
    monkeypatch.setattr(prompt_attention, "attend_prompts", attend_prompts)
    monkeypatch.setattr(output_product, "product_of_splits", project)
    monkeypatch.setattr(rotary, "rotate_and_store", torch_references.rotate_and_store_torch)
    scale = replace(TINY, bit_rows=6)
    if not harm:
        found = do("bits", tmp_path, scale, dtype="float32")
        assert found["wrong"] == []
        assert "0 are wrong" in shown("bits float32", found)
        return
    expected = {
        "tile": "product qkv, product_by_lanes ",
        "rows": "product down, 5 rows",
        "failing": "product out, which failed",
        "attention": "attention, 5 rows",
        "prompts": "attention, tiles of 4",
        "new rows": "new rows, 2 rows",
    }
    with pytest.raises(RuntimeError, match=expected[harm]):
        do("bits", tmp_path, scale, dtype="float32")


@needs_emulator
@pytest.mark.thorough
def test_bits_of_compiled_kernels(tmp_path: Path) -> None:
    """A rehearsal compares compiled kernels in the emulator."""
    file = tmp_path / "bits.json"
    command = [sys.executable, "-m", "benchmarks.gpu.part", "bits", str(file), "--dry-run"]
    given = json.dumps({"dtype": "bfloat16"})
    subprocess.run([*command, "--folder", str(tmp_path), "--given", given], cwd=ROOT, check=True)
    found = json.loads(file.read_text(encoding="utf-8"))
    assert found["wrong"] == []
    assert found["right"] > 30
