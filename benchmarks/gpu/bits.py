"""Check that no bit of a row depends on the other rows, nor on the kernel and its tiles.

``products.py`` of the kernels promises it, and all else that does not depend on the batch rests on
it. Triton's interpreter multiplies with the machine's BLAS, which promises nothing of the kind; a
dry run takes compiled kernels in the emulator of ``tests/ptx`` instead.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ChatTTS.model.kernels.cuda import (
    attention,
    low_rank,
    output_product,
    products,
    prompt_attention,
    rotary,
)
from ChatTTS.model.kernels.cuda.products import KernelConfig
from ChatTTS.model.kernels.int8 import quantize_weights

from .inputs import Inputs
from .kernels import NewRows, paged_cache
from .low_ranks import adapters_of, on_device, random_ranks
from .products import kinds
from .scale import Task

_EPS = 1e-6
# The first is computed in whole by every kernel; the others are at and beside the edges of tiles.
_ROWS = (256, 1, 2, 5, 16, 17, 32, 33, 64, 65, 100, 128, 200)
# The most rows whose blocks are all different.
_NEW_ROWS = 40
# Adjacent rows of a sequence, fewer than fill each tile.
_SHARED = 5

# The name of what was computed, and whether its bits are as they should be.
Outcome = tuple[str, bool]


@torch.inference_mode()
def measure(task: Task, dtype: str) -> None:
    """Check all products and attention in one dtype.

    Raises:
        RuntimeError: bits differ, or a kernel failed; the record says which.
    """
    given = Inputs(task.scale, dtype)
    checks: dict[str, Callable[[], Iterator[Outcome]]] = {
        f"product {name}": partial(_products, given, name) for name in kinds(task.scale.gpt)
    }
    checks |= {
        f"product {name} with adapters": partial(_products, given, name, adapted=True)
        for name in kinds(task.scale.gpt)
    }
    checks |= {
        f"product {name} in eight bits": partial(_products, given, name, eight_bits=True)
        for name in kinds(task.scale.gpt)
    }
    checks["attention"] = partial(_attention, given)
    checks["new rows"] = partial(_new_rows, given)
    task.record.put(dtype=dtype, right=0, wrong=[])
    right, wrong = 0, []
    for name, check in checks.items():
        try:
            for what, is_right in check():
                right += is_right
                wrong += [] if is_right else [f"{name}, {what}"]
        except Exception:  # a compiler may raise anything, and the others are still checked
            task.record.put(**{f"failed: {name}": traceback.format_exc()[-2000:]})
            wrong.append(f"{name}, which failed")
        task.record.put(right=right, wrong=wrong)
    if wrong:
        raise RuntimeError(f"other bits in {dtype}: {'; '.join(wrong)}")


def _products(
    given: Inputs, name: str, *, adapted: bool = False, eight_bits: bool = False
) -> Iterator[Outcome]:
    """Compare the kernels and tiles that are in use for any number of rows, then the numbers.

    Args:
        adapted: two of three rows have an adapter. The others are also compared with products
            without adapters.
        eight_bits: the weights have eight bits.
    """
    kind, device = kinds(given.scale.gpt)[name], given.device
    most = given.scale.bit_rows
    x = given.normal(most, kind.inputs).to(device)
    weight = given.normal(kind.outputs * (1 + kind.gated), kind.inputs) * kind.inputs**-0.5
    weight, gain = weight.to(device), given.normal(kind.inputs).to(device)
    scales: Tensor | None = None
    if eight_bits:
        weight, scales = quantize_weights(weight)
    residual = given.normal(most, kind.outputs).to(device)
    norm_of = (gain, _EPS) if kind.normed else None
    low, own = on_device(random_ranks(given, kind), device), adapters_of(most, device)
    if device.type == "cuda":  # a product reads its weights before the launch before it is done
        torch.cuda.synchronize(device)

    def ranks(count: int) -> low_rank.RowRanks | None:
        if not adapted:
            return None
        return low_rank.to_ranks(x[:count], low, own[:count], norm=norm_of)

    def compute(config: KernelConfig, ranks: low_rank.RowRanks | None) -> Tensor:
        out = residual.clone() if kind.added else torch.empty_like(residual)
        how: dict[str, Any] = {"norm": norm_of, "gated": kind.gated, "added": kind.added}
        products.compute(config, x, weight, out, **how, ranks=ranks, scales=scales)
        return out

    def multiply(count: int) -> Tensor:
        sums = residual[:count].clone() if kind.added else None
        how: dict[str, Any] = {"norm": norm_of, "gated": kind.gated, "residual": sums}
        return products.product(x[:count], weight, **how, ranks=ranks(count), scales=scales)

    configs: list[KernelConfig] = []
    for count in range(1, most + 1):
        config = products.choose_config(
            weight, count, x.dtype, normed=kind.normed, gated=kind.gated
        )
        configs += [] if config in configs else [config]
    first, *others = configs
    whole = compute(first, ranks(most))
    yield "its numbers", bool(whole.isfinite().all())
    if adapted:
        plain = compute(first, None)
        yield "rows without", torch.equal(whole[own < 0], plain[own < 0])
        yield "rows with", not bool((whole == plain)[own >= 0].all(dim=1).any())
    for config in others:
        name = f"{config.kernel.fn.__name__} {config.tile_rows} x {config.tile_outputs}"
        yield name, torch.equal(compute(config, ranks(most)), whole)
    for count in (count for count in _ROWS if count <= most):
        yield f"{count} rows", torch.equal(multiply(count), whole[:count])


def _attention(given: Inputs) -> Iterator[Outcome]:
    """Compare numbers of sequences, and rows in tiles with single ones."""
    most = given.scale.bit_rows
    cached = [part.to(given.device) for part in paged_cache(given, most, given.scale.positions)]
    pool, tables, table_of, positions = cached
    query = given.normal(most, *pool.shape[3::2]).to(given.device)
    length = given.scale.gpt.max_position_embeddings

    def attend(count: int) -> Tensor:
        own = (part[:count] for part in (table_of, positions))
        return attention.attend_rows(query[:count], pool, 1, tables, *own, max_positions=length)

    whole = attend(most)
    yield "its numbers", bool(whole.isfinite().all())
    for count in {1, most // 2, most - 1}:
        yield f"{count} rows", torch.equal(attend(count), whole[:count])
    # Rows of which some are adjacent in one sequence, as in a prompt.
    line = torch.arange(most, dtype=torch.int32, device=given.device)
    shared = query, pool, 1, tables, table_of[line // _SHARED * _SHARED], positions - line % _SHARED
    whole = attention.attend_rows(*shared, max_positions=length)
    tile_rows = prompt_attention.TILE_ROWS
    found = prompt_attention.attend_prompts(*shared, max_positions=length, tile_rows=tile_rows)
    yield f"tiles of {tile_rows}", torch.equal(found, whole)


def _new_rows(given: Inputs) -> Iterator[Outcome]:
    """Compare the launches of a decode step with those of a prompt, at numbers of rows."""
    case = NewRows.random(given, min(given.scale.bit_rows, _NEW_ROWS)).to(given.device)
    if given.device.type == "cuda":
        torch.cuda.synchronize(given.device)

    def apart(own: NewRows) -> Tensor:
        where = own.tables, own.table_of, own.positions
        query = rotary.rotate_and_store(
            own.qkv, *own.rotary, own.positions, *where[:2], own.pool, 1, own.heads
        )
        mixed = attention.attend_rows(query, own.pool, 1, *where, max_positions=own.max_positions)
        found = products.product(mixed.flatten(1), own.weight, residual=own.residual)
        return torch.cat([found.flatten().float(), own.pool.flatten().float()])

    ways = attention.attend_new_rows, output_product.product_of_splits
    for count in (count for count in _ROWS if count <= len(case.qkv)):
        own = case.first(count).projected(*ways)
        yield f"{count} rows", torch.equal(own, apart(case.first(count)))
    last = case.first(len(case.qkv)).projected(*ways)[: case.residual.numel()]
    one = case.first(1).projected(*ways)[: case.residual.shape[1]]
    yield "alone", torch.equal(one, last[: len(one)])
