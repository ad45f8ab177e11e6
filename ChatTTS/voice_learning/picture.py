"""The picture of a search: how likely the recordings became, step by step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from ..audio.plot import (
    COLOUR_A,
    COLOUR_B,
    COLOUR_DIFFERENCE,
    FAINT,
    headline,
    new_figure,
    plain_axes,
    write_figure,
)
from ..audio.samples import StrPath
from .speaker_search import Look

_WIDTH, _HEIGHT = 9.0, 4.5
_COLOURS = (COLOUR_A, COLOUR_B, COLOUR_DIFFERENCE, FAINT)


def plot_search(looks: Sequence[Look], path: StrPath, *, title: str) -> Path:
    """Draw the learned and the held-out sentences of each start; return ``path``.

    Args:
        looks: of a search.
        path: ``.png``, ``.svg`` or ``.pdf``.
        title: a headline.

    Raises:
        AudioError: matplotlib is missing, or the picture cannot be written.
    """
    figure, target = new_figure(path, _WIDTH, _HEIGHT)
    axes = figure.subplots()
    for number in sorted({look.start for look in looks}):
        own = [look for look in looks if look.start == number]
        colour = _COLOURS[number % len(_COLOURS)]
        steps, held = [look.step for look in own], [look.held for look in own]
        axes.plot(steps, held, color=colour, marker="o", label=f"start {number + 1}: held out")
        learned = [(look.step, look.learned) for look in own if not math.isnan(look.learned)]
        if learned:
            axes.plot(*zip(*learned, strict=True), color=colour, linestyle=":", linewidth=1.2)
    axes.set_xlabel("steps (dotted: the sentences that are learned)")
    axes.set_ylabel("nats per code (lower is likelier)")
    axes.legend(frameon=False, fontsize=8)
    axes.grid(color="#e4e7ec", linewidth=0.6)
    plain_axes(axes)
    headline(figure, title)
    return write_figure(figure, target)
