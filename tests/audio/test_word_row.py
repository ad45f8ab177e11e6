"""Words below a spectrogram: at their spans, and readable."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ChatTTS.audio import plot_waveform
from ChatTTS.audio.word_row import draw_words

pytest.importorskip("matplotlib")
# The lowest supported Matplotlib calls functions of pyparsing that are now deprecated.
pytestmark = pytest.mark.filterwarnings("error::UserWarning", "ignore:.* deprecated - use ")

FONTS = ["DejaVu Sans"]


@dataclass(frozen=True)
class Spoken:
    text: str
    start: float
    end: float
    start_character: int = 0
    end_character: int = 0


def words(count: int, seconds: float = 10.0) -> list[Spoken]:
    """Words of several lengths, with a pause after each."""
    names = ("a", "market", "children", "we", "incomprehensibilities", "$5.20", "gypsy")
    step = seconds / count
    return [Spoken(names[i % len(names)], i * step, (i + 0.8) * step) for i in range(count)]


def row(spoken: list[Spoken], seconds: float = 10.0) -> tuple[Any, float]:
    """Return drawn axes, and the height that they ask for."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 2), dpi=120, layout="constrained")
    axes = figure.subplots()
    axes.set_xlim(0, seconds)
    height = draw_words(axes, spoken, ink="black", faint="grey", fonts=FONTS)
    figure.draw_without_rendering()
    return axes, height


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 3, 12, 30, 50, 60, 100, 199, 200, 201, 3000])
def test_labels_never_overlap(count: int) -> None:
    axes, height = row(words(count))
    boxes = [label.get_window_extent() for label in axes.texts]
    assert boxes
    assert not any(a.overlaps(b) for a, b in pairwise(boxes))
    if len(boxes) < 80:
        assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    assert max(box.height for box in boxes) / 120 <= height
    assert {label.get_rotation() for label in axes.texts} == {0.0 if count <= 12 else 90.0}
    if count <= 60:
        assert len(boxes) == count
    else:
        assert 40 < len(boxes) < min(count, 80)


def test_each_label_is_in_the_middle_of_its_span_between_separators() -> None:
    for count in (5, 40):
        spoken = words(count)
        axes, _ = row(spoken)
        assert [label.get_text()[:5] for label in axes.texts] == [w.text[:5] for w in spoken]
        for label, word in zip(axes.texts, spoken, strict=True):
            assert label.get_position()[0] == pytest.approx((word.start + word.end) / 2)
            box = label.get_window_extent()
            middle = axes.transData.transform(((word.start + word.end) / 2, 0))[0]
            assert (box.x0 + box.x1) / 2 == pytest.approx(middle, abs=1)
        [lines] = axes.collections
        borders = {border for word in spoken for border in (word.start, word.end)}
        assert [line[0][0] for line in lines.get_segments()] == pytest.approx(sorted(borders))


def test_words_that_are_left_out_have_no_separators() -> None:
    axes, _ = row(words(1000))
    [lines] = axes.collections
    assert len(lines.get_segments()) == 2 * len(axes.texts)


def texts_of(picture: Path) -> list[str]:
    """Return the texts of an SVG, which Matplotlib names in comments."""
    return re.findall(r"<!-- (.*?) -->", picture.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_a_plot_has_its_words_and_grows_for_them(tmp_path: Path) -> None:
    wav = np.sin(np.arange(48_000) / 20).astype(np.float32)
    spoken = [
        Spoken("costs", 0.1, 0.9),
        Spoken("$5", 0.9, 1.5),
        Spoken("silence", 1.5, 1.5),
        Spoken("好", 1.6, 1.9),
    ]

    def height(picture: Path) -> float:
        found = re.search(r'height="([\d.]+)pt"', picture.read_text(encoding="utf-8"))
        assert found is not None
        return float(found[1])

    plain = plot_waveform(wav, tmp_path / "plain.svg")
    named = plot_waveform(wav, tmp_path / "words.svg", words=spoken[:3], title="It costs $5")
    dense = plot_waveform(wav, tmp_path / "dense.svg", words=words(60, 2.0))
    unspoken = plot_waveform(wav, tmp_path / "unspoken.svg", words=spoken[2:3])
    assert not {"costs", "silence"} & set(texts_of(plain))
    assert {"costs", "$5", "It costs $5"} <= set(texts_of(named))
    assert "silence" not in texts_of(named)
    assert texts_of(dense).count("market") > 3
    assert height(plain) == height(unspoken) < height(named) < height(dense)
