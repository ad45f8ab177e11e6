"""Plots of audio: a waveform with its spectrogram, and the comparison of two waveforms.

matplotlib is an optional dependency, imported at first use. Only its figure objects are used, so no
display is needed and threads share no state.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import AudioError
from .files import check_target, read, write_file
from .samples import SAMPLE_RATE, Samples, StrPath, check_rate, is_path, to_mono
from .spectrum import FLOOR_DB, log_spectra, mel, mel_rows
from .subtitles import TimedWord
from .word_row import draw_words

INK, FAINT = "#1f2430", "#8a91a0"
COLOUR_A, COLOUR_B, COLOUR_DIFFERENCE = "#2563a8", "#d9730d", "#b3243b"
# Inches of the plot of one waveform; a row of words takes what it needs.
_WIDTH, _WAVE_HEIGHT, _SPECTRUM_HEIGHT, _WORDS_HEIGHT = 11.0, 2.24, 3.36, 0.3
_COLUMNS = 1600  # more detail across a plot cannot be seen
_MEL_ROWS = 160
_HEADLINE_CHARACTERS = 120
_DIFFERENCE_RANGE_DB = 12.0
_FREQUENCY_TICKS = (250, 500, 1000, 2000, 4000, 8000, 12000, 16000)
# matplotlib's own font has no Chinese, and a title is often the spoken text.
_CHINESE_FONTS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "Microsoft YaHei", "PingFang SC")


def plot_waveform(
    wav: Any,
    path: StrPath,
    *,
    sample_rate: int = SAMPLE_RATE,
    title: str | None = None,
    words: Sequence[TimedWord] = (),
) -> Path:
    """Draw one waveform above its spectrogram (mel scale) and return ``path``.

    Args:
        wav: a sound file's path (channels are mixed), or an array, tensor or list of shape
            ``(n,)``, ``(1, n)`` or ``(n, 1)``, float (full scale 1) or int16.
        path: ``.png``, ``.svg`` or ``.pdf``.
        sample_rate: of an array, in Hz; a file has its own.
        title: a headline, such as the spoken text.
        words: of the waveform, as ``Waveforms.words`` has them; written below the spectrogram when
            they are spoken. Where there are too many to be read, some are left out.

    Raises:
        AudioError: the waveform cannot be used or is empty, matplotlib is missing, or the plot
            cannot be written.
    """
    if is_path(wav):
        samples, rate = read(wav)
        samples = to_mono(samples, str(wav))
    else:
        samples, rate = to_mono(wav), check_rate(sample_rate)
    if not samples.size:
        raise AudioError("wav is empty; there is nothing to draw")
    figure, target = new_figure(path, _WIDTH, _WAVE_HEIGHT + _SPECTRUM_HEIGHT)
    spoken = [word for word in words if word.end > word.start]
    heights = [_WAVE_HEIGHT, _SPECTRUM_HEIGHT, *([_WORDS_HEIGHT] if spoken else [])]
    rows = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    wave_axes, spectrum_axes = rows[:2]
    _draw_wave(wave_axes, samples, rate, COLOUR_A, _peak(samples))
    hop = _hop(len(samples))
    image = _draw_spectrogram(spectrum_axes, _mel_spectrogram(samples, rate, hop), rate, hop)
    _colour_bar(figure, image, spectrum_axes)
    spectrum_axes.set_xlim(0, len(samples) / rate)
    rows[-1].set_xlabel("time (s)")
    if title is not None:
        headline(figure, title)
    if spoken:
        plain_axes(rows[-1])
        heights[-1] = draw_words(rows[-1], spoken, ink=INK, faint=FAINT, fonts=_fonts())
        rows[-1].get_gridspec().set_height_ratios(heights)
        figure.set_figheight(sum(heights))
    return write_figure(figure, target)


def plot_comparison(
    a: tuple[str, Samples],
    b: tuple[str, Samples],
    path: StrPath,
    *,
    sample_rate: int,
    text: str,
) -> Path:
    """Draw two named waveforms, their spectrograms and the differences; return ``path``.

    ``a`` and ``b`` may differ in length; the differences are of the part that both have. The first
    line of ``text`` is the headline, and the others are joined below it. Errors as
    ``plot_waveform``.
    """
    figure, target = new_figure(path, 15.0, 8.6)
    (name_a, wav_a), (name_b, wav_b) = a, b
    common = min(len(wav_a), len(wav_b))
    difference = wav_b[:common] - wav_a[:common]
    grid = figure.subplots(3, 2, sharex=True)
    peak = max(_peak(wav_a), _peak(wav_b))
    below = "b − a, on its own scale" if difference.any() else "b − a: no difference"
    for axes, wav, colour, limit, title in (
        (grid[0, 0], wav_a, COLOUR_A, peak, name_a),
        (grid[1, 0], wav_b, COLOUR_B, peak, name_b),
        (grid[2, 0], difference, COLOUR_DIFFERENCE, _peak(difference), below),
    ):
        _draw_wave(axes, wav, sample_rate, colour, limit)
        _title(axes, title)

    hop = _hop(max(len(wav_a), len(wav_b)))
    mel_a = _mel_spectrogram(wav_a, sample_rate, hop)
    mel_b = _mel_spectrogram(wav_b, sample_rate, hop)
    # From the common parts, so that the last frames of both see equal silence.
    mel_difference = _mel_spectrogram(wav_b[:common], sample_rate, hop) - _mel_spectrogram(
        wav_a[:common], sample_rate, hop
    )
    for axes, spectrogram, title in (
        (grid[0, 1], mel_a, "spectrogram of a"),
        (grid[1, 1], mel_b, "spectrogram of b"),
    ):
        image = _draw_spectrogram(axes, spectrogram, sample_rate, hop)
        _colour_bar(figure, image, axes)
        _title(axes, title)
    image = _draw_spectrogram(grid[2, 1], mel_difference, sample_rate, hop, difference=True)
    _colour_bar(figure, image, grid[2, 1])
    _title(grid[2, 1], "spectrogram of b − spectrogram of a")
    for axes in grid[2]:
        axes.set_xlabel("time (s)")
    grid[2, 0].set_xlim(0, max(len(wav_a), len(wav_b)) / sample_rate)
    first, *others = (" ".join(line.split()) for line in text.splitlines())
    headline(figure, first, "   ·   ".join(others))
    return write_figure(figure, target)


def new_figure(path: StrPath, width: float, height: float) -> tuple[Any, Path]:
    """Return an empty figure of so many inches, after checking that ``path`` can be written.

    Raises:
        AudioError: matplotlib is missing, or the path cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise AudioError(
            "pictures need matplotlib; install it with: pip install 'chattts-velocity[plot]'"
        ) from error
    target = Path(path)
    figure = Figure(figsize=(width, height), dpi=120, facecolor="white", layout="constrained")
    known = figure.canvas.get_supported_filetypes()
    if target.suffix.lower().removeprefix(".") not in known:
        raise AudioError(f"{target} is not an image file name; use .png, .svg or .pdf")
    check_target(target)
    return figure, target


def write_figure(figure: Any, target: Path) -> Path:
    """Write a figure to the path that :func:`new_figure` checked."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=target.suffix.lower().removeprefix("."))
    write_file(target, buffer.getvalue())
    return target


def _draw_wave(axes: Any, samples: Samples, rate: int, colour: str, peak: float) -> None:
    """Draw a waveform as a line, or as minimum and maximum where a column has many samples."""
    n = len(samples)
    if n <= 2 * _COLUMNS:
        axes.plot(np.arange(n) / rate, samples, color=colour, linewidth=0.8)
    else:
        starts = np.linspace(0, n, _COLUMNS, endpoint=False).astype(int)
        low, high = np.minimum.reduceat(samples, starts), np.maximum.reduceat(samples, starts)
        axes.fill_between(starts / rate, low, high, color=colour, linewidth=0.5)
    axes.set_ylim(-1.08 * peak, 1.08 * peak)
    axes.axhline(0, color=FAINT, linewidth=0.4, zorder=0)
    axes.set_ylabel("amplitude")
    axes.yaxis.set_major_formatter("{x:.3g}")
    axes.grid(axis="x", color="#e4e7ec", linewidth=0.6)
    axes.set_axisbelow(True)
    plain_axes(axes)


def _draw_spectrogram(
    axes: Any, spectrogram: np.ndarray, rate: int, hop: int, *, difference: bool = False
) -> Any:
    """Draw an image of ``(frames, mel bins)`` in dB; a difference has diverging colours."""
    limits = (FLOOR_DB, 0.0)
    if difference:
        limits = (-_DIFFERENCE_RANGE_DB, _DIFFERENCE_RANGE_DB)
    top = float(mel(rate / 2))
    # A frame is centred on its sample, so the image begins half a hop earlier.
    begin, end = -0.5 * hop / rate, (len(spectrogram) - 0.5) * hop / rate
    image = axes.imshow(
        spectrogram.T,
        aspect="auto",
        origin="lower",
        extent=(begin, end, 0.0, top),
        cmap="RdBu_r" if difference else "magma",
        vmin=limits[0],
        vmax=limits[1],
    )
    ticks = [tick for tick in _FREQUENCY_TICKS if tick <= rate / 2]
    axes.set_yticks([float(mel(t)) for t in ticks], [f"{t / 1000:g}" for t in ticks])
    axes.set_ylabel("frequency (kHz)")
    plain_axes(axes)
    return image


def _mel_spectrogram(samples: Samples, rate: int, hop: int) -> np.ndarray:
    return np.concatenate([mel_rows(block, rate, _MEL_ROWS) for block in log_spectra(samples, hop)])


def _hop(samples: int) -> int:
    """Return the samples between columns of a plot: few for a word, more for an hour."""
    return max(8, samples // _COLUMNS)


def _peak(samples: Samples) -> float:
    return float(np.abs(samples).max()) or 1.0


def _colour_bar(figure: Any, image: Any, axes: Any) -> None:
    bar = figure.colorbar(image, ax=axes, pad=0.012, aspect=16)
    bar.set_label("dB", color=INK, fontsize=9)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=INK, labelsize=8, length=2)


def _title(axes: Any, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=10, color=INK, fontfamily=_fonts(), parse_math=False)


def headline(figure: Any, *lines: str) -> None:
    """Write lines above a figure."""
    text = "\n".join(_shorten(line) for line in lines if line)
    # With parse_math, "$5 or $6" would be set as a formula.
    figure.suptitle(
        text,
        x=0.008,
        ha="left",
        fontsize=11,
        color=INK,
        fontfamily=_fonts(),
        parse_math=False,
    )


def _shorten(line: str) -> str:
    return line if len(line) <= _HEADLINE_CHARACTERS else line[: _HEADLINE_CHARACTERS - 1] + "…"


def _fonts() -> list[str]:
    """Return matplotlib's own font, and the fonts for Chinese that this machine has."""
    from matplotlib.font_manager import fontManager

    installed = set(fontManager.get_font_names())
    return ["DejaVu Sans", *(font for font in _CHINESE_FONTS if font in installed)]


def plain_axes(axes: Any) -> None:
    """Give axes the style of these plots."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(FAINT)
    axes.tick_params(colors=INK, labelsize=8, length=3)
    axes.yaxis.label.set(color=INK, fontsize=9)
    axes.xaxis.label.set(color=INK, fontsize=9)
