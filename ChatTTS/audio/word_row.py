"""The words of a waveform, written in a row of a plot at the times when they are spoken.

Labels never overlap. They are horizontal where all of them fit, else upright. Where upright ones do
not fit either, some are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from .subtitles import TimedWord

_FONT_SIZE = 8  # points
_POINTS = 72  # in an inch
_LEADING = 1.2  # height of any label in a row, in font sizes
_GAP = 2  # pixels between two labels
_LONGEST = 16  # characters of a label
_MOST_IN_LINE = 200  # more labels never fit into a line, and measuring them takes long
_LINE_INCHES, _UPRIGHT_INCHES = 0.3, 1.1


def draw_words(
    axes: Any, words: Sequence[TimedWord], *, ink: str, faint: str, fonts: Sequence[str]
) -> float:
    """Write each word at its span, between thin separators; return the height that they need.

    Args:
        axes: of the row, whose limits in seconds are set, in a figure whose layout can be computed.
        words: in order, each with a duration.
        ink, faint: the colours of labels and of separators.
        fonts: names of fonts, the preferred one first.

    Returns:
        The height of the row, in inches.
    """
    axes.set_yticks([])
    axes.set_ylim(0, 1)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.figure.draw_without_rendering()  # so that the width of the row is known
    shown, height = list(words), _LINE_INCHES
    labels = [_label(axes, word, ink, fonts) for word in words[: _MOST_IN_LINE + 1]]
    if len(labels) > _MOST_IN_LINE or _overlap(labels):
        for label in labels:
            label.remove()
        shown, height = _thinned(axes, words), _UPRIGHT_INCHES
        for word in shown:
            _label(axes, word, ink, fonts).set_rotation("vertical")
    borders = {border for word in shown for border in (word.start, word.end)}
    axes.vlines(sorted(borders), 0, 1, color=faint, linewidth=0.5)
    return height


def _label(axes: Any, word: TimedWord, ink: str, fonts: Sequence[str]) -> Any:
    text = word.text if len(word.text) <= _LONGEST else f"{word.text[: _LONGEST - 1]}…"
    return axes.text(
        _middle(word),
        0.5,
        text,
        ha="center",
        va="center",
        fontsize=_FONT_SIZE,
        fontfamily=list(fonts),
        color=ink,
        parse_math=False,  # "$5 or $6" would be set as a formula
        # A label that is wider than its span interrupts the separators.
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
    )


def _middle(word: TimedWord) -> float:
    return (word.start + word.end) / 2


def _overlap(labels: Sequence[Any]) -> bool:
    boxes = [label.get_window_extent() for label in labels]
    return any(after.x0 < before.x1 + _GAP for before, after in pairwise(boxes))


def _thinned(axes: Any, words: Sequence[TimedWord]) -> list[TimedWord]:
    """Return the words whose upright labels have room beside the one before, from the left."""
    room = _FONT_SIZE * _LEADING * axes.figure.dpi / _POINTS + _GAP
    places = axes.transData.transform([(_middle(word), 0.5) for word in words])[:, 0]
    kept, last = [], float("-inf")
    for word, place in zip(words, places, strict=True):
        if place >= last + room:
            kept.append(word)
            last = place
    return kept
