"""What happens to logits before a draw, in the order of the published model.

temperature, repetition penalty over the last 16 tokens, top-p, top-k, forbidden end; then a draw.
Every function takes logits of shape (..., vocabulary) in float32 and returns new ones.
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
    """Weaken what was generated lately.

    A token that stands n times among the last 16 of ``history`` has its logit divided by
    penalty^n if positive, multiplied by it if negative (after CTRL, Keskar et al. 2019).

    Args:
        logits: (..., vocabulary).
        history: (..., generated tokens so far), ids.
        penalty: broadcastable to (..., 1); 1 changes nothing.
    """
    window = history[..., -PENALTY_WINDOW:]
    counts = torch.zeros_like(logits).scatter_add_(
        -1, window, torch.ones_like(window, dtype=logits.dtype)
    )
    factor = penalty**counts
    return torch.where(logits > 0, logits / factor, logits * factor)


def keep_top(logits: Tensor, top_p: Tensor, top_k: Tensor) -> Tensor:
    """Top-p, then top-k, each keeping at least 3 tokens.

    Both drop from the bottom of one order: top-p (nucleus sampling, Holtzman et al. 2020) what
    together has a probability of at most 1 - ``top_p``, top-k what stands below the first
    ``top_k``.

    Args:
        logits: (..., vocabulary).
        top_p: broadcastable to (..., 1).
        top_k: the same, integers.
    """
    ascending, order = logits.sort(dim=-1, stable=True)  # of equals the later id is kept
    size = logits.shape[-1]
    tail = ascending.softmax(dim=-1).cumsum(dim=-1)  # probability of a token and all below it
    rank = torch.arange(size, 0, -1, device=logits.device)  # the most probable token has rank 1
    drop = ((tail <= 1.0 - top_p) | (rank > top_k)) & (rank > MIN_KEPT)
    return logits.masked_fill(drop.scatter(-1, order, drop), -torch.inf)


def forbid(logits: Tensor, token: int, rows: Tensor) -> Tensor:
    """Make ``token`` impossible where ``rows`` (bool, one for each leading index) is true."""
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
    # Scaled by the sum that was really reached, so that rounding never falls off the end; the
    # first id above the number has a probability above zero.
    target = (uniform * cumulative[..., -1]).unsqueeze(-1)
    return torch.searchsorted(cumulative, target, right=True).squeeze(-1)
