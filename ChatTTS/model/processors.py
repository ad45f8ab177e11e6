"""The processing of logits before a draw: each step is a function of tensors.

``sampling.py`` applies them in the order of the published model: temperature, repetition penalty
over the last 16 tokens, top-p, top-k, forbidden end, draw. Logits are float32 of shape (...,
vocabulary). A function that changes them returns new ones. The CPU and GPU kernels carry out each
rule once more; "Add a sampling rule" in CONTRIBUTING.md names the places.

Probabilities are whole numbers, in all of them. Torch adds floating-point numbers on a GPU in an
order that differs between calls and between numbers of rows; sums of whole numbers are exact in any
order. So no bit of a row depends on the other rows, and equal logits are kept or dropped alike
everywhere.
"""

from __future__ import annotations

import torch
from torch import Tensor

PENALTY_WINDOW = 16
MIN_KEPT = 3
# Binary digits of a probability as a whole number. The sum over 2**22 ids still fits into 63 bits.
_DIGITS = 40


def apply_temperature(logits: Tensor, temperature: Tensor) -> Tensor:
    """Divide by ``temperature``, of shape () or broadcastable to (..., 1)."""
    return logits / temperature


def count_repetitions(history: Tensor, vocabulary: int) -> Tensor:
    """Count how often each id stands among the last 16 of ``history``.

    Args:
        history: int64 (..., generated ids so far); -1 is no id.

    Returns:
        float32 (..., vocabulary).
    """
    window = history[..., -PENALTY_WINDOW:]
    counts = torch.zeros(*window.shape[:-1], vocabulary, device=window.device)
    return counts.scatter_add_(-1, window.clamp_min(0), (window >= 0).to(counts.dtype))


def apply_repetition_penalty(logits: Tensor, factors: Tensor) -> Tensor:
    """Weaken what was generated lately (after CTRL, Keskar et al. 2019).

    Args:
        logits: (..., vocabulary); divided by its factor if positive, multiplied by it if negative.
        factors: the repetition penalty to the power of :func:`count_repetitions`, in the shape of
            ``logits``.
    """
    return torch.where(logits > 0, logits / factors, logits * factors)


def apply_top_p_top_k(logits: Tensor, top_p: Tensor, top_k: Tensor) -> Tensor:
    """Apply top-p, then top-k; each keeps at least 3 tokens.

    Both drop the least probable tokens. Top-p (nucleus sampling, Holtzman et al. 2020) drops those
    whose probabilities sum to at most 1 - ``top_p``, and top-k all but the first ``top_k``.

    Args:
        logits: (..., vocabulary).
        top_p: broadcastable to (..., 1).
        top_k: integers, broadcastable to (..., 1).
    """
    ascending, order = logits.sort(dim=-1, stable=True)  # of equal logits the later id is kept
    tail = weights(ascending).cumsum(dim=-1)  # weight of a token and all below it
    # 1 - top_p is a multiple of 2**-24 wherever top_p lies in [0, 1], so this is exact.
    limit = share(tail[..., -1:], ((1.0 - top_p) * 2.0**24).long())
    rank = torch.arange(logits.shape[-1], 0, -1, device=logits.device)  # the best has rank 1
    drop = ((tail <= limit) | (rank > top_k)) & (rank > MIN_KEPT)
    return logits.masked_fill(drop.scatter(-1, order, drop), -torch.inf)


def weights(logits: Tensor) -> Tensor:
    """Return the probabilities of logits as whole numbers; the greatest becomes the unit.

    They are rounded up, so that a probability above zero in float32 has a weight above zero.
    """
    scaled = (logits - logits.amax(dim=-1, keepdim=True)).exp() * 2.0**_DIGITS
    return scaled.ceil().long()


def share(total: Tensor, bits: Tensor) -> Tensor:
    """Return ``total`` times ``bits`` times 2**-24, rounded down, without overflowing products."""
    return (total >> 24) * bits + (((total & 0xFFFFFF) * bits) >> 24)


def log_probabilities(logits: Tensor, ids: Tensor) -> Tensor:
    """Return the log-probabilities of ids (...) under ``logits``, float32."""
    peak, chosen = logits.amax(dim=-1), logits.gather(-1, ids.unsqueeze(-1)).squeeze(-1)
    return chosen - peak - (weights(logits).sum(dim=-1).float() * 2.0**-_DIGITS).log()


def forbid(logits: Tensor, ids: Tensor) -> Tensor:
    """Make one id of each row impossible.

    Args:
        logits: (rows, num_codebooks, vocabulary).
        ids: int64 (rows); -1 forbids nothing.
    """
    tokens = torch.arange(logits.shape[-1], device=logits.device)
    return logits.masked_fill(tokens == ids[:, None, None], -torch.inf)


def sample(logits: Tensor, bits: Tensor) -> Tensor:
    """Draw ids by inverting the cumulative distribution.

    Args:
        logits: (..., vocabulary); -inf marks what cannot be drawn.
        bits: int64 (...), 24 random bits of each draw.

    Returns:
        int64 ids of shape (...).
    """
    below = weights(logits).cumsum(dim=-1)
    # The first id whose cumulative weight exceeds the target always has a weight above zero.
    target = share(below[..., -1:], bits.unsqueeze(-1))
    return torch.searchsorted(below, target, right=True).squeeze(-1)
