"""The end of a decode step: its results for the host, and the inputs of the next step."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .launching import launcher

# Columns of a result beside the hidden state and two for each drawn id.
_OTHERS = 1


def result_width(hidden: int, drawn: int) -> int:
    """Return the numbers of a row's result, which :func:`store_results` describes."""
    return hidden + 2 * drawn + _OTHERS


def store_results(
    hiddens: Tensor,
    drawn: Tensor,
    logprobs: Tensor,
    finite: Tensor,
    active: Tensor,
    kinds: Tensor,
    ids: Tensor,
    positions: Tensor,
    generated: Tensor,
    turn: Tensor,
    results: Tensor,
    slots: Tensor | None = None,
    *,
    kind: int,
) -> None:
    """Store the results of a step, and make its draws the inputs of the next one.

    All tensors are contiguous; all but the first may have more rows. What is drawn, ``kinds``,
    ``ids`` and ``generated`` have a row's values at its slot.

    Args:
        hiddens: [rows, hidden], of any float dtype.
        drawn: int32 [rows, n], the drawn ids; may be ``ids`` itself.
        logprobs: float32 [rows, n].
        finite: uint8 [rows].
        active: int32 [rows], 1 for a row with a sequence, else 0.
        kinds: uint8 [rows]; receives ``kind``.
        ids: int32 [rows, num_codebooks]; the first n columns receive ``drawn``.
        positions, generated: int32 [rows]; ``active`` is added to both.
        turn: int32 [1], the number of steps so far; it does not change here.
        results: int32 [turns, rows, hidden + 2 * n + 1], where ``turns`` is a power of two; may be
            pinned memory of the host. At the turn, modulo ``turns``, each row receives the bits
            of its hidden state in float32, the drawn ids, the bits of their log-probabilities, and
            ``finite``.
        slots: int32 [rows]; by default the rows are in order.
        kind: of the next inputs.
    """
    rows, hidden = hiddens.shape
    turns, room, width = results.shape
    assert turns & (turns - 1) == 0
    assert width == result_width(hidden, drawn.shape[1])
    if rows:
        launcher(_store_results, (rows,))(
            hiddens,
            drawn,
            logprobs,
            finite,
            active,
            kinds,
            ids,
            positions,
            generated,
            turn,
            results,
            slots,
            kind,
            hidden,
            drawn.shape[1],
            ids.shape[1],
            turns,
            room,
            width,
            triton.next_power_of_2(hidden),
            triton.next_power_of_2(drawn.shape[1]),
            num_warps=4,
        )


def store_results_torch(
    hiddens: Tensor,
    drawn: Tensor,
    logprobs: Tensor,
    finite: Tensor,
    active: Tensor,
    kinds: Tensor,
    ids: Tensor,
    positions: Tensor,
    generated: Tensor,
    turn: Tensor,
    results: Tensor,
    slots: Tensor | None = None,
    *,
    kind: int,
) -> None:
    """Compute :func:`store_results` in plain torch."""
    rows = len(hiddens)
    own, active = slice(rows) if slots is None else slots, active[:rows]
    columns = (
        hiddens.float().view(torch.int32),
        drawn[own],
        logprobs[own].view(torch.int32),
        finite[own].int().unsqueeze(1),
    )
    results[int(turn) % len(results), :rows] = torch.cat(columns, dim=1)
    kinds[own] = kind
    ids[own, : drawn.shape[1]] = drawn[own]
    positions[:rows] += active
    generated[own] += active


@triton.jit(do_not_specialize=["kind"])
def _store_results(
    hiddens: tl.tensor,
    drawn: tl.tensor,
    logprobs: tl.tensor,
    finite: tl.tensor,
    active: tl.tensor,
    kinds: tl.tensor,
    ids: tl.tensor,
    positions: tl.tensor,
    generated: tl.tensor,
    turn: tl.tensor,
    results: tl.tensor,
    slots: tl.tensor,
    kind: tl.tensor,
    hidden: tl.constexpr,
    count: tl.constexpr,
    num_codebooks: tl.constexpr,
    turns: tl.constexpr,
    room: tl.constexpr,
    width: tl.constexpr,
    hidden_block: tl.constexpr,
    count_block: tl.constexpr,
) -> None:
    """Store one row."""
    row = tl.program_id(0).to(tl.int64)
    slot = row
    if slots is not None:
        slot = tl.load(slots + row).to(tl.int64)
    column, codebook = tl.arange(0, hidden_block), tl.arange(0, count_block)
    result = results + ((tl.load(turn) & (turns - 1)).to(tl.int64) * room + row) * width
    state = tl.load(hiddens + row * hidden + column, mask=column < hidden, other=0.0)
    state = state.to(tl.float32).to(tl.int32, bitcast=True)
    tl.store(result + column, state, mask=column < hidden)
    is_drawn = codebook < count
    own = tl.load(drawn + slot * count + codebook, mask=is_drawn, other=0)
    more = tl.load(active + row)
    position, drawings = tl.load(positions + row), tl.load(generated + slot)
    # All warps read these numbers, and one of them overwrites each.
    tl.debug_barrier()
    tl.store(result + hidden + codebook, own, mask=is_drawn)
    tl.store(ids + slot * num_codebooks + codebook, own, mask=is_drawn)
    logprob = tl.load(logprobs + slot * count + codebook, mask=is_drawn, other=0.0)
    logprob = logprob.to(tl.int32, bitcast=True)
    tl.store(result + hidden + count + codebook, logprob, mask=is_drawn)
    tl.store(result + hidden + 2 * count, tl.load(finite + slot).to(tl.int32))
    tl.store(positions + row, position + more)
    tl.store(generated + slot, drawings + more)
    tl.store(kinds + slot, kind.to(tl.uint8))
