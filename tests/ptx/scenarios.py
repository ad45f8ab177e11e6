"""Launches of each kernel at sizes that fill no tile, with their expected results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from ChatTTS.model.kernels import int8, torch_references
from ChatTTS.model.kernels.cuda import (
    attention,
    embedding,
    low_rank,
    norm,
    output_product,
    prefill,
    products,
    prompt_attention,
    rotary,
    swiglu,
)
from ChatTTS.model.kernels.cuda.product_kernels import product_in_tiles
from ChatTTS.model.kernels.cuda.sampling import SamplingState, sample_codes, sample_codes_torch

from ..support.cache_tools import in_int8

Scenario = Callable[[], None]


def _random(*sizes: int, dtype: torch.dtype = torch.bfloat16, seed: int = 0) -> Tensor:
    return torch.randn(*sizes, generator=torch.manual_seed(seed)).to(dtype)


def _pool(blocks: int, *, scaled: bool) -> Tensor:
    """Return blocks of one layer, eight positions, and two heads of keys; ``scaled`` in int8."""
    pool = _random(blocks, 1, 2, 2, 8, 16)
    return in_int8(pool) if scaled else pool


def _check_pools(found: Tensor, expected: Tensor) -> None:
    _check(*(int8.dequantize(pool).bfloat16() for pool in (found, expected)))
    # Values are not rotated, so all their bits are known; those of keys may differ in the last.
    assert torch.equal(found[:, :, 1], expected[:, :, 1])


def _check(found: Tensor, expected: Tensor) -> None:
    bound = 1e-4 if found.dtype == torch.float32 else 2**-5
    torch.testing.assert_close(found, expected, rtol=bound, atol=bound)


def _norm() -> None:
    x, weight = 3 * _random(3, 50), _random(50, seed=1)
    _check(norm.rms_norm(x, weight, 1e-5), torch_references.rms_norm_torch(x, weight, 1e-5))


def _swiglu() -> None:
    x = _random(3, 2 * 70)
    _check(swiglu.swiglu(x), swiglu.swiglu_torch(x))


def _embedding() -> None:
    kinds = torch.tensor([0, 1, 2], dtype=torch.uint8)
    ids = torch.tensor([[1, 2], [3, 4], [0, 0]], dtype=torch.int32)
    given = kinds, ids, _random(1, 50, dtype=torch.float32), _random(9, 50), _random(12, 50, seed=2)
    _check(embedding.embed_rows(*given), torch_references.embed_rows_torch(*given))


def _product(
    rows: int, inputs: int, dtype: torch.dtype, *, gated: bool = False, scaled: bool = False
) -> None:
    x = _random(rows, inputs, dtype=dtype)
    weight = _random(24 * (1 + gated), inputs, seed=1).to(dtype) * inputs**-0.5
    gain = _random(inputs, dtype=dtype, seed=2) if gated else None
    how: dict[str, Any] = {"norm": None if gain is None else (gain, 1e-5), "gated": gated}
    if scaled:
        weight, how["scales"] = int8.quantize_weights(weight)
    _check(products.product(x, weight, **how), products.product_torch(x, weight, **how))


def _tiles() -> None:
    """Compute a product in large tiles, which are otherwise for large products."""
    x, weight = _random(70, 328), _random(40, 328, seed=1) * 0.1
    out = x.new_empty(70, 40)
    config = products.KernelConfig(product_in_tiles, 64, 32, 4, 4)
    products.compute(config, x, weight, out, norm=None, gated=False, added=False)
    _check(out, products.product_torch(x, weight))


def _adapters() -> None:
    """Multiply rows of two adapters and of none; stacked matrices that end within a tile."""
    x, own = _random(5, 136), torch.tensor([1, -1, 0, 0, 1], dtype=torch.int32)
    ranks = torch.tensor([0, 3, 3, 8, 9, 11, 12])
    low = low_rank.LowRanks(
        _random(12, 136, dtype=torch.float32, seed=1) * 0.1,
        _random(12, 20, dtype=torch.float32, seed=2),
        ranks.int(),
        3,
        5,
    )
    norm_of = _random(136, seed=3), 1e-5
    weight = _random(20 + 2 * 12, 136, seed=4) * 0.1
    found = low_rank.to_ranks(x, low, own, norm=norm_of)
    expected = low_rank.to_ranks_torch(x, low, own, norm=norm_of)
    is_own = ~expected.values.isnan()
    torch.testing.assert_close(found.values[is_own], expected.values[is_own], rtol=0.02, atol=0.02)
    _check(
        products.product(x, weight, norm=norm_of, ranks=expected),
        products.product_torch(x, weight, norm=norm_of, ranks=expected),
    )


def _attention() -> None:
    pool, query = _random(90, 1, 2, 2, 8, 16), _random(3, 4, 16, seed=1)
    tables = torch.arange(90, dtype=torch.int32).reshape(2, 45)
    table_of = torch.tensor([0, -1, 1], dtype=torch.int32)
    positions = torch.tensor([350, 0, 11], dtype=torch.int32)
    given = query, pool, 0, tables, table_of, positions
    with patch.object(attention, "PROGRAMS", 1):  # so that a program computes several splits
        found = attention.attend_rows(*given, max_positions=360)
    _check(found[[0, 2]], torch_references.attend_rows_torch(*given, max_positions=360)[[0, 2]])


def _new_rows(*, scaled: bool = False) -> None:
    """Store, attend, fetch and project, for rows of which one is padding."""
    pool, qkv = _pool(90, scaled=scaled), _random(3, 8 * 16, seed=1)
    tables = torch.arange(90, dtype=torch.int32).reshape(2, 45)
    table_of = torch.tensor([0, -1, 1], dtype=torch.int32)
    positions = torch.tensor([350, 0, 11], dtype=torch.int32)
    angles = 6 * _random(360, 16, dtype=torch.float32, seed=2)
    rotary, where = (angles.cos(), angles.sin()), (tables, table_of, positions)
    weight, residual = _random(24, 64, seed=3) * 0.1, _random(3, 24, seed=4)
    scales: Tensor | None = None
    if scaled:
        weight, scales = int8.quantize_weights(weight)
    ahead = tuple(_random(inputs, 136) for inputs in (3, 40, 7, 9))
    results = []
    for attend, project in (
        (attention.attend_new_rows, output_product.product_of_splits),
        (attention.attend_new_rows_torch, output_product.product_of_splits_torch),
    ):
        own = pool.clone()
        with patch.object(attention, "PROGRAMS", 1):  # so that a program computes several splits
            splits = attend(qkv, rotary, own, 0, *where, heads=4, max_positions=360, ahead=ahead)
        results.append((project(splits, weight, residual.clone(), scales), own))
    _check(results[0][0], results[1][0])
    _check_pools(results[0][1], results[1][1])


def _stored_rows(*, scaled: bool) -> None:
    """Rotate and store, for rows of which one is padding."""
    pool, qkv = _pool(4, scaled=scaled), _random(3, 8 * 16, seed=1)
    tables = torch.arange(4, dtype=torch.int32).reshape(2, 2)
    table_of = torch.tensor([0, -1, 1], dtype=torch.int32)
    positions = torch.tensor([13, 0, 7], dtype=torch.int32)
    angles = 6 * _random(16, 16, dtype=torch.float32, seed=2)
    where = angles.cos(), angles.sin(), positions, tables, table_of
    results = []
    for store in (rotary.rotate_and_store, torch_references.rotate_and_store_torch):
        own = pool.clone()
        results.append((store(qkv, *where, own, 0, 4), own))
    _check(results[0][0], results[1][0])
    _check_pools(results[0][1], results[1][1])


def _prompts(*, scaled: bool = False) -> None:
    pool, query = _pool(20, scaled=scaled), _random(21, 4, 16, seed=1)
    tables = torch.arange(20, dtype=torch.int32).reshape(2, 10)
    table_of = torch.tensor([0] * 19 + [1] * 2, dtype=torch.int32)
    positions = torch.tensor([*range(30, 49), 3, 4], dtype=torch.int32)
    tiles = torch.from_numpy(prefill.tiles_of(table_of.numpy()))
    given = query, pool, 0, tables, positions, tiles
    _check(prefill.attend_chunks(*given), prefill.attend_chunks_torch(*given))


def _prompt_rows(*, scaled: bool = False) -> None:
    """Attend in tiles: one has two sequences, one ends a split, one attends to two whole splits."""
    pool, query = _pool(90, scaled=scaled), _random(7, 4, 16, seed=1)
    tables = torch.arange(90, dtype=torch.int32).unfold(0, 70, 20).contiguous()
    table_of = torch.tensor([0] * 5 + [1] * 2, dtype=torch.int32)
    positions = torch.tensor([*range(510, 515), 11, 12], dtype=torch.int32)
    given = query, pool, 0, tables, table_of, positions
    with patch.object(prompt_attention, "PROGRAMS", 1):  # so that a program computes all splits
        found = prompt_attention.attend_prompts(*given, max_positions=560, tile_rows=2)
    _check(found, prompt_attention.attend_prompts_torch(*given, max_positions=560))


def _draws(ids: int, num_codebooks: int = 4) -> None:
    """Draw twice from ``ids`` ids."""
    results = []
    logits = 3 * _random(3, num_codebooks, ids, dtype=torch.float32)
    for draw in (sample_codes, sample_codes_torch):
        state = SamplingState.zeros(3, num_codebooks, torch.device("cpu"))
        state.temperature[1:] = 0.7
        state.top_p[:] = 0.7
        state.top_k[:] = 20
        state.penalties[:] = 1.5 ** torch.arange(17)
        state.window[:] = logits.argmax(dim=2, keepdim=True).transpose(1, 2)
        state.words[:] = torch.arange(15).view(3, 5).int()
        drawn = torch.zeros(3, num_codebooks, dtype=torch.int32)
        logprobs = torch.zeros(3, num_codebooks)
        finite = torch.zeros(3, dtype=torch.uint8)
        draw(logits, state, ids - 1, drawn, logprobs, finite)
        results.append((drawn, logprobs))
    assert torch.equal(results[0][0], results[1][0])
    _check(results[0][1], results[1][1])


# Of weights, keys and values in eight bits.
EIGHT_BITS: dict[str, Scenario] = {
    "product-once-8": partial(_product, 5, 136, torch.bfloat16, gated=True, scaled=True),
    "product-turns-8": partial(_product, 70, 520, torch.bfloat16, scaled=True),
    "product-lanes-8": partial(_product, 5, 136, torch.float32, scaled=True),
    "new-rows-8": partial(_new_rows, scaled=True),
    "stored-rows-8": partial(_stored_rows, scaled=True),
    "prompts-8": partial(_prompts, scaled=True),
    "prompt-rows-8": partial(_prompt_rows, scaled=True),
}
SCENARIOS: dict[str, Scenario] = {
    "norm": _norm,
    "swiglu": _swiglu,
    "embedding": _embedding,
    "product-once": partial(_product, 5, 136, torch.bfloat16, gated=True),
    "product-turns": partial(_product, 70, 520, torch.bfloat16),
    "product-lanes": partial(_product, 5, 136, torch.float32),
    "product-tiles": _tiles,
    "adapters": _adapters,
    "attention": _attention,
    "new-rows": _new_rows,
    "prompts": _prompts,
    "prompt-rows": _prompt_rows,
    **EIGHT_BITS,
    "draws": partial(_draws, 626),
    "draws-of-few": partial(_draws, 21),
    "draws-of-many": partial(_draws, 2100, 1),
}
