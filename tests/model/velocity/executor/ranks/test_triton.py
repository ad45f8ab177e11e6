"""Ranks on Triton kernels have the bits of one rank, which runs captured steps."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch

from ChatTTS.model.velocity.configs import EngineArgs
from ChatTTS.model.velocity.layers import Llama
from ChatTTS.model.velocity.model_loader import ModelLoader
from ChatTTS.model.velocity.worker import Worker

from .....support.capture_tools import capture_anywhere
from .....support.kernel_tools import DEVICE, EMULATED
from .....support.places import DATA
from .....support.rank_tools import RankedWorker
from .....support.torch_references import use_torch_references
from .....support.velocity_driver import Driver, make_data

from ChatTTS.model.velocity.backends.cuda.decode_steps import buckets  # isort: skip
from ChatTTS.model.velocity.backends.cuda.sampler import TritonSampler  # isort: skip


def compare(sizes: tuple[int, int], name: str, steps: int, **changes: Any) -> None:
    """Compare prompts in parts and decode steps, of three sequences side by side."""
    hidden = {"model-a": 64, "model-b": 96}[name]
    datas = [
        make_data(0, length=5, hidden=hidden),
        make_data(1, length=9, codes=2, hidden=hidden),
        make_data(2, length=18, hidden=hidden),
    ]
    usual: dict[str, Any] = {"model": DATA / name, "device": str(DEVICE), "block_size": 8}
    usual |= {"kv_memory": "8MB", "max_num_seqs": 3, "max_num_batched_tokens": 16, **changes}
    alone = Worker(EngineArgs(**usual).create_engine_config())
    alone.init_cache(alone.plan_cache())
    expected = Driver(alone, datas).run(steps, chunk=5)
    ranks, stages = sizes
    usual |= {"tensor_parallel_size": ranks, "pipeline_parallel_size": stages}
    worker = RankedWorker(EngineArgs(**usual).create_engine_config())
    found = Driver(cast(Worker, worker), datas).run(steps, chunk=5)
    for seq_id, told in found.items():
        assert told.ids == expected[seq_id].ids
        assert torch.stack(told.hiddens).equal(torch.stack(expected[seq_id].hiddens))


@pytest.fixture(autouse=True)
def _triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelLoader, "_team", lambda loader: None)
    monkeypatch.setattr(ModelLoader, "_has_triton", lambda *_: True)
    capture_anywhere(monkeypatch, late=True)


@pytest.mark.parametrize("sizes", [(1, 2), (2, 1)], ids=str)
def test_no_request_waits_for_a_compilation(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int]
) -> None:
    """Each number of rows is launched before there are requests, by all ranks together."""
    use_torch_references(monkeypatch)
    launched: list[tuple[str, int]] = []
    layers, draw = Llama.apply_layers, TritonSampler.__call__

    def compute(self: Any, x: Any, *rest: Any, **options: Any) -> Any:
        launched.append(("layers", len(x)))
        return layers(self, x, *rest, **options)

    def sample(self: Any, logits: Any, rows: Any) -> Any:
        launched.append((("codes", "texts")[logits.shape[1] == 1], len(rows)))
        return draw(self, logits, rows)

    monkeypatch.setattr(Llama, "apply_layers", compute)
    monkeypatch.setattr(TritonSampler, "__call__", sample)
    ranks, stages = sizes
    worker = RankedWorker(
        EngineArgs(
            DATA / "model-a",
            device=str(DEVICE),
            block_size=8,
            kv_memory="8MB",
            max_num_seqs=5,
            max_num_batched_tokens=32,
            tensor_parallel_size=ranks,
            pipeline_parallel_size=stages,
        ).create_engine_config()
    )
    assert {rows for what, rows in launched if what == "layers"} == set(buckets(32))
    for what in ("codes", "texts"):
        assert {rows for kind, rows in launched if kind == what} == {1, 2, 4, 5}
    states = [each._runner.states for each in worker._workers]  # type: ignore[union-attr]
    assert not any(states)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "name", "dtype", "quantization"),
    [
        ((2, 1), "model-a", "bfloat16", None),
        ((3, 1), "model-b", "float32", None),
        ((2, 2), "model-a", "float32", None),
        ((3, 1), "model-b", "bfloat16", "int8"),
    ],
    ids=str,
)
def test_bits_of_compiled_kernels(
    monkeypatch: pytest.MonkeyPatch,
    sizes: tuple[int, int],
    name: str,
    dtype: str,
    quantization: str | None,
) -> None:
    if not (EMULATED or torch.cuda.is_available()):
        pytest.skip("needs compiled kernels: tests/ptx runs it")
    # In the emulator the launches before the first request take most of the time.
    monkeypatch.setattr(Worker, "_launch_all", lambda worker, cache: None)
    compare(sizes, name, 2, dtype=dtype, quantization=quantization)
