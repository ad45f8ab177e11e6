"""A small discriminator for the vocoder that works on spectrograms of several resolutions.

It learns to detect faults that losses between magnitudes cannot express: inconsistent phases, and
an average of several possible sounds in place of one of them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, relu
from torch.nn.utils.parametrizations import weight_norm

from .training import sound_autocast

_RESOLUTIONS = (1024, 512, 256)


class SpectrogramJudge(nn.Module):
    """The discriminator of one resolution: 2-D convolutions over real and imaginary parts."""

    def __init__(self, n_fft: int, channels: int) -> None:
        super().__init__()
        self.n_fft = n_fft
        # All layers keep the time axis; all but the last halve the frequency axis.
        strides = (2, 2, 2, 2, 1)
        widths = (2, *(channels for _ in strides))
        self.layers = nn.ModuleList(
            weight_norm(nn.Conv2d(i, o, (5, 3), stride=(stride, 1), padding=(2, 1)))
            for i, o, stride in zip(widths, widths[1:], strides, strict=False)
        )
        self.verdict = weight_norm(nn.Conv2d(channels, 1, (3, 3), padding=(1, 1)))

    def forward(self, samples: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Map samples [B, n] to scores [B, 1, bins, frames] and the features of each layer."""
        window = torch.hann_window(self.n_fft, device=samples.device)
        hop = self.n_fft // 4
        spectrum = torch.stft(
            samples, self.n_fft, hop, window=window, normalized=True, return_complex=True
        )
        x = torch.stack([spectrum.real, spectrum.imag], dim=1)
        # The square roots give quiet sounds more weight.
        x = x.sign() * (x.abs() + 1e-4).sqrt()
        # Convolutions in bfloat16 are several times as fast in this layout on a CPU.
        x = x.contiguous(memory_format=torch.channels_last)
        seen = []
        with sound_autocast(samples.device):
            for layer in self.layers:
                x = leaky_relu(layer(x), 0.1)
                seen.append(x.float())
            verdict = self.verdict(x).float()
        return verdict, seen


class Discriminator(nn.Module):
    """One judge for each resolution."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.judges = nn.ModuleList(SpectrogramJudge(n_fft, channels) for n_fft in _RESOLUTIONS)

    def forward(self, samples: Tensor) -> list[tuple[Tensor, list[Tensor]]]:
        """Map samples [B, n] to the scores and features of every resolution."""
        return [judge(samples) for judge in self.judges]


def discriminator_loss(discriminator: nn.Module, found: Tensor, wanted: Tensor) -> Tensor:
    """Return the hinge loss of telling generated ``found`` from real ``wanted``, both [B, n]."""
    losses = [
        relu(1 - real).mean() + relu(1 + made).mean()
        for (real, _), (made, _) in zip(discriminator(wanted), discriminator(found), strict=True)
    ]
    return torch.stack(losses).mean()


def generator_losses(
    discriminator: nn.Module, found: Tensor, wanted: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the generator's two losses on ``found`` [B, n]: being recognised, and features."""
    with torch.no_grad():
        real = discriminator(wanted)
    made = discriminator(found)
    fooling = torch.stack([relu(1 - verdict).mean() for verdict, _ in made]).mean()
    matching = torch.stack(
        [
            (a - b).abs().mean() / b.abs().mean().clamp_min(1e-3)
            for (_, seen_made), (_, seen_real) in zip(made, real, strict=True)
            for a, b in zip(seen_made, seen_real, strict=True)
        ]
    ).mean()
    return fooling, matching
