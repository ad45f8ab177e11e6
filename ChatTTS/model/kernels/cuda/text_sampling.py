"""The sampling kernel of a large vocabulary, such as that of texts.

One program draws from all logits of a row and codebook, so no bit depends on other rows. It reads
them in parts, several times; they stay in the cache of its multiprocessor. Three or four readings
tell the ids near the bound from those that are certainly kept or dropped, and bisection among these
few needs no memory. No rule of a row is left out: without top-k there are some more readings.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .sampling_rules import (
    apply_penalty,
    apply_temperature,
    bounded,
    drawn_share,
    lowest_kept,
    may_drop,
    most_dropped,
    ordered,
    weights_of,
)


@triton.jit(do_not_specialize=["end"])
def sample_large_vocabulary(
    logits: tl.tensor,
    temperatures: tl.tensor,
    top_ps: tl.tensor,
    top_ks: tl.tensor,
    penalties: tl.tensor,
    min_news: tl.tensor,
    words: tl.tensor,
    generated: tl.tensor,
    windows: tl.tensor,
    ids: tl.tensor,
    logprobs: tl.tensor,
    finite: tl.tensor,
    slots: tl.tensor,
    end: tl.tensor,
    changed: tl.tensor,
    nearby: tl.tensor,
    num_codebooks: tl.constexpr,
    vocabulary: tl.constexpr,
    padded: tl.constexpr,
    part: tl.constexpr,
    id_bits: tl.constexpr,
    counted_bits: tl.constexpr,
    unit: tl.constexpr,
    history: tl.constexpr,
    min_kept: tl.constexpr,
) -> None:
    """Draw an id for a row and codebook; ``sample_codes`` says what most arguments are.

    Args:
        changed: float32 [rows, num_codebooks, padded], takes the processed logits.
        nearby: int32 [rows, num_codebooks, 2**counted_bits], takes ids.
        padded: a multiple of ``part``, and ``vocabulary`` at least.
        part: ids that are looked at together.
        id_bits: binary digits of the largest id.
    """
    row = tl.program_id(0).to(tl.int64)
    own = row
    if slots is not None:
        own = tl.load(slots + row).to(tl.int64)
    codebook = tl.program_id(1)
    lane = row * num_codebooks + codebook
    own_lane = own * num_codebooks + codebook
    number = tl.load(generated + own)
    places = tl.arange(0, part)

    # One logit that is not finite invalidates all codebooks of the row. As in torch, the row is
    # then drawn from logits of zero, so that every id exists in the vocabulary.
    sound = places >= 0
    for start in range(0, num_codebooks * vocabulary, part):
        inside = start + places < num_codebooks * vocabulary
        of_row = logits + row * num_codebooks * vocabulary + start
        sound = sound & (tl.abs(tl.load(of_row + places, mask=inside, other=0.0)) < float("inf"))
    all_sound = tl.min(sound.to(tl.int32), axis=0)
    known = tl.where(all_sound > 0, vocabulary, 0)

    logits += lane * vocabulary
    changed += lane * padded
    nearby += lane * (1 << counted_bits)
    temperature = tl.load(temperatures + own_lane)
    for start in range(0, padded, part):
        tokens = start + places
        plain = tl.load(logits + tokens, mask=tokens < known, other=0.0)
        tl.store(changed + tokens, apply_temperature(plain, temperature))
    # The penalty changes a few ids, which other threads have written.
    recent = tl.load(windows + (own * history + tl.arange(0, history)) * num_codebooks + codebook)
    repeats = tl.sum((recent[:, None] == recent[None, :]).to(tl.int32), axis=1)
    factor = tl.load(penalties + own * (history + 1) + repeats)
    tl.debug_barrier()
    of_recent = tl.load(changed + recent, mask=recent >= 0, other=0.0)
    tl.debug_barrier()
    tl.store(changed + recent, apply_penalty(of_recent, factor), mask=recent >= 0)
    tl.debug_barrier()

    may_end = number >= tl.load(min_news + own)
    lowest = tl.zeros([part], dtype=tl.float32) + float("inf")
    plain_highest = -lowest
    highest = -lowest
    allowed_highest = -lowest
    for start in range(0, padded, part):
        tokens = start + places
        real = tokens < vocabulary
        plain = tl.load(logits + tokens, mask=tokens < known, other=0.0)
        plain_highest = tl.maximum(plain_highest, tl.where(real, plain, float("-inf")))
        x = bounded(tl.load(changed + tokens))
        lowest = tl.minimum(lowest, tl.where(real, x, float("inf")))
        x = tl.where(real, x, float("-inf"))
        tl.store(changed + tokens, x)
        highest = tl.maximum(highest, x)
        allowed = (tokens != end) | may_end
        allowed_highest = tl.maximum(allowed_highest, tl.where(allowed, x, float("-inf")))
    peak = tl.max(highest, axis=0)
    plain_peak = tl.max(plain_highest, axis=0)

    weights = tl.zeros([part], dtype=tl.int64)
    exponentials = tl.zeros([part], dtype=tl.float32)
    for start in range(0, padded, part):
        tokens = start + places
        weights += weights_of(tl.load(changed + tokens), peak, unit)
        plain = tl.load(logits + tokens, mask=tokens < known, other=0.0)
        exponentials += tl.where(tokens < vocabulary, tl.exp(plain - plain_peak), 0.0)
    limit = most_dropped(tl.sum(weights, axis=0), tl.load(top_ps + own))
    top_k = tl.load(top_ks + own)

    # All ids below ``low`` can be dropped, but not all below ``high``. The padding is lower still,
    # and weighs nothing.
    low = ordered(tl.min(lowest, axis=0)) << id_bits
    high = (ordered(peak) + 1) << id_bits
    below_low = low * 0 + (padded - vocabulary)
    below_high = low * 0 + padded
    weight_below = low * 0
    rounds = 0
    while below_high - below_low > (1 << counted_bits):
        # The mean of two logits parts them better than the mean of their bits, until they are
        # nearly equal.
        mean = 0.5 * _logit_of(low >> id_bits) + 0.5 * _logit_of(high >> id_bits)
        middle = tl.where(rounds < 8, ordered(mean) << id_bits, (low + high) >> 1)
        rounds += 1
        counts = tl.zeros([part], dtype=tl.int32)
        weights = tl.zeros([part], dtype=tl.int64)
        for start in range(0, padded, part):
            x = tl.load(changed + start + places)
            is_below = (ordered(x) << id_bits) + start + places < middle
            counts += is_below.to(tl.int32)
            weights += tl.where(is_below, weights_of(x, peak, unit), 0)
        below = tl.sum(counts, axis=0).to(tl.int64)
        weight = tl.sum(weights, axis=0)
        dropped = may_drop(below, weight, limit, top_k, padded, min_kept)
        low = tl.where(dropped, middle, low)
        below_low = tl.where(dropped, below, below_low)
        weight_below = tl.where(dropped, weight, weight_below)
        high = tl.where(dropped, high, middle)
        below_high = tl.where(dropped, below_high, below)

    found = 0
    for start in range(0, padded, part):
        tokens = start + places
        keys = (ordered(tl.load(changed + tokens)) << id_bits) + tokens
        is_near = (keys >= low) & (keys < high)
        near = is_near.to(tl.int32)
        place = nearby + found - 1
        found += tl.sum(near, axis=0)
        tl.store(place + tl.cumsum(near, axis=0), tokens, mask=is_near)
    tl.debug_barrier()  # one thread wrote what another one reads
    few = tl.arange(0, 1 << counted_bits)
    near_ids = tl.load(nearby + few, mask=few < found, other=0)
    near_x = tl.load(changed + near_ids)
    low = lowest_kept(
        (ordered(near_x) << id_bits) + near_ids,
        weights_of(near_x, peak, unit),
        few < found,
        low,
        high,
        below_low,
        below_high,
        weight_below,
        limit,
        top_k,
        padded,
        min_kept,
        counted_bits,
    )

    # Top-p and top-k keep at least the three best ids, so the best that is allowed is among them.
    allowed_peak = tl.max(allowed_highest, axis=0)
    best = tl.zeros([part], dtype=tl.int32) + padded
    weights = tl.zeros([part], dtype=tl.int64)
    for start in range(0, padded, part):
        tokens = start + places
        x = tl.load(changed + tokens)
        kept = ((ordered(x) << id_bits) + tokens >= low) & ((tokens != end) | may_end)
        x = tl.where(kept, x, float("-inf"))
        best = tl.minimum(best, tl.where(x == allowed_peak, tokens, padded))
        weights += weights_of(x, allowed_peak, unit)
        tl.store(changed + tokens, x)
    target = drawn_share(tl.sum(weights, axis=0), words, own, number, codebook)
    before = tl.zeros([part], dtype=tl.int32)
    passed = target * 0
    for start in range(0, padded, part):
        weights = weights_of(tl.load(changed + start + places), allowed_peak, unit)
        before += (passed + tl.cumsum(weights, axis=0) <= target).to(tl.int32)
        passed += tl.sum(weights, axis=0)
    chosen = tl.where(temperature == 0.0, tl.min(best, axis=0), tl.sum(before, axis=0))

    of_chosen = tl.load(logits + chosen, mask=chosen < known, other=0.0)
    total = tl.sum(exponentials, axis=0)
    tl.store(ids + own_lane, chosen)
    tl.store(logprobs + own_lane, of_chosen - plain_peak - tl.log(total))
    tl.store(windows + (own * history + number % history) * num_codebooks + codebook, chosen)
    if codebook == 0:
        tl.store(finite + own, all_sound.to(tl.uint8))


@triton.jit
def _logit_of(order: tl.tensor) -> tl.tensor:
    """Return the float32 whose place :func:`ordered` gives."""
    pattern = order.to(tl.int32)
    return tl.where(pattern >= 0, pattern, pattern ^ 0x7FFFFFFF).to(tl.float32, bitcast=True)
