"""How far a mel or a waveform is from what it should be."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import avg_pool1d

RESOLUTIONS = (2048, 1024, 512, 256)
# Below this, a magnitude is silence and its logarithm noise.
_FLOOR = 1e-4


def mel_distance(found: Tensor, wanted: Tensor, weight: Tensor | None = None) -> Tensor:
    """Mean absolute difference of log-mels [B, n_mels, M]; ``weight`` [B, M] counts frames."""
    distance = (found - wanted).abs().mean(dim=1)
    if weight is None:
        return distance.mean()
    return (distance * weight).sum() / weight.sum().clamp_min(1.0)


def blurred_distance(found: Tensor, wanted: Tensor, widths: Sequence[int] = (2, 4, 8)) -> Tensor:
    """Mean absolute difference of log-mels [B, n_mels, M] after averaging over ``widths`` frames.

    Errors of one sign over many frames, which are heard as another timbre, count here, while
    those that change sign from frame to frame do not.
    """
    return torch.stack(
        [(avg_pool1d(found, w) - avg_pool1d(wanted, w)).abs().mean() for w in widths]
    ).mean()


def magnitude(samples: Tensor, n_fft: int) -> Tensor:
    """Samples [B, n] to the magnitudes of a Hann-windowed transform, [B, n_fft / 2 + 1, frames]."""
    window = torch.hann_window(n_fft, device=samples.device)
    spectrum = torch.stft(samples, n_fft, n_fft // 4, window=window, return_complex=True)
    # The root of the squares has no gradient at 0.
    squares = spectrum.real.square() + spectrum.imag.square()
    return squares.clamp_min(1e-10).sqrt()


def spectral_distance(
    found: Tensor, wanted: Tensor, resolutions: Sequence[int] = RESOLUTIONS
) -> Tensor:
    """How magnitudes of waveforms [B, n] differ, at several resolutions (Yamamoto et al., 2020).

    For each: spectral convergence (the norm of the difference over that of what is wanted) plus
    the mean absolute difference of the logarithms.
    """
    distances = []
    for n_fft in resolutions:
        a, b = magnitude(found, n_fft), magnitude(wanted, n_fft)
        convergence = (a - b).norm() / b.norm().clamp_min(1e-3)
        logs = (a.clamp_min(_FLOOR).log() - b.clamp_min(_FLOOR).log()).abs().mean()
        distances.append(convergence + logs)
    return torch.stack(distances).mean()
