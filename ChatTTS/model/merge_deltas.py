"""The parts of an answer as one: apart from the interface, which imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from .generation import Delta


def merge_deltas(deltas: Sequence[Delta]) -> Delta:
    """Return all deltas of an answer, in order and at least one, as one delta."""
    last = deltas[-1]
    if len(deltas) == 1:
        return last
    given = [delta.attention for delta in deltas if delta.attention is not None]
    return replace(
        last,
        ids=torch.cat([delta.ids for delta in deltas]),
        hiddens=torch.cat([delta.hiddens for delta in deltas]),
        attention=torch.cat(given) if given else None,
    )
