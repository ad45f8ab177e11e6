"""Draws of text ids on the device, for vocabularies too large for the kernel of the codes.

Probabilities are integers, as in ``kernels/cuda/sampling.py``. Torch adds floating-point numbers on
a GPU in an order that differs between calls and between numbers of rows; sums of integers are exact
in any order. So no bit of a row depends on the other rows, or on the run.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ....draws import MULTIPLIERS, WEYL
from ....kernels.cuda.sampling import DrawState
from ....processors import MIN_KEPT, PENALTY_WINDOW, count_repetitions

# Binary digits of the fixed point. The sum over 2**22 ids still fits into 63 bits.
_DIGITS = 40
_LOW = 0xFFFFFFFF
_MULTIPLIERS = tuple(map(int, MULTIPLIERS))
_WEYL = tuple(map(int, WEYL))


def draw_texts(
    logits: Tensor, state: DrawState, end: int, ids: Tensor, logprobs: Tensor, finite: Tensor
) -> None:
    """Draw an id for every row, and put it into the row's window.

    It does what ``draw_codes`` of ``kernels/cuda/sampling.py`` does, with operators of torch. The
    host does not wait for the device.

    Args:
        logits: float32 [rows, 1, vocabulary], at most 2**22 ids.
        state: settings and history of these rows, for one codebook; it may have more rows.
        end: the id that is forbidden while ``generated`` is below ``min_new``.
        ids: int32 [rows, 1]; receives the drawn ids.
        logprobs: float32 [rows, 1]; receives the log-probabilities of the ids under ``logits``.
        finite: uint8 [rows]; receives 0 if a logit of the row is not finite, which makes its id
            meaningless, else 1.
    """
    rows, _, vocabulary = logits.shape
    logits = logits.squeeze(1)
    number = state.generated[:rows, None]
    tokens = torch.arange(vocabulary, device=logits.device)
    sound = logits.isfinite().all(dim=1, keepdim=True)
    plain = torch.where(sound, logits, 0.0)

    temperature = state.temperature[:rows]
    greedy = temperature == 0
    x = plain / temperature.masked_fill(greedy, 1.0)
    counts = count_repetitions(state.window[:rows, :, 0].long(), vocabulary).long()
    factors = state.penalties[:rows].gather(1, counts)
    x = torch.where(x > 0, x / factors, x * factors).nan_to_num()
    kept = _kept(x, state.top_p[:rows, None], state.top_k[:rows, None])
    allowed = (tokens != end) | (number >= state.min_new[:rows, None])
    x = x.masked_fill(~(kept & allowed), -torch.inf)

    peak = x.amax(dim=1, keepdim=True)
    best = torch.where(x == peak, tokens, vocabulary).amin(dim=1, keepdim=True)
    below = _weights(x).cumsum(dim=1)
    target = _share(below[:, -1:], _random_bits(state.words[:rows], state.generated[:rows]))
    # The first id whose cumulative weight exceeds the target always has a weight above zero.
    drawn = (below <= target).sum(dim=1, keepdim=True)
    chosen = torch.where(greedy, best, drawn)

    total = _weights(plain).sum(dim=1, keepdim=True).double() * 2.0**-_DIGITS
    peak = plain.amax(dim=1, keepdim=True)
    logprobs[:rows] = plain.gather(1, chosen) - peak - total.log().float()
    ids[:rows] = chosen
    finite[:rows] = sound[:, 0]
    places = (number % PENALTY_WINDOW).long().unsqueeze(2)
    state.window[:rows].scatter_(1, places, ids[:rows].unsqueeze(2))


def _weights(x: Tensor) -> Tensor:
    """Return the probabilities [rows, vocabulary] as int64; the greatest becomes the unit.

    They are rounded up, so that a probability above zero in float32 has a weight above zero.
    """
    scaled = (x - x.amax(dim=1, keepdim=True)).exp() * 2.0**_DIGITS
    return scaled.ceil().long()


def _share(total: Tensor, bits: Tensor) -> Tensor:
    """Return ``total`` times ``bits`` times 2**-24, rounded down, without overflowing products."""
    return (total >> 24) * bits + (((total & 0xFFFFFF) * bits) >> 24)


def _kept(x: Tensor, top_p: Tensor, top_k: Tensor) -> Tensor:
    """Return which ids top-p and top-k keep, bool [rows, vocabulary]."""
    order = x.sort(dim=1, stable=True).indices  # of equal logits the later id is kept
    tail = _weights(x).gather(1, order).cumsum(dim=1)  # weight of an id and all below it
    # 1 - top_p is a multiple of 2**-24 wherever top_p lies in [0, 1], so this is exact.
    limit = _share(tail[:, -1:], ((1.0 - top_p) * 2.0**24).long())
    rank = torch.arange(x.shape[1], 0, -1, device=x.device)  # the most probable id has rank 1
    dropped = ((tail <= limit) | (rank > top_k)) & (rank > MIN_KEPT)
    return ~dropped.scatter(1, order, dropped)


def _random_bits(words: Tensor, positions: Tensor) -> Tensor:
    """Return the 24 random bits of :func:`~ChatTTS.model.draws.uniforms`, int64 [rows, 1].

    Args:
        words: int32 [rows, 5], bit patterns of a draw's key; see ``DrawState``.
        positions: int32 [rows].
    """
    k0, k1, *rest = (words.long() & _LOW).unbind(1)
    x0, x1, x2, x3 = positions.long(), *rest
    for _ in range(10):
        # Products wrap around; their 64 bits are right all the same.
        p0, p1 = x0 * _MULTIPLIERS[0], x2 * _MULTIPLIERS[1]
        high0, high1 = (p0 >> 32) & _LOW, (p1 >> 32) & _LOW
        x0, x1, x2, x3 = high1 ^ x1 ^ k0, p1 & _LOW, high0 ^ x3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW
    return (x0 >> 8).unsqueeze(1)
