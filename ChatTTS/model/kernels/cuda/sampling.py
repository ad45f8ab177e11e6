"""Draws of the codes of a step, with one program for each row and codebook.

The kernel applies the steps of :mod:`ChatTTS.model.sampling` in the order given there, and draws
equal ids. Its twin calls that module, and draws from vocabularies that are too large for a program.

There is no sort. Ids are ordered by unique keys: the bits of the logit, then the id. The lowest key
that is kept is found by bisection. This works because the higher a bound is, the less likely top-p
and top-k are to drop all ids below it. Bisection needs comparisons and sums of integers alone, on
which Triton's interpreter and compiler agree exactly. It usually takes 10 to 20 rounds; a compiled
sort takes 55 exchanges for 1024 ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from ...draws import key_words, philox
from ...processors import MIN_KEPT, PENALTY_WINDOW, count_repetitions
from ...sampling import Draw, SamplingTensors, draw_ids
from .philox import uniform_bits

# Binary digits of the fixed point; fewer if a large vocabulary leaves less room in 64 bits.
_DIGITS = 40


@dataclass(frozen=True)
class DrawState:
    """The settings and the history of every sequence, on the device; all tensors are contiguous.

    Attributes:
        temperature: float32 [rows, num_codebooks]; 0 is greedy.
        top_p: float32 [rows].
        top_k: int32 [rows].
        penalties: float32 [rows, 17], the repetition penalty to the powers 0 to 16.
        min_new: int32 [rows]; the end id is forbidden until this many ids were drawn.
        words: int32 [rows, 5], bit patterns of a draw's key: seed (low, high), stream, sample,
            utterance.
        generated: int32 [rows], number of ids so far, which is the index of the next one.
        window: int32 [rows, 16, num_codebooks], a ring buffer of the last ids: the ids of index g
            are at g % 16; -1 in unused places.
    """

    temperature: Tensor
    top_p: Tensor
    top_k: Tensor
    penalties: Tensor
    min_new: Tensor
    words: Tensor
    generated: Tensor
    window: Tensor

    @classmethod
    def zeros(cls, rows: int, num_codebooks: int, device: torch.device) -> DrawState:
        """Return the state of unused rows: greedy, without a penalty or a history."""

        def whole(*size: int) -> Tensor:
            return torch.zeros(*size, dtype=torch.int32, device=device)

        def real(*size: int) -> Tensor:
            return torch.zeros(*size, dtype=torch.float32, device=device)

        return cls(
            temperature=real(rows, num_codebooks),
            top_p=real(rows),
            top_k=whole(rows),
            penalties=real(rows, PENALTY_WINDOW + 1) + 1,
            min_new=whole(rows),
            words=whole(rows, 5),
            generated=whole(rows),
            window=whole(rows, PENALTY_WINDOW, num_codebooks) - 1,
        )


def pack_draws(rows: Sequence[Draw], num_codebooks: int) -> dict[str, NDArray[Any]]:
    """Return the fields of a :class:`DrawState` for ``rows`` by name, as host arrays.

    The end id is not included: all rows of a model share it.
    """
    settings = [row.sampling for row in rows]
    window = np.full((len(rows), PENALTY_WINDOW, num_codebooks), -1, dtype=np.int32)
    for ring, row in zip(window, rows, strict=True):
        count = len(row.window)
        ring[np.arange(row.position - count, row.position) % PENALTY_WINDOW] = row.window[
            :, :num_codebooks
        ]
    # Powers are computed in float64 and then rounded, as an exact float32 power would be.
    penalty = np.array([s.repetition_penalty for s in settings], dtype=np.float32)
    with np.errstate(over="ignore"):
        powers = penalty.astype(np.float64)[:, None] ** np.arange(PENALTY_WINDOW + 1)
        penalties = powers.astype(np.float32)
    most = np.iinfo(np.int32).max
    return {
        "temperature": np.array([s.temperature for s in settings], dtype=np.float32),
        "top_p": np.array([s.top_p for s in settings], dtype=np.float32),
        "top_k": np.array([min(s.top_k, most) for s in settings], dtype=np.int32),
        "penalties": penalties,
        "min_new": np.array([min(s.min_new, most) for s in settings], dtype=np.int32),
        "words": np.array([key_words(row.key) for row in rows], dtype=np.uint32).view(np.int32),
        "generated": np.array([row.position for row in rows], dtype=np.int32),
        "window": window,
    }


def draw_codes(
    logits: Tensor, state: DrawState, end: int, ids: Tensor, logprobs: Tensor, finite: Tensor
) -> None:
    """Draw an id for every row and codebook, and put it into the row's window.

    ``state.generated`` does not change: the code that runs the step increases it.

    Args:
        logits: float32 [rows, num_codebooks, vocabulary], contiguous; at most 2**15 ids. A few
            thousand are better, because one program holds them all.
        state: settings and history of these rows; it may have more rows than ``logits``.
        end: the id that is forbidden while ``generated`` is below ``min_new``.
        ids: int32 [rows, num_codebooks], contiguous; receives the drawn ids.
        logprobs: float32 [rows, num_codebooks], contiguous; receives the log-probabilities of the
            ids under the unprocessed logits.
        finite: uint8 [rows]; receives 0 if a logit of the row is not finite, which makes its ids
            meaningless, else 1.
    """
    rows, num_codebooks, vocabulary = logits.shape
    if not rows:
        return
    block = triton.next_power_of_2(vocabulary)
    id_bits = block.bit_length() - 1
    # The sum of all weights (high bits) and the count of all ids (low bits) must fit into 62 bits.
    digits = min(_DIGITS, 61 - 2 * id_bits)
    _draw_codes[(rows, num_codebooks)](
        logits,
        state.temperature,
        state.top_p,
        state.top_k,
        state.penalties,
        state.min_new,
        state.words,
        state.generated,
        state.window,
        ids,
        logprobs,
        finite,
        end,
        num_codebooks,
        vocabulary,
        block,
        id_bits,
        float(2**digits),
        PENALTY_WINDOW,
        MIN_KEPT,
        # Few ids take one warp. More warps would hold the same ids, and one might store into the
        # window before another has read it, since no sum crosses warps.
        num_warps=1 if block <= 32 else min(max(block // 256, 4), 32),
    )


def draw_codes_torch(
    logits: Tensor, state: DrawState, end: int, ids: Tensor, logprobs: Tensor, finite: Tensor
) -> None:
    """Compute :func:`draw_codes` with operators of torch, for at most 2**22 ids.

    The host does not wait for the device.
    """
    rows, num_codebooks, vocabulary = logits.shape
    window = state.window[:rows].transpose(1, 2).long()  # [rows, num_codebooks, 16]
    counts = count_repetitions(window, vocabulary).long()
    powers = state.penalties[:rows].unsqueeze(1).expand(-1, num_codebooks, -1)
    number = state.generated[:rows]
    drawn, logprobs[:rows], sound = draw_ids(
        logits,
        SamplingTensors(
            state.temperature[:rows].unsqueeze(-1),
            state.top_p[:rows, None, None],
            state.top_k[:rows, None, None],
        ),
        powers.gather(2, counts),
        torch.where(number < state.min_new[:rows], end, -1),
        random_bits_of(state.words[:rows], number, num_codebooks),
    )
    ids[:rows] = drawn
    finite[:rows] = sound
    places = (number % PENALTY_WINDOW).long()[:, None, None].expand(-1, 1, num_codebooks)
    state.window[:rows].scatter_(1, places, ids[:rows].unsqueeze(1))


def random_bits_of(words: Tensor, positions: Tensor, num_codebooks: int) -> Tensor:
    """Return what :func:`~ChatTTS.model.draws.random_bits` returns, on the device.

    Args:
        words: int32 [rows, 5], bit patterns of a draw's key; see :class:`DrawState`.
        positions: int32 [rows].
        num_codebooks: of a row.
    """
    low, high, stream, sample, utterance = (words.long() & 0xFFFFFFFF).unsqueeze(-1).unbind(1)
    groups = torch.arange((num_codebooks + 3) // 4, device=words.device)
    out = philox((positions.long()[:, None], stream | groups, sample, utterance), (low, high))
    return torch.stack(out, dim=-1).flatten(1)[:, :num_codebooks] >> 8


@triton.jit(do_not_specialize=["end"])
def _draw_codes(
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
    end: tl.tensor,
    num_codebooks: tl.constexpr,
    vocabulary: tl.constexpr,
    block: tl.constexpr,
    id_bits: tl.constexpr,
    scale: tl.constexpr,
    history: tl.constexpr,
    min_kept: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    codebook = tl.program_id(1)
    tokens = tl.arange(0, block)
    real = tokens < vocabulary
    number = tl.load(generated + row)

    plain = tl.load(
        logits + (row * num_codebooks + codebook) * vocabulary + tokens, mask=real, other=0.0
    )
    # One logit that is not finite invalidates all codebooks of the row. As in the twin, the row is
    # then drawn from logits of zero, so that every id exists in the vocabulary.
    sound = tokens >= 0
    for other in tl.static_range(num_codebooks):
        x = tl.load(
            logits + (row * num_codebooks + other) * vocabulary + tokens, mask=real, other=0.0
        )
        sound = sound & (tl.abs(x) < float("inf"))
    all_sound = tl.min(sound.to(tl.int32), axis=0)
    plain = tl.where(all_sound > 0, plain, 0.0)

    temperature = tl.load(temperatures + row * num_codebooks + codebook)
    greedy = temperature == 0.0
    x = tl.div_rn(plain, tl.where(greedy, 1.0, temperature))
    counts = tl.zeros([block], dtype=tl.int32)
    for slot in tl.static_range(history):
        lately = tl.load(windows + (row * history + slot) * num_codebooks + codebook)
        counts += (tokens == lately).to(tl.int32)
    factor = tl.load(penalties + row * (history + 1) + counts)
    x = tl.where(x > 0.0, tl.div_rn(x, factor), x * factor)
    # An extreme penalty overflows; the draw needs finite numbers. -0.0 becomes 0.0, since the two
    # are equal but their bits differ.
    x = tl.where((x != x) | (x == 0.0), 0.0, x)
    x = tl.minimum(tl.maximum(x, -3.4028234663852886e38), 3.4028234663852886e38)

    top_p = tl.load(top_ps + row)
    top_k = tl.load(top_ks + row)
    weights = _weights(tl.where(real, x, float("-inf")), scale)
    kept = _kept(x, weights, tokens, real, top_p, top_k, vocabulary, id_bits, min_kept)
    allowed = (tokens != end) | (number >= tl.load(min_news + row))
    x = tl.where(kept & allowed, x, float("-inf"))

    best = tl.min(tl.where(x == tl.max(x, axis=0), tokens, block), axis=0)
    weights = _weights(x, scale)
    key = words + row * 5
    bits = uniform_bits(
        number,
        tl.load(key + 2),
        tl.load(key + 3),
        tl.load(key + 4),
        tl.load(key),
        tl.load(key + 1),
        codebook,
    )
    # The first id whose cumulative weight exceeds the target always has a weight above zero.
    target = _share(tl.sum(weights, axis=0), bits)
    drawn = tl.sum((tl.cumsum(weights, axis=0) <= target).to(tl.int32), axis=0)
    chosen = tl.where(greedy, best, drawn)

    masked = tl.where(real, plain, float("-inf"))
    peak = tl.max(masked, axis=0)
    total = tl.sum(tl.exp(masked - peak), axis=0)
    of_chosen = tl.sum(tl.where(tokens == chosen, plain, 0.0), axis=0)
    tl.store(ids + row * num_codebooks + codebook, chosen)
    tl.store(logprobs + row * num_codebooks + codebook, of_chosen - peak - tl.log(total))
    tl.store(windows + (row * history + number % history) * num_codebooks + codebook, chosen)
    if codebook == 0:
        tl.store(finite + row, all_sound.to(tl.uint8))


@triton.jit
def _weights(x: tl.tensor, scale: tl.constexpr) -> tl.tensor:
    """Return the probabilities as int64 weights; the greatest probability becomes ``scale``.

    They are rounded up, so that a probability above zero in float32 has a weight above zero. Once
    the end is forbidden, such an id may be the only one left.
    """
    return tl.ceil(tl.exp(x - tl.max(x, axis=0)) * scale).to(tl.int64)


@triton.jit
def _share(total: tl.tensor, bits: tl.tensor) -> tl.tensor:
    """Return ``total`` times ``bits`` times 2**-24, rounded down, without overflowing products."""
    return (total >> 24) * bits + (((total & 0xFFFFFF) * bits) >> 24)


@triton.jit
def _kept(
    x: tl.tensor,
    weights: tl.tensor,
    tokens: tl.tensor,
    real: tl.tensor,
    top_p: tl.tensor,
    top_k: tl.tensor,
    vocabulary: tl.constexpr,
    id_bits: tl.constexpr,
    min_kept: tl.constexpr,
) -> tl.tensor:
    """Return which ids top-p and top-k keep, bool [block].

    Both drop ids from the bottom of an ascending order, in which the larger id is the higher one of
    two with equal logits. All ids below a bound can be dropped if the highest of them can be; top-p
    judges that one by the weight of all ids below the bound. If all ids below a bound can be
    dropped, then so can all ids below every lower bound.
    """
    pattern = x.to(tl.int32, bitcast=True)
    ascending = tl.where(pattern >= 0, pattern, pattern ^ 0x7FFFFFFF)
    keys = (ascending.to(tl.int64) << id_bits) + tokens

    # Weight and count share one number, so that one sum adds up both.
    marked = tl.where(real, (weights << (id_bits + 1)) + 1, 0)
    # 1 - top_p is a multiple of 2**-24 wherever top_p lies in [0, 1], so this is exact.
    limit = _share(tl.sum(weights, axis=0), ((1.0 - top_p) * 16777216.0).to(tl.int64))

    # All ids below ``low`` can be dropped, but not all below ``high``. When a single id is left
    # between the two, it is the lowest that is kept.
    low = tl.min(tl.where(real, keys, 0x7FFFFFFFFFFFFFFF), axis=0)
    high = tl.max(tl.where(real, keys, -0x7FFFFFFFFFFFFFFF), axis=0) + 1
    below_low = low * 0
    below_high = below_low + vocabulary
    while below_high - below_low > 1:
        middle = (low + high) >> 1
        sums = tl.sum(tl.where(keys < middle, marked, 0), axis=0)
        below = sums & ((2 << id_bits) - 1)
        rank = vocabulary - below + 1  # of the highest id below the middle; the best has rank 1
        outside = ((sums >> (id_bits + 1)) <= limit) | (rank > top_k)
        dropped = (below == 0) | (outside & (rank > min_kept))
        low = tl.where(dropped, middle, low)
        below_low = tl.where(dropped, below, below_low)
        high = tl.where(dropped, high, middle)
        below_high = tl.where(dropped, below_high, below)
    return real & (keys >= low)
