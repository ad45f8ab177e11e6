"""The mel spectrogram: known values, and torchaudio's where that is installed."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from ChatTTS.config import MelConfig
from ChatTTS.model.mel import LogMel, MelSpectrogram, Spectrogram, triangles

from ..support.reference import torchaudio

CONFIGS = {
    "published": MelConfig(),
    "odd": MelConfig(sample_rate=22_051, n_fft=510, hop_length=101, n_mels=37),
    "crowded": MelConfig(sample_rate=8000, n_fft=64, hop_length=16, n_mels=40),
}


def sound(*shape: int) -> Tensor:
    return 0.1 * torch.randn(shape, generator=torch.Generator().manual_seed(4))


@pytest.mark.filterwarnings("ignore:At least one mel filterbank has all zero values")
@pytest.mark.parametrize("name", CONFIGS)
def test_the_values_of_torchaudio(name: str) -> None:
    config = CONFIGS[name]
    ours = MelSpectrogram(config)
    peer = torchaudio().transforms.MelSpectrogram(
        config.sample_rate,
        n_fft=config.n_fft,
        hop_length=config.hop_length,
        n_mels=config.n_mels,
        power=1,
    )
    found, wanted = ours.state_dict(), peer.state_dict()
    assert list(found) == list(wanted)
    assert all(map(torch.equal, found.values(), wanted.values()))
    for shape in ((1, 6000), (3, 2400), (4801,), (2, 2, 1000)):
        samples = sound(*shape)
        assert torch.equal(ours(samples), peer(samples))


def test_triangles_touch_their_neighbours_peaks() -> None:
    weights = triangles(513, 100, 24_000)
    assert weights.shape == (513, 100)
    assert weights.min() == 0
    assert weights.max() <= 1
    ratio = 1 + 12_000 / 700
    corners = [700 * (ratio ** (k / 101) - 1) for k in range(102)]
    frequencies = [12_000 * k / 512 for k in range(513)]
    for mel in (0, 40, 99):
        low, peak, high = corners[mel : mel + 3]
        expected = [
            max(0.0, min((f - low) / (peak - low), (high - f) / (high - peak))) for f in frequencies
        ]
        torch.testing.assert_close(weights[:, mel], torch.tensor(expected), rtol=0, atol=2e-4)


def test_a_tone_is_loudest_in_its_mel() -> None:
    tone = torch.sin(2 * math.pi * 1000 * torch.arange(24_000) / 24_000)
    mel = LogMel(MelConfig())(tone)
    assert mel.shape == (100, 94)
    heard = round(101 * math.log10(1 + 1000 / 700) / math.log10(1 + 12_000 / 700)) - 1
    assert (mel[:, 3:-3].argmax(dim=0) - heard).abs().max() <= 1


def test_a_magnitude_is_half_of_the_sum_of_the_window() -> None:
    tone = torch.cos(2 * math.pi * 43 * torch.arange(4096) / 1024)
    spectrum = Spectrogram(1024, 256)(tone)
    assert spectrum.shape == (513, 17)
    torch.testing.assert_close(spectrum[42:45, 8], torch.tensor([128.0, 256.0, 128.0]))


def test_silence_is_the_floor() -> None:
    for floor in (1e-5, 1e-7):
        mel = LogMel(MelConfig(), floor)(torch.zeros(2, 600))
        assert torch.equal(mel, torch.full((2, 100, 3), math.log(floor)))
