"""Compare every Triton kernel at the model's own size with its torch reference on the CPU.

This module needs only torch and Triton.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ChatTTS.model.embed import RowKind
from ChatTTS.model.kernels import torch_references
from ChatTTS.model.kernels.cuda import (
    attention,
    embedding,
    low_rank,
    norm,
    output_product,
    prefill,
    products,
    rotary,
    sampling,
    step_results,
    swiglu,
)
from ChatTTS.model.sampling import SamplingRow
from ChatTTS.model.sampling_params import SamplingParams
from ChatTTS.model.velocity.configs import CacheConfig

from .inputs import Inputs, error, spoil
from .low_ranks import adapters_of, on_device, random_ranks
from .model import key
from .products import kinds
from .scale import Task

# Share of sampled ids that may differ: exp's last bit decides between nearly equal probabilities.
ALLOWED_IDS = 0.005
_EPS = 1e-6
_MOST_BLOCKS = 1024

# A name, and a function that returns the error and the allowed error.
Check = tuple[str, Callable[[], tuple[float, float]]]


@torch.inference_mode()
def measure(task: Task, dtype: str) -> None:
    """Check all kernels in one dtype.

    Raises:
        RuntimeError: kernels failed or were wrong; the record says which.
    """
    given = Inputs(task.scale, dtype)
    results, wrong = [], []
    for name, check in checks(given):
        try:
            found, allowed = check()
            result: dict[str, Any] = {"name": name, "error": found, "allowed": allowed}
            is_right = found <= allowed
        except Exception:  # a compiler may raise anything, and the other kernels are still checked
            result, is_right = {"name": name, "failed": traceback.format_exc()[-2000:]}, False
        results.append(result)
        if not is_right:
            wrong.append(name)
        task.record.put(dtype=dtype, checks=results, wrong=wrong)
    if wrong:
        raise RuntimeError(f"wrong in {dtype}: {', '.join(wrong)}")


def checks(given: Inputs) -> Iterator[Check]:
    """Yield the checks of every kernel at every number of rows."""
    for rows in given.scale.check_rows:
        for part in (
            _small,
            _rotary,
            _attention,
            _new_rows,
            _products,
            _adapters,
            _draws,
            _results,
        ):
            for name, check in part(given, rows):
                yield f"{name}, {rows} rows", check
    yield "prompt attention", lambda: _prompts(given)


def _small(given: Inputs, rows: int) -> Iterator[Check]:
    gpt, allowed = given.scale.gpt, given.allowed
    hidden, inner = gpt.hidden_size, gpt.intermediate_size

    def normed() -> tuple[float, float]:
        parts = given.normal(rows, hidden), given.normal(hidden), _EPS
        return given.on_both(norm.rms_norm, torch_references.rms_norm_torch, *parts), allowed

    def gated() -> tuple[float, float]:
        both = given.normal(rows, 2 * inner)
        return given.on_both(swiglu.swiglu, swiglu.swiglu_torch, both), allowed

    def embedded() -> tuple[float, float]:
        kind = torch.arange(rows) % len(RowKind)
        known = min(gpt.num_audio_tokens, gpt.num_text_tokens)
        parts = (
            kind.to(torch.uint8),
            given.whole(known, rows, gpt.num_vq),
            given.normal(known, hidden, dtype=torch.float32),
            given.normal(gpt.num_text_tokens, hidden),
            given.normal(gpt.num_vq * gpt.num_audio_tokens, hidden),
        )
        return given.on_both(
            embedding.embed_rows, torch_references.embed_rows_torch, *parts
        ), allowed

    yield from (("norm", normed), ("SwiGLU", gated))
    yield "embedding", embedded


def paged_cache(given: Inputs, rows: int, positions: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return a pool of two layers, block tables, the table of each row, and the rows' positions.

    Positions are below ``positions``. Some rows are padding (table -1). With more than
    ``_MOST_BLOCKS`` blocks, sequences share blocks.
    """
    gpt, block_size = given.scale.gpt, CacheConfig.block_size
    heads = gpt.num_attention_heads
    blocks = -(-positions // block_size)
    there = min(rows * blocks, _MOST_BLOCKS)
    pool = given.normal(there, 2, 2, heads, block_size, gpt.hidden_size // heads)
    places = torch.randperm(rows * blocks, generator=given.random).to(torch.int32) % there
    at = given.whole(positions, rows)
    at[0] = positions - 1
    table_of = torch.arange(rows, dtype=torch.int32)
    table_of[1::5] = -1
    return pool, places.view(rows, blocks), table_of, at


def _rotary(given: Inputs, rows: int) -> Iterator[Check]:
    gpt = given.scale.gpt

    def check() -> tuple[float, float]:
        # Few positions, so that no two rows write into one block.
        pool, tables, table_of, positions = paged_cache(given, rows, 2 * CacheConfig.block_size)
        angles = given.normal(gpt.max_position_embeddings, pool.shape[5], dtype=torch.float32)
        parts = (
            given.normal(rows, 3 * gpt.hidden_size),
            angles.cos(),
            angles.sin(),
            positions,
            tables,
            table_of,
        )

        def whole(turn: Callable[..., Tensor]) -> Callable[..., Tensor]:
            """Make the stored keys and values part of the result, so that they are compared."""

            def both(*own: Any) -> Tensor:
                *first, blocks = own
                query = turn(*first, blocks, 1, gpt.num_attention_heads)
                return torch.cat([query.flatten().float(), blocks.flatten().float()])

            return both

        found = given.on_both(
            whole(rotary.rotate_and_store),
            whole(torch_references.rotate_and_store_torch),
            *parts,
            pool.zero_(),
        )
        return found, given.allowed

    yield "rotary embedding", check


def _attention(given: Inputs, rows: int) -> Iterator[Check]:
    def check() -> tuple[float, float]:
        pool, tables, table_of, positions = paged_cache(given, rows, given.scale.positions)
        query = given.normal(rows, *pool.shape[3::2])
        max_positions = given.scale.gpt.max_position_embeddings

        def attend(way: Callable[..., Tensor]) -> Callable[..., Tensor]:
            return lambda *own: way(*own[:2], 1, *own[2:], max_positions=max_positions)

        parts = query, pool, tables, table_of, positions
        ways = attend(attention.attend_rows), attend(torch_references.attend_rows_torch)
        return given.on_both(*ways, *parts), given.allowed

    yield "attention", check


@dataclass(frozen=True)
class NewRows:
    """Inputs of the attention and the output projection of a decode step, on the CPU.

    Attributes:
        qkv: [rows, 3 * hidden], queries, keys and values that are not rotated or stored yet.
        rotary: cosines and sines, each [positions, head size].
        pool, tables, table_of, positions: see :func:`paged_cache`; no two rows share a block.
        weight, residual: of the projection.
        heads: number of heads.
        max_positions: the most positions of a sequence.
    """

    qkv: Tensor
    rotary: tuple[Tensor, Tensor]
    pool: Tensor
    tables: Tensor
    table_of: Tensor
    positions: Tensor
    weight: Tensor
    residual: Tensor
    heads: int
    max_positions: int

    @classmethod
    def random(cls, given: Inputs, rows: int) -> NewRows:
        """Return inputs of so many rows, at most at ``scale.positions``."""
        gpt, room = given.scale.gpt, CacheConfig.block_size * (_MOST_BLOCKS // rows)
        hidden = gpt.hidden_size
        pool, tables, table_of, positions = paged_cache(
            given, rows, min(given.scale.positions, room)
        )
        angles = given.normal(gpt.max_position_embeddings, pool.shape[5], dtype=torch.float32)
        return cls(
            given.normal(rows, 3 * hidden),
            (angles.cos(), angles.sin()),
            pool,
            tables,
            table_of,
            positions,
            given.normal(hidden, hidden) * hidden**-0.5,
            given.normal(rows, hidden),
            gpt.num_attention_heads,
            gpt.max_position_embeddings,
        )

    def to(self, device: torch.device) -> NewRows:
        """Return copies on a device."""
        moved: dict[str, Any] = {
            field.name: value.to(device, copy=True)
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), Tensor)
        }
        cosines, sines = (table.to(device) for table in self.rotary)
        return replace(self, **moved, rotary=(cosines, sines))

    def first(self, count: int) -> NewRows:
        """Return copies of the first rows alone."""
        names = ("qkv", "table_of", "positions", "residual")
        own: dict[str, Any] = {name: getattr(self, name)[:count].clone() for name in names}
        return replace(self, **own, pool=self.pool.clone())

    def projected(self, attend: Callable[..., Any], project: Callable[..., Tensor]) -> Tensor:
        """Return the projected rows and the pool, both changed in place, as one tensor."""
        where = self.tables, self.table_of, self.positions
        splits = attend(
            self.qkv,
            self.rotary,
            self.pool,
            1,
            *where,
            heads=self.heads,
            max_positions=self.max_positions,
        )
        found = project(splits, self.weight, self.residual)
        return torch.cat([found.flatten().float(), self.pool.flatten().float()])


def _new_rows(given: Inputs, rows: int) -> Iterator[Check]:
    def check() -> tuple[float, float]:
        case = NewRows.random(given, rows)
        expected = case.to(torch.device("cpu")).projected(
            attention.attend_new_rows_torch, output_product.product_of_splits_torch
        )
        moved = case.to(given.device)
        spoil(given.device)
        found = moved.projected(attention.attend_new_rows, output_product.product_of_splits)
        return error(found, expected), given.allowed

    yield "new rows' attention and output product", check


def _results(given: Inputs, rows: int) -> Iterator[Check]:
    gpt, turns = given.scale.gpt, 4
    num_codebooks, width = gpt.num_vq, step_results.result_width(gpt.hidden_size, gpt.num_vq)

    def check() -> tuple[float, float]:
        parts = (
            given.normal(rows, gpt.hidden_size),
            given.whole(gpt.num_audio_tokens, rows, num_codebooks),
            given.normal(rows, num_codebooks, dtype=torch.float32),
            given.whole(2, rows).to(torch.uint8),
            given.whole(2, rows),
            given.whole(3, rows).to(torch.uint8),
            given.whole(gpt.num_audio_tokens, rows, num_codebooks),
            *(given.whole(gpt.max_position_embeddings, rows) for _ in range(2)),
            torch.tensor([turns + 1], dtype=torch.int32),
            torch.zeros(turns, rows, width, dtype=torch.int32),
        )

        def whole(store: Callable[..., None]) -> Callable[..., Tensor]:
            def changed(*own: Tensor) -> Tensor:
                store(*own, kind=RowKind.CODE)
                return torch.cat([part.flatten().to(torch.int32) for part in own[5:]])

            return changed

        ways = whole(step_results.store_results), whole(step_results.store_results_torch)
        return given.on_both(*ways, *parts), 0.0

    yield "results", check


def _prompts(given: Inputs) -> tuple[float, float]:
    """Check prompt attention with chunks of two sequences, of different lengths, in one step."""
    length = given.scale.positions
    pool, tables, _, _ = paged_cache(given, 2, length)
    counts = (length, length // 3 + 1)
    positions = torch.cat([torch.arange(length - n, length) for n in counts]).to(torch.int32)
    table_of = torch.repeat_interleave(torch.arange(2), torch.tensor(counts)).to(torch.int32)
    query = given.normal(len(positions), *pool.shape[3::2])
    tiles = torch.from_numpy(prefill.tiles_of(table_of.numpy()))

    def attend(way: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda *own: way(*own[:2], 1, *own[2:])

    ways = attend(prefill.attend_chunks), attend(prefill.attend_chunks_torch)
    return given.on_both(*ways, query, pool, tables, positions, tiles), given.allowed


def _products(given: Inputs, rows: int) -> Iterator[Check]:
    gpt = given.scale.gpt

    def check(name: str) -> tuple[float, float]:
        kind = kinds(gpt)[name]
        x = given.normal(rows, kind.inputs)
        weight = given.normal(kind.outputs * (1 + kind.gated), kind.inputs) * kind.inputs**-0.5
        gain = given.normal(kind.inputs)
        residual = given.normal(rows, kind.outputs)

        def multiply(way: Callable[..., Tensor]) -> Callable[..., Tensor]:
            return lambda x, weight, gain, residual: way(
                x,
                weight,
                norm=(gain, _EPS) if kind.normed else None,
                residual=residual if kind.added else None,
                gated=kind.gated,
            )

        ways = multiply(products.product), multiply(products.product_torch)
        return given.on_both(*ways, x, weight, gain, residual), given.allowed

    def head() -> tuple[float, float]:
        weight = given.normal(gpt.num_vq * gpt.num_audio_tokens, gpt.hidden_size)

        def multiply(way: Callable[..., Tensor]) -> Callable[..., Tensor]:
            return lambda *own: way(*own, out_dtype=torch.float32)

        ways = multiply(products.product), multiply(products.product_torch)
        # The output is float32, so nothing is rounded to the operands' dtype.
        allowed = min(given.allowed, 1e-4)
        return given.on_both(*ways, given.normal(rows, gpt.hidden_size), weight), allowed

    for name in kinds(gpt):
        yield f"product {name}", partial(check, name)
    yield "product of the heads", head


def _adapters(given: Inputs, rows: int) -> Iterator[Check]:
    """Check products of rows of which two of three have an adapter."""

    def check(name: str) -> tuple[float, float]:
        kind = kinds(given.scale.gpt)[name]
        low = random_ranks(given, kind)
        x, gain = given.normal(rows, kind.inputs), given.normal(kind.inputs)
        weight = given.normal(kind.outputs * (1 + kind.gated), kind.inputs) * kind.inputs**-0.5
        residual = given.normal(rows, kind.outputs)

        def multiply(reduce: Callable[..., Any], way: Callable[..., Tensor]) -> Callable[..., Any]:
            def both(x: Tensor, weight: Tensor, gain: Tensor, residual: Tensor) -> Tensor:
                own = adapters_of(rows, x.device)
                norm_of = (gain, _EPS) if kind.normed else None
                return way(
                    x,
                    weight,
                    norm=norm_of,
                    residual=residual if kind.added else None,
                    gated=kind.gated,
                    ranks=reduce(x, on_device(low, x.device), own, norm=norm_of),
                )

            return both

        kernels = multiply(low_rank.to_ranks, products.product)
        plain = multiply(low_rank.to_ranks_torch, products.product_torch)
        return given.on_both(kernels, plain, x, weight, gain, residual), given.allowed

    for name in kinds(given.scale.gpt):
        yield f"product {name} with adapters", partial(check, name)


def _draws(given: Inputs, rows: int) -> Iterator[Check]:
    gpt = given.scale.gpt
    num_codebooks, end = gpt.num_vq, gpt.num_audio_tokens - 1

    def check() -> tuple[float, float]:
        logits = 3 * given.normal(rows, num_codebooks, gpt.num_audio_tokens, dtype=torch.float32)
        draws = []
        for row in range(rows):
            temperature = (0.0, 0.3, 1.0)[row % 3]
            settings = SamplingParams((temperature,) * num_codebooks, 0.7, 20, 1.05, row, 10_000)
            window = given.whole(end, 16, num_codebooks).numpy()
            draws.append(SamplingRow(settings, key(row), 40 + row, window, end))
        packed = sampling.pack_sampling(draws, num_codebooks)

        def drawn(way: Callable[..., None]) -> Callable[..., Tensor]:
            def ids_of(logits: Tensor) -> Tensor:
                put = {
                    name: torch.from_numpy(values.copy()).to(logits.device)
                    for name, values in packed.items()
                }
                ids = torch.full((rows, num_codebooks), -1, dtype=torch.int32, device=logits.device)
                logprobs, finite = torch.empty_like(ids, dtype=torch.float32), ids[:, 0].byte()
                way(logits, sampling.SamplingState(**put), end, ids, logprobs, finite)
                return ids.cpu()

            return ids_of

        expected = drawn(sampling.sample_codes_torch)(logits)
        found = drawn(sampling.sample_codes)(logits.to(given.device))
        return float((found != expected).float().mean()), ALLOWED_IDS

    yield "draws", check
