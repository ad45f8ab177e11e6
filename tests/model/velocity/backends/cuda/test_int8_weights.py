"""The engine with weights in eight bits, as it runs on a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from .....support.torch_references import use_torch_references
from .....support.velocity_driver import Driver, everything
from .test_adapters import STEPS, assert_near, save_two, with_adapters
from .test_engine import make_engine, make_requests, make_worker, run_staggered, take_triton

from ChatTTS.model.kernels.int8 import quantize_weights  # isort: skip
from ChatTTS.model.velocity.backends.cuda import operations  # isort: skip

INT8: dict[str, Any] = {"quantization": "int8"}


@pytest.fixture(autouse=True)
def _on_torch_references(monkeypatch: pytest.MonkeyPatch) -> None:
    take_triton(monkeypatch)
    use_torch_references(monkeypatch)


def widened(weight: Tensor) -> tuple[Tensor, None]:
    """Round weights to eight bits, and return them in float32."""
    numbers, scales = quantize_weights(weight)
    return numbers * scales.unsqueeze(1), None


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [3, 10_000])
def test_the_ids_of_weights_that_were_rounded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, chunk: int
) -> None:
    """Texts and codes, with adapters, which stay in float32, and without."""
    datas, adapters = with_adapters(everything()), save_two(tmp_path)
    found = Driver(make_worker(adapters=adapters, **INT8), datas).run(STEPS, chunk=chunk)
    exact = Driver(make_worker(adapters=adapters), datas).run(STEPS)
    monkeypatch.setattr(operations, "quantize_weights", widened)
    expected = Driver(make_worker(adapters=adapters, **INT8), datas).run(STEPS)
    assert_near(found, expected)
    for seq_id, own in found.items():
        assert own.hiddens[0].sub(exact[seq_id].hiddens[0]).abs().max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"max_num_seqs": 1, "enable_prefix_caching": False},
        {"max_num_batched_tokens": 7, "kv_cache_dtype": "int8"},
    ],
    ids=["alone", "narrow"],
)
def test_no_id_depends_on_the_requests_beside_it(changes: dict[str, Any]) -> None:
    requests = make_requests(12)
    cache = {"kv_cache_dtype": changes.get("kv_cache_dtype", "auto")}
    together = run_staggered(make_engine(**INT8, **cache)[0], requests)
    other = run_staggered(make_engine(**INT8, **changes)[0], requests)
    for request in requests:
        for sample in range(request.sampling.n):
            assert other.ids(request, sample) == together.ids(request, sample)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_only_matrices_have_eight_bits(dtype: str) -> None:
    worker = make_worker(dtype=dtype, **INT8)
    llama: Any = worker.model.llama
    own = getattr(torch, dtype)
    for matrices, *norms in llama._layers:
        for matrix in (matrices.qkv, matrices.out, matrices.gate_up, matrices.down):
            assert matrix.weight.dtype is torch.int8
            assert matrix.scales.shape == (len(matrix.weight),)
        assert {norm.dtype for norm in norms} == {own}
    assert worker._pool.dtype is own
    assert worker.model.embed.code.weight.dtype is own
    assert worker.model.how.endswith(", weights in int8")
    both = make_worker(dtype=dtype, kv_cache_dtype="int8", **INT8)
    assert both.model.how.endswith(", weights in int8, keys and values in int8")


@pytest.mark.slow
def test_many_rows_whose_bits_may_depend_on_one_another() -> None:
    """The library's product, which takes no whole numbers, is not taken for them."""
    requests = make_requests(4)
    found = run_staggered(make_engine(batch_invariant=False, **INT8)[0], requests)
    expected = run_staggered(make_engine(**INT8)[0], requests)
    assert all(found.ids(request) == expected.ids(request) for request in requests)
