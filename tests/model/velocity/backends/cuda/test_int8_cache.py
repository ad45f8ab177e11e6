"""The engine with keys and values in eight bits: who may have them, and what moves with a block."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ChatTTS.core import Chat
from ChatTTS.errors import ConfigError
from ChatTTS.model.velocity.configs import EngineArgs
from ChatTTS.model.velocity.model_loader import ModelLoader

from .....support.places import DATA
from .....support.torch_references import use_torch_references
from .test_engine import MODEL, make_engine, make_requests, make_worker, run_staggered, take_triton

from ChatTTS.model.kernels import int8  # isort: skip

INT8: dict[str, Any] = {"kv_cache_dtype": "int8"}


@pytest.fixture
def on_torch_references(monkeypatch: pytest.MonkeyPatch) -> None:
    take_triton(monkeypatch)
    use_torch_references(monkeypatch)


@pytest.mark.slow
@pytest.mark.usefixtures("on_torch_references")
@pytest.mark.parametrize(
    "changes",
    [
        {"max_num_seqs": 1, "enable_prefix_caching": False},
        {"max_num_batched_tokens": 7},
        {"kv_memory": "54KB", "enable_prefix_caching": False},  # too little for all: preempted
        {"kv_memory": "54KB", "swap_memory": "1MB"},
    ],
    ids=["alone", "narrow", "recomputed", "swapped"],
)
def test_no_id_depends_on_where_the_blocks_were(changes: dict[str, Any]) -> None:
    """Shared prefixes, copies of blocks and swaps keep the scales with their numbers."""
    requests = make_requests(12)
    requests[0] = replace(requests[0], alignment_heads=((0, 1), (1, 0)))
    together = run_staggered(make_engine(**INT8)[0], requests)
    engine, _ = make_engine(**INT8, **changes)
    other = run_staggered(engine, requests)
    for request in requests:
        for sample in range(request.sampling.n):
            assert other.ids(request, sample) == together.ids(request, sample)
    metrics = engine.metrics()
    if "kv_memory" in changes:
        assert metrics.preempted_swap if "swap_memory" in changes else metrics.preempted_recompute
    assert metrics.used_blocks == 0


@pytest.mark.usefixtures("on_torch_references")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_more_blocks_fit_into_the_same_memory(dtype: str) -> None:
    plain, worker = (make_worker(dtype=dtype, **changes) for changes in ({}, INT8))
    assert worker._pool.dtype is torch.int8
    heads, positions, size = int8.head_sizes(worker._pool)
    assert (heads, positions, size) == tuple(plain._pool.shape[3:])
    numbers, scales = int8.split_scales(worker._pool)
    assert numbers.shape == (len(worker._pool), *plain._pool.shape[1:])
    wide = plain._pool.element_size()
    assert worker.model.llama.block_bytes * size * wide == plain.model.llama.block_bytes * (
        size + 4
    )
    assert len(worker._pool) == (8 << 20) // worker.model.llama.block_bytes > len(plain._pool)
    assert worker.model.how.endswith("keys and values in int8")
    assert scales.dtype is torch.float32


def test_where_keys_and_values_cannot_have_eight_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    for dtype in ("float32", "bfloat16"):
        with pytest.raises(
            ConfigError, match="needs an NVIDIA GPU with Triton kernels, or the CPU"
        ):
            make_worker(dtype=dtype, **INT8)
    with pytest.raises(ConfigError, match="kv_cache_dtype must be 'auto' or 'int8', not 'fp8'"):
        EngineArgs(MODEL, kv_cache_dtype="fp8").create_engine_config()
    with pytest.raises(ConfigError, match="needs the velocity engine"):
        Chat().load_or_raise("custom", custom_path=MODEL, device="cpu", use_vllm=False, **INT8)
    loader = ModelLoader(EngineArgs(MODEL, device="cpu", **INT8).create_engine_config())
    shape: Any = SimpleNamespace(head_dim=6)
    with pytest.raises(ConfigError, match="a multiple of 4 numbers, not 6"):
        loader._check_int8_cache(shape, None, kernels=True)
    # Without the CPU kernels, weights and cache are in the dtype of torch's operators.
    monkeypatch.setattr(ModelLoader, "_team", lambda loader: None)
    with pytest.raises(ConfigError, match="needs an NVIDIA GPU"):
        make_worker(quantization="int8", **INT8)


def test_weights_of_eight_bits_bring_such_a_cache_anyway() -> None:
    sizes = [
        make_worker(model=DATA / "model-a", quantization="int8", **changes).model.llama.block_bytes
        for changes in ({}, INT8)
    ]
    assert sizes[0] == sizes[1]
