"""Plots: they show the right data, and their errors name the cause."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ChatTTS.audio import compare, plot, plot_waveform, save
from ChatTTS.audio.plot import COLOUR_A, COLOUR_B, COLOUR_DIFFERENCE
from ChatTTS.errors import AudioError

pytest.importorskip("matplotlib")
# The lowest supported Matplotlib calls functions of pyparsing that are now deprecated.
pytestmark = pytest.mark.filterwarnings("error::UserWarning", "ignore:.* deprecated - use ")


def tone(seconds: float = 1.0, frequency: float = 1_000.0) -> np.ndarray:
    t = np.arange(round(seconds * 24_000)) / 24_000
    return (0.5 * np.sin(2 * np.pi * frequency * t)).astype(np.float32)


def pixels(path: Path) -> np.ndarray:
    """Return the pixels of a picture: floats [height, width, 3] in 0 to 1."""
    from matplotlib.image import imread

    return np.asarray(imread(path))[..., :3]


def like(picture: np.ndarray, colour: str) -> np.ndarray:
    """Return a mask [height, width] of the pixels of about this colour."""
    from matplotlib.colors import to_rgb

    found: np.ndarray = np.abs(picture - to_rgb(colour)).max(axis=-1) < 0.02
    return found


@pytest.mark.slow
def test_the_spectrogram_shows_the_pitch(tmp_path: Path) -> None:
    rows = []
    for frequency in (500.0, 4_000.0):
        wav = tone(frequency=frequency)
        picture = pixels(plot_waveform(wav, tmp_path / "a.png", title=r"no formula: $\nope$"))
        lower = picture[picture.shape[0] // 2 :, : picture.shape[1] * 3 // 4]
        rows.append(lower.sum(axis=-1)[:, 300:900].mean(axis=1)[:-60].argmax())
    assert rows[0] > rows[1] + 50  # a lower pitch stands lower in the picture


@pytest.mark.slow
def test_waveforms_of_any_length_and_source(tmp_path: Path) -> None:
    for n in (1, 700, 60_000):
        path = plot_waveform(tone(3)[:n], tmp_path / f"{n}.png")
        assert path == tmp_path / f"{n}.png"
        assert path.read_bytes().startswith(b"\x89PNG")
    wav = save(tmp_path / "a.wav", tone(), 8_000)
    assert b"<svg" in plot_waveform(wav, tmp_path / "a.svg").read_bytes()
    plot_waveform(np.zeros(5000, np.int16), tmp_path / "silent.png")


@pytest.mark.slow
def test_the_difference_is_drawn_where_it_is(tmp_path: Path) -> None:
    a = tone(2)
    b = a.copy()
    b[:12_000] *= 0.5
    b = np.concatenate([b, b[:500]])
    found = compare(a, b, plot=tmp_path / "d.png")
    assert found == compare(a, b)
    picture = pixels(tmp_path / "d.png")
    height, width = picture.shape[0], picture.shape[1] // 2
    picture = picture[:, :width]  # the waveforms; spectrograms are on the right

    shares = []
    for colour in (COLOUR_A, COLOUR_B, COLOUR_DIFFERENCE):
        y, x = np.nonzero(like(picture, colour))
        assert len(x) > 1000
        shares.append((y.mean() / height, x.mean() / width))
    assert shares[0][0] < shares[1][0] < shares[2][0]  # a over b over the difference
    assert shares[2][1] < shares[0][1] - 0.15  # the difference is in the first quarter


@pytest.mark.slow
def test_identical_waveforms_can_be_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[np.ndarray] = []
    draw = plot._draw_spectrogram

    def note(axes: Any, spectrogram: np.ndarray, *given: Any, **named: Any) -> Any:
        drawn.append(spectrogram)
        return draw(axes, spectrogram, *given, **named)

    monkeypatch.setattr(plot, "_draw_spectrogram", note)
    assert compare(tone(), tone(), plot=tmp_path / "same.svg").identical
    a, b, difference = drawn
    assert a.any()
    assert np.array_equal(a, b)
    assert not difference.any()
    assert "b − a: no difference" in (tmp_path / "same.svg").read_text(encoding="utf-8")


def test_pictures_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match=r"use \.png, \.svg or \.pdf"):
        plot_waveform(tone(), tmp_path / "a.wav")
    with pytest.raises(AudioError, match=r"the folder .* does not exist"):
        compare(tone(), tone(), plot=tmp_path / "missing" / "a.png")
    with pytest.raises(AudioError, match="wav is empty"):
        plot_waveform([], tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(AudioError, match=r"pip install 'chattts-velocity\[plot\]'"):
        plot_waveform(tone(), tmp_path / "a.png")
    with pytest.raises(AudioError, match=r"pip install 'chattts-velocity\[plot\]'"):
        compare(tone(), tone(), plot=tmp_path / "a.png")
    assert compare(tone(), tone()).identical


def test_no_pyplot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib

    monkeypatch.delattr(matplotlib, "pyplot", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # importing it fails
    plot_waveform(tone(), tmp_path / "a.png")
