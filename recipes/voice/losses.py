"""Losses: distances of a mel or a waveform from its target."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import avg_pool1d

RESOLUTIONS = (2048, 1024, 512, 256)
# A magnitude below this counts as silence; its logarithm would be noise.
_FLOOR = 1e-4


def mel_distance(found: Tensor, wanted: Tensor, weight: Tensor | None = None) -> Tensor:
    """Return the mean absolute difference of log-mels [B, n_mels, M], weighted by frame [B, M]."""
    distance = (found - wanted).abs().mean(dim=1)
    if weight is None:
        return distance.mean()
    return (distance * weight).sum() / weight.sum().clamp_min(1.0)


def blurred_distance(found: Tensor, wanted: Tensor, widths: Sequence[int] = (2, 4, 8)) -> Tensor:
    """Return the mean absolute difference of log-mels averaged over ``widths`` frames.

    Errors of one sign over many frames, which are heard as another timbre, count here. Errors that
    change sign from frame to frame do not. Log-mels are [B, n_mels, M].
    """
    return torch.stack(
        [(avg_pool1d(found, w) - avg_pool1d(wanted, w)).abs().mean() for w in widths]
    ).mean()


def magnitude(samples: Tensor, n_fft: int) -> Tensor:
    """Return the magnitudes of a Hann-windowed transform, [B, n_fft / 2 + 1, frames]."""
    window = torch.hann_window(n_fft, device=samples.device)
    spectrum = torch.stft(samples, n_fft, n_fft // 4, window=window, return_complex=True)
    # The square root has no finite gradient at 0.
    squares = spectrum.real.square() + spectrum.imag.square()
    return squares.clamp_min(1e-10).sqrt()


def spectral_distance(
    found: Tensor, wanted: Tensor, resolutions: Sequence[int] = RESOLUTIONS
) -> Tensor:
    """Return the distance of waveforms' spectra at several resolutions (Yamamoto et al., 2020).

    For each resolution it is the spectral convergence (the norm of the difference over that of the
    target) plus the mean absolute difference of the logarithms. Waveforms are [B, n].
    """
    distances = []
    for n_fft in resolutions:
        a, b = magnitude(found, n_fft), magnitude(wanted, n_fft)
        convergence = (a - b).norm() / b.norm().clamp_min(1e-3)
        logs = (a.clamp_min(_FLOOR).log() - b.clamp_min(_FLOOR).log()).abs().mean()
        distances.append(convergence + logs)
    return torch.stack(distances).mean()
