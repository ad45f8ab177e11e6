"""Checks of torch's libraries on this machine: does a row have the same bits beside any others?

A library chooses an algorithm by the shape of a product, by the processor and by the number of
threads. What it chose cannot be asked, but be seen: where the order of sums differs, some of
thousands of sums differ in their last bits.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from .....utils import machine
from .....utils.folders import cache_folder
from ....llama.config import LlamaShape
from ....llama.shard import Shard
from .linear import SIZES, PackedMatrix
from .tiled_attention import TILE, attend, silence_torch, wanted_scores

logger = logging.getLogger(__name__)

# (outputs, inputs)
_Size = tuple[int, int]
# Pairs of a query and a tile of keys that are computed together.
_PAIRS = (1, 2, 3, 4, 7, 16, 33)
# Steps of a row of evenly spread numbers: those of the golden ratio, and of the square root of 2.
_STEPS = (0.6180339887, 0.4142135624)
# A prime, by which places of keys are scattered.
_STRIDE = 7919


def packed_rows_agree(shard: Shard, heads: Iterable[int], dtype: torch.dtype) -> bool:
    """Return whether rows multiplied by ``PackedMatrix`` do not depend on other rows or on ranks.

    Every number of rows in ``SIZES`` is tried with every matrix of the model, whole and cut for
    every number of ranks. The answer is kept in the cache folder.

    Args:
        shard: of any rank of the model.
        heads: outputs of the heads.
    """
    shape = shard.shape
    hidden, inner = shape.hidden_size, shape.intermediate_size
    queries = shape.num_attention_heads * shape.head_dim
    fused = queries + 2 * shape.num_key_value_heads * shape.head_dim
    sizes = {(fused, hidden), (hidden, queries), (inner, hidden), (hidden, inner)}
    found = sorted(sizes | {(outputs, hidden) for outputs in heads})

    def check() -> bool:
        try:
            return all(_matrix_agrees(size, shard, dtype) for size in found)
        except (AttributeError, NotImplementedError, RuntimeError) as error:
            logger.info("oneDNN does not multiply in %s here: %s", dtype, error)
            return False

    return _remembered(("products", found, shape.num_key_value_heads, SIZES, str(dtype)), check)


def attention_agrees(shape: LlamaShape) -> bool:
    """Return whether a row's attention in tiles does not depend on the other rows.

    Args:
        shape: of the whole model, since ranks have whole heads.
    """
    about = ("attention", shape.num_attention_heads, shape.head_dim, _PAIRS, TILE)

    def check() -> bool:
        try:
            return _attention_agrees(shape.num_attention_heads, shape.head_dim)
        except (NotImplementedError, RuntimeError) as error:
            logger.info("torch does not attend in tiles here: %s", error)
            return False

    return _remembered(about, check)


def _matrix_agrees(size: _Size, shard: Shard, dtype: torch.dtype) -> bool:
    outputs, inputs = size
    weight = _spread(outputs, inputs, step=_STEPS[0]).to(dtype)
    rows = _spread(SIZES[-1], inputs, step=_STEPS[1]).to(dtype)
    whole = PackedMatrix(weight, outputs)
    expected = whole(rows), whole.activated(rows)
    for span in (range(outputs), *_parts(outputs, shard)):
        part = PackedMatrix(weight[span.start : span.stop], len(span))
        columns = [result[:, span.start : span.stop] for result in expected]
        for count in SIZES:
            # The first rows, and the last ones: each row in several places.
            for first in {0, len(rows) - count}:
                chosen = slice(first, first + count)
                found = part(rows[chosen]), part.activated(rows[chosen])
                if not all(f.equal(c[chosen]) for f, c in zip(found, columns, strict=True)):
                    return False
    return True


def _parts(outputs: int, shard: Shard) -> Iterator[range]:
    """Yield the outputs of the ranks, for every number of them."""
    seen = {(0, outputs)}
    for ranks in range(2, shard.shape.num_key_value_heads + 1):
        for rank in range(ranks):
            span = replace(shard, rank=rank, ranks=ranks).outputs(outputs)
            if len(span) and (span.start, span.stop) not in seen:
                seen.add((span.start, span.stop))
                yield span


def _attention_agrees(heads: int, size: int) -> bool:
    most = _PAIRS[-1] * heads
    count = most + TILE
    query = _spread(most, size, step=_STEPS[0])
    tables = tuple(_spread(count, size, step=step) for step in _STEPS)
    places = torch.arange(most * TILE).mul_(_STRIDE).remainder_(count).view(most, TILE)
    bias = torch.zeros(most, TILE)

    def attended(part: slice) -> tuple[Tensor, Tensor, Tensor]:
        wanted = wanted_scores(places[part], bias[part], count)
        return attend(query[part], tables, places[part], wanted)

    silence_torch()
    expected = attended(slice(most))
    for pairs in _PAIRS:
        for first in {0, most - pairs * heads}:
            chosen = slice(first, first + pairs * heads)
            found = attended(chosen)
            if not all(f.equal(e[chosen]) for f, e in zip(found, expected, strict=True)):
                return False
    return True


def _spread(rows: int, columns: int, step: float) -> Tensor:
    """Return numbers from -0.5 to 0.5, spread evenly but in no simple order."""
    numbers = torch.arange(rows * columns, dtype=torch.float64, device="cpu")
    return (numbers * step).frac().sub_(0.5).float().view(rows, columns)


def _remembered(about: tuple[object, ...], check: Callable[[], bool]) -> bool:
    """Return the kept answer of a check on this machine, or else check now and keep the answer."""
    libraries = torch.__version__, torch.backends.cpu.get_cpu_capability(), machine.cpu_model()
    chosen = [(k, v) for k, v in os.environ.items() if k.startswith(("ONEDNN_", "DNNL_", "MKL_"))]
    known = (about, libraries, torch.get_num_threads(), sorted(chosen))
    name = hashlib.sha256(repr(known).encode()).hexdigest()[:24]
    file = cache_folder() / "checks" / f"{name}.json"
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(kept, bool):
            return kept
    except (OSError, ValueError):
        pass  # there is no file, or it is damaged
    answer = check()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(answer), encoding="utf-8")
    except OSError as error:
        logger.info("the answer of a check is not kept: %s", error)
    return answer
