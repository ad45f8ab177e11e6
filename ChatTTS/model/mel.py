"""The mel spectrogram, with the names of its tensors in the checkpoint files."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ..config import MelConfig
from .devices.placement import computed


class LogMel(nn.Module):
    """Log of the magnitude mel spectrogram (HTK scale, no area norm).

    Args:
        config: sizes.
        floor: of the magnitudes before the logarithm.
    """

    def __init__(self, config: MelConfig, floor: float = 1e-5) -> None:
        super().__init__()
        self.floor = floor
        with computed():
            self.mel_spec = MelSpectrogram(config)

    def forward(self, samples: Tensor) -> Tensor:
        """Return the log-mel [..., n_mels, n // hop + 1] of samples [..., n]."""
        mel: Tensor = self.mel_spec(samples)
        return mel.clamp_min(self.floor).log()


class MelSpectrogram(nn.Module):
    """The magnitudes of a short-time Fourier transform, summed in triangles on the mel scale."""

    def __init__(self, config: MelConfig) -> None:
        super().__init__()
        self.spectrogram = Spectrogram(config.n_fft, config.hop_length)
        self.mel_scale = MelScale(config.n_fft // 2 + 1, config.n_mels, config.sample_rate)

    def forward(self, samples: Tensor) -> Tensor:
        """Return the mel spectrogram [..., n_mels, n // hop + 1] of samples [..., n]."""
        mel: Tensor = self.mel_scale(self.spectrogram(samples))
        return mel


class Spectrogram(nn.Module):
    """The magnitudes of frames under a Hann window, centred at every hop of the reflected ends."""

    def __init__(self, n_fft: int, hop_length: int) -> None:
        super().__init__()
        self.n_fft, self.hop_length = n_fft, hop_length
        self.register_buffer("window", torch.hann_window(n_fft))
        self.window: Tensor

    def forward(self, samples: Tensor) -> Tensor:
        """Return magnitudes [..., n_fft / 2 + 1, n // hop + 1] of samples [..., n]."""
        rows = samples.reshape(-1, samples.shape[-1])
        spectrum = torch.stft(
            rows, self.n_fft, self.hop_length, window=self.window, return_complex=True
        )
        return spectrum.abs().reshape(*samples.shape[:-1], *spectrum.shape[-2:])


class MelScale(nn.Module):
    """Sums over frequencies in triangles, whose corners are equally far apart in mel."""

    def __init__(self, n_freqs: int, n_mels: int, sample_rate: int) -> None:
        super().__init__()
        self.register_buffer("fb", triangles(n_freqs, n_mels, sample_rate))
        self.fb: Tensor

    def forward(self, magnitudes: Tensor) -> Tensor:
        """Return [..., n_mels, T] of magnitudes [..., n_freqs, T]."""
        return (magnitudes.transpose(-1, -2) @ self.fb).transpose(-1, -2)


def triangles(n_freqs: int, n_mels: int, sample_rate: int) -> Tensor:
    """Return the weights [n_freqs, n_mels] of frequencies from 0 to half of the rate, in Hz."""
    highest = sample_rate // 2
    frequencies = torch.linspace(0, highest, n_freqs)
    mels = torch.linspace(0, 2595 * math.log10(1 + highest / 700), n_mels + 2)
    corners = 700 * (10 ** (mels / 2595) - 1)
    widths = corners.diff()
    distances = corners - frequencies[:, None]  # of every corner from every frequency
    rising, falling = -distances[:, :-2] / widths[:-1], distances[:, 2:] / widths[1:]
    return torch.minimum(rising, falling).clamp_min(0)
