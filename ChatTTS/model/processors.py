"""The processing of logits before a draw: each step is a function of tensors.

``sampling.py`` applies them in the order of the published model: temperature, repetition penalty
over the last 16 tokens, top-p, top-k, forbidden end, draw. Logits are float32 of shape (...,
vocabulary). A function that changes them returns new ones. The CPU and GPU kernels carry out each
rule once more; "Add a sampling rule" in CONTRIBUTING.md names the places.
"""

from __future__ import annotations

import torch
from torch import Tensor

PENALTY_WINDOW = 16
MIN_KEPT = 3
_ONE = 2.0**52  # a probability of 1 as a whole number; a thousand of them fit in int64


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


def penalise_repetition(logits: Tensor, factors: Tensor) -> Tensor:
    """Weaken what was generated lately (after CTRL, Keskar et al. 2019).

    Args:
        logits: (..., vocabulary); divided by its factor if positive, multiplied by it if negative.
        factors: the repetition penalty to the power of :func:`count_repetitions`, in the shape of
            ``logits``.
    """
    return torch.where(logits > 0, logits / factors, logits * factors)


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
    tail = running_sums(ascending.softmax(dim=-1))  # probability of a token and all below it
    rank = torch.arange(size, 0, -1, device=logits.device)  # the most probable token has rank 1
    drop = ((tail <= 1.0 - top_p) | (rank > top_k)) & (rank > MIN_KEPT)
    return logits.masked_fill(drop.scatter(-1, order, drop), -torch.inf)


def running_sums(probabilities: Tensor) -> Tensor:
    """Return the sums of each probability and all before it, in the last dimension.

    On CUDA the order of torch's sums varies from call to call and with the number of rows. Whole
    numbers have one sum in any order.
    """
    if not probabilities.is_cuda:
        return probabilities.cumsum(dim=-1)
    return whole_number_sums(probabilities)


def whole_number_sums(probabilities: Tensor) -> Tensor:
    """Return running sums in the dtype of ``probabilities``, exact to 2^-52."""
    whole = (probabilities.double() * _ONE).to(torch.int64)
    return (whole.cumsum(dim=-1).double() / _ONE).to(probabilities.dtype)


def forbid(logits: Tensor, ids: Tensor) -> Tensor:
    """Make one id of each row impossible.

    Args:
        logits: (rows, num_codebooks, vocabulary).
        ids: int64 (rows); -1 forbids nothing.
    """
    tokens = torch.arange(logits.shape[-1], device=logits.device)
    return logits.masked_fill(tokens == ids[:, None, None], -torch.inf)


def draw(logits: Tensor, uniform: Tensor) -> Tensor:
    """Draw ids by inverting the cumulative distribution at ``uniform`` in [0, 1).

    Args:
        logits: (..., vocabulary); -inf marks what cannot be drawn.
        uniform: (...).

    Returns:
        int64 ids of shape (...).
    """
    cumulative = running_sums(logits.softmax(dim=-1))
    # Scaled by the sum that was reached, so that rounding never gives an index past the end. The
    # first id above the target has a probability above zero.
    target = (uniform * cumulative[..., -1]).unsqueeze(-1)
    return torch.searchsorted(cumulative, target, right=True).squeeze(-1)
