"""The processing of logits before a draw, in the order of the published model.

The order is: temperature, repetition penalty over the last 16 tokens, top-p, top-k, forbidden end,
draw. Every function takes float32 logits of shape (..., vocabulary) and returns new ones.
"""

from __future__ import annotations

import torch
from torch import Tensor

PENALTY_WINDOW = 16
MIN_KEPT = 3


def apply_temperature(logits: Tensor, temperature: Tensor) -> Tensor:
    """Divide by ``temperature``, of shape () or broadcastable to (..., 1)."""
    return logits / temperature


def penalise_repetition(logits: Tensor, history: Tensor, penalty: Tensor) -> Tensor:
    """Make tokens that were generated recently less probable.

    The logit of a token that occurs n times in the last 16 of ``history`` is divided by penalty^n
    if it is positive, and multiplied by that if it is negative (after CTRL, Keskar et al. 2019).

    Args:
        logits: (..., vocabulary).
        history: (..., n), the ids generated so far.
        penalty: broadcastable to (..., 1); 1 changes nothing.
    """
    window = history[..., -PENALTY_WINDOW:]
    counts = torch.zeros_like(logits).scatter_add_(
        -1, window, torch.ones_like(window, dtype=logits.dtype)
    )
    factor = penalty**counts
    return torch.where(logits > 0, logits / factor, logits * factor)


def keep_top(logits: Tensor, top_p: Tensor, top_k: Tensor) -> Tensor:
    """Apply top-p, then top-k; each keeps at least 3 tokens.

    Both drop the least probable tokens. Top-p (nucleus sampling, Holtzman et al. 2020) drops those
    whose probabilities sum to at most 1 - ``top_p``, and top-k all but the first ``top_k``.

    Args:
        logits: (..., vocabulary).
        top_p: broadcastable to (..., 1).
        top_k: integers, broadcastable to (..., 1).
    """
    ascending, order = logits.sort(dim=-1, stable=True)  # of equal logits the later id is kept
    size = logits.shape[-1]
    tail = ascending.softmax(dim=-1).cumsum(dim=-1)  # probability of a token and all below it
    rank = torch.arange(size, 0, -1, device=logits.device)  # the most probable token has rank 1
    drop = ((tail <= 1.0 - top_p) | (rank > top_k)) & (rank > MIN_KEPT)
    return logits.masked_fill(drop.scatter(-1, order, drop), -torch.inf)


def forbid(logits: Tensor, token: int, rows: Tensor) -> Tensor:
    """Make ``token`` impossible where ``rows`` (bool, one value for each first index) is true."""
    forbidden = logits.clone()
    forbidden[rows, ..., token] = -torch.inf
    return forbidden


def draw(logits: Tensor, uniform: Tensor) -> Tensor:
    """Draw ids by inverting the cumulative distribution at ``uniform`` in [0, 1).

    Args:
        logits: (..., vocabulary); -inf marks what cannot be drawn.
        uniform: (...).

    Returns:
        int64 ids of shape (...).
    """
    cumulative = logits.softmax(dim=-1).cumsum(dim=-1)
    # Scaled by the sum that was reached, so that rounding never gives an index past the end. The
    # first id above the target has a probability above zero.
    target = (uniform * cumulative[..., -1]).unsqueeze(-1)
    return torch.searchsorted(cumulative, target, right=True).squeeze(-1)
