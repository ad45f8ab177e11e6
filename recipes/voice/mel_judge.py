"""A discriminator of log-mels, for networks that would give an average of all possible ones.

The distance of mels is least for their average, which is smooth where speech is not, and sounds
muffled. A discriminator tells smooth mels from real ones, whatever the details are.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu
from torch.nn.utils.parametrizations import weight_norm

from .training import sound_autocast

_KERNEL, _PADDING = (5, 5), (2, 2)
_SLOPE = 0.1


class MelJudge(nn.Module):
    """2-D convolutions over bins and frames; each halves both, and doubles the channels.

    A score depends on 45 bins and 45 frames, half a second.

    Args:
        channels: of the first convolution.
    """

    def __init__(self, channels: int = 24) -> None:
        super().__init__()
        widths = (1, channels, 2 * channels, 4 * channels)
        self.layers = nn.ModuleList(
            weight_norm(nn.Conv2d(i, o, _KERNEL, stride=(2, 2), padding=_PADDING))
            for i, o in pairwise(widths)
        )
        self.verdict = weight_norm(nn.Conv2d(widths[-1], 1, (3, 3), padding=(1, 1)))

    def forward(self, mel: Tensor) -> list[tuple[Tensor, list[Tensor]]]:
        """Map scaled log-mels [B, n_mels, M] to scores [B, 1, bins, frames] and each layer's
        features, as the one result of a list."""
        x = mel.unsqueeze(1).contiguous(memory_format=torch.channels_last)
        seen = []
        with sound_autocast(mel.device):
            for layer in self.layers:
                x = leaky_relu(layer(x), _SLOPE)
                seen.append(x.float())
            verdict = self.verdict(x).float()
        return [(verdict, seen)]
