"""Sampling of a step in one launch, with one program for each row and codebook.

The kernels apply the steps of :mod:`ChatTTS.model.sampling` in the order given there, and draw
equal ids. Their torch reference calls that module. The kernel of this module holds all logits of a
codebook in registers; ``text_sampling.py`` has that of larger vocabularies. The bisection of
``sampling_rules.py`` usually takes 10 to 20 rounds here; a compiled sort takes 55 exchanges for
1024 ids.
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

from ...processors import MIN_KEPT, PENALTY_WINDOW, count_repetitions
from ...random_numbers import key_words, philox
from ...sampling import SamplingRow, SamplingTensors, sample_ids
from .launching import launcher
from .sampling_rules import (
    COUNTED_BITS,
    UNIT,
    apply_penalty,
    apply_temperature,
    bounded,
    drawn_share,
    lowest_kept,
    most_dropped,
    ordered,
    weights_of,
)
from .text_sampling import sample_large_vocabulary

# Ids that a program of the large kernel looks at together.
_PART = 2048


@dataclass(frozen=True)
class SamplingState:
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
    def zeros(cls, rows: int, num_codebooks: int, device: torch.device) -> SamplingState:
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


def pack_sampling(rows: Sequence[SamplingRow], num_codebooks: int) -> dict[str, NDArray[Any]]:
    """Return the fields of a :class:`SamplingState` for ``rows`` by name, as host arrays.

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


def sample_codes(
    logits: Tensor,
    state: SamplingState,
    end: int,
    ids: Tensor,
    logprobs: Tensor,
    finite: Tensor,
    slots: Tensor | None = None,
) -> None:
    """Draw an id for every row and codebook, and put it into the row's window.

    ``state.generated`` does not change: the code that runs the step increases it.

    Args:
        logits: float32 [rows, num_codebooks, vocabulary], contiguous; at most 2**22 ids.
        state: settings and history of these rows; it may have more rows than ``logits``.
        end: the id that is forbidden while ``generated`` is below ``min_new``.
        ids: int32 [rows, num_codebooks], contiguous; receives the drawn ids.
        logprobs: float32 [rows, num_codebooks], contiguous; receives the log-probabilities of the
            ids under the unprocessed logits.
        finite: uint8 [rows]; receives 0 if a logit of the row is not finite, which makes its ids
            meaningless, else 1.
        slots: int32 [rows], where a row's state is and its ids, log-probabilities and ``finite``
            go; by default they are in order.
    """
    rows, num_codebooks, vocabulary = logits.shape
    if not rows:
        return
    given = (
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
        slots,
        end,
    )
    rules = COUNTED_BITS, UNIT, PENALTY_WINDOW, MIN_KEPT
    block = triton.next_power_of_2(vocabulary)
    if vocabulary <= 2**COUNTED_BITS:
        # Few ids take one warp. More warps would hold the same ids, and one might store into the
        # window before another has read it, since no sum crosses warps.
        warps = 1 if block <= 32 else 4
        sizes = num_codebooks, vocabulary, block
        launcher(_sample_codes, (rows, num_codebooks))(*given, *sizes, *rules, num_warps=warps)
        return
    padded = triton.cdiv(vocabulary, _PART) * _PART
    changed = logits.new_empty(rows, num_codebooks, padded)
    nearby = ids.new_empty(rows, num_codebooks, 2**COUNTED_BITS)
    launcher(sample_large_vocabulary, (rows, num_codebooks))(
        *given,
        changed,
        nearby,
        num_codebooks,
        vocabulary,
        padded,
        _PART,
        block.bit_length() - 1,
        *rules,
        num_warps=16,
    )


def sample_codes_torch(
    logits: Tensor,
    state: SamplingState,
    end: int,
    ids: Tensor,
    logprobs: Tensor,
    finite: Tensor,
    slots: Tensor | None = None,
) -> None:
    """Compute :func:`sample_codes` with operators of torch."""
    rows, num_codebooks, vocabulary = logits.shape
    at = torch.arange(rows, device=logits.device) if slots is None else slots
    window = state.window[at].transpose(1, 2).long()  # [rows, num_codebooks, 16]
    counts = count_repetitions(window, vocabulary).long()
    powers = state.penalties[at].unsqueeze(1).expand(-1, num_codebooks, -1)
    number = state.generated[at]
    drawn, logprobs[at], sound = sample_ids(
        logits,
        SamplingTensors(
            state.temperature[at].unsqueeze(-1),
            state.top_p[at, None, None],
            state.top_k[at, None, None],
        ),
        powers.gather(2, counts),
        torch.where(number < state.min_new[at], end, -1),
        random_bits_of(state.words[at], number, num_codebooks),
    )
    ids[at], finite[at] = drawn.to(ids.dtype), sound.to(finite.dtype)
    state.window[at, number % PENALTY_WINDOW] = ids[at]


def random_bits_of(words: Tensor, positions: Tensor, num_codebooks: int) -> Tensor:
    """Return what :func:`~ChatTTS.model.random_numbers.random_bits` returns, on the device.

    Args:
        words: int32 [rows, 5], bit patterns of a draw's key; see :class:`SamplingState`.
        positions: int32 [rows].
        num_codebooks: of a row.
    """
    low, high, stream, sample, utterance = (words.long() & 0xFFFFFFFF).unsqueeze(-1).unbind(1)
    groups = torch.arange((num_codebooks + 3) // 4, device=words.device)
    out = philox((positions.long()[:, None], stream | groups, sample, utterance), (low, high))
    return torch.stack(out, dim=-1).flatten(1)[:, :num_codebooks] >> 8


@triton.jit(do_not_specialize=["end"])
def _sample_codes(
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
    num_codebooks: tl.constexpr,
    vocabulary: tl.constexpr,
    block: tl.constexpr,
    counted_bits: tl.constexpr,
    unit: tl.constexpr,
    history: tl.constexpr,
    min_kept: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    own = row
    if slots is not None:
        own = tl.load(slots + row).to(tl.int64)
    codebook = tl.program_id(1)
    tokens = tl.arange(0, block)
    real = tokens < vocabulary
    number = tl.load(generated + own)

    plain = tl.load(
        logits + (row * num_codebooks + codebook) * vocabulary + tokens, mask=real, other=0.0
    )
    # One logit that is not finite invalidates all codebooks of the row. As in torch, the row is
    # then drawn from logits of zero, so that every id exists in the vocabulary.
    sound = tokens >= 0
    for other in tl.static_range(num_codebooks):
        x = tl.load(
            logits + (row * num_codebooks + other) * vocabulary + tokens, mask=real, other=0.0
        )
        sound = sound & (tl.abs(x) < float("inf"))
    all_sound = tl.min(sound.to(tl.int32), axis=0)
    plain = tl.where(all_sound > 0, plain, 0.0)

    temperature = tl.load(temperatures + own * num_codebooks + codebook)
    counts = tl.zeros([block], dtype=tl.int32)
    for slot in tl.static_range(history):
        lately = tl.load(windows + (own * history + slot) * num_codebooks + codebook)
        counts += (tokens == lately).to(tl.int32)
    factor = tl.load(penalties + own * (history + 1) + counts)
    x = bounded(apply_penalty(apply_temperature(plain, temperature), factor))
    masked = tl.where(real, x, float("-inf"))
    weights = weights_of(masked, tl.max(masked, axis=0), unit)
    keys = (ordered(x) << counted_bits) + tokens
    least = tl.min(tl.where(real, keys, 0x7FFFFFFFFFFFFFFF), axis=0)
    low = lowest_kept(
        keys,
        weights,
        real,
        least,
        tl.max(tl.where(real, keys, -0x7FFFFFFFFFFFFFFF), axis=0) + 1,
        least * 0,
        least * 0 + vocabulary,
        least * 0,
        most_dropped(tl.sum(weights, axis=0), tl.load(top_ps + own)),
        tl.load(top_ks + own),
        vocabulary,
        min_kept,
        counted_bits,
    )
    allowed = (tokens != end) | (number >= tl.load(min_news + own))
    x = tl.where(real & (keys >= low) & allowed, x, float("-inf"))

    best = tl.min(tl.where(x == tl.max(x, axis=0), tokens, block), axis=0)
    weights = weights_of(x, tl.max(x, axis=0), unit)
    target = drawn_share(tl.sum(weights, axis=0), words, own, number, codebook)
    drawn = tl.sum((tl.cumsum(weights, axis=0) <= target).to(tl.int32), axis=0)
    chosen = tl.where(temperature == 0.0, best, drawn)

    masked = tl.where(real, plain, float("-inf"))
    peak = tl.max(masked, axis=0)
    total = tl.sum(tl.exp(masked - peak), axis=0)
    of_chosen = tl.sum(tl.where(tokens == chosen, plain, 0.0), axis=0)
    tl.store(ids + own * num_codebooks + codebook, chosen)
    tl.store(logprobs + own * num_codebooks + codebook, of_chosen - peak - tl.log(total))
    tl.store(windows + (own * history + number % history) * num_codebooks + codebook, chosen)
    if codebook == 0:
        tl.store(finite + own, all_sound.to(tl.uint8))
