"""The modules of the vocoder, with the names of tensors in ``Vocos.safetensors``.

Vocos (Siuzdak, 2023): ConvNeXt blocks (Liu et al., 2022) on mel frames predict the magnitude and
the phase of every frame of an inverse short-time Fourier transform.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..devices.placement import computed

# Magnitudes are limited to this value.
LARGEST_MAGNITUDE = 1e2
_KERNEL = 7
_EPS = 1e-6


class VocosBlock(nn.Module):
    """A ConvNeXt block; its reach is 3 frames on each side.

    Args:
        dim: channels.
        intermediate_dim: channels inside the perceptron.
        scale: start value of the factors ``gamma`` of what the perceptron adds.
    """

    def __init__(self, dim: int, intermediate_dim: int, scale: float) -> None:
        super().__init__()
        self.dwconv = nn.Conv1d(dim, dim, _KERNEL, padding=_KERNEL // 2, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=_EPS)
        self.pwconv1 = nn.Linear(dim, intermediate_dim)
        self.act = nn.GELU()
        self.pwconv2 = nn.Linear(intermediate_dim, dim)
        self.gamma = nn.Parameter(torch.full((dim,), scale))

    def forward(self, x: Tensor) -> Tensor:
        """Return outputs of the shape of ``x`` [B, dim, T]."""
        y: Tensor = self.norm(self.dwconv(x).transpose(1, 2))
        y = self.gamma * self.pwconv2(self.act(self.pwconv1(y)))
        return x + y.transpose(1, 2)


class VocosBackbone(nn.Module):
    """A convolution, the blocks, and norms before and behind them."""

    def __init__(
        self, input_channels: int, dim: int, intermediate_dim: int, num_layers: int
    ) -> None:
        super().__init__()
        self.embed = nn.Conv1d(input_channels, dim, _KERNEL, padding=_KERNEL // 2)
        self.norm = nn.LayerNorm(dim, eps=_EPS)
        self.convnext = nn.ModuleList(
            VocosBlock(dim, intermediate_dim, 1 / num_layers) for _ in range(num_layers)
        )
        self.final_layer_norm = nn.LayerNorm(dim, eps=_EPS)
        self.apply(_start)

    def forward(self, x: Tensor) -> Tensor:
        """Return hidden states [B, T, dim] of mel frames [B, input_channels, T]."""
        x = self.norm(self.embed(x).transpose(1, 2)).transpose(1, 2)
        for block in self.convnext:
            x = block(x)
        hidden: Tensor = self.final_layer_norm(x.transpose(1, 2))
        return hidden


def _start(module: nn.Module) -> None:
    """Draw the start values of a module's weights, for training."""
    if isinstance(module, (nn.Conv1d, nn.Linear)):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


class ISTFTHead(nn.Module):
    """Hidden states to the log-magnitudes and phases of frames, and these to samples."""

    def __init__(self, dim: int, n_fft: int, hop_length: int) -> None:
        super().__init__()
        self.out = nn.Linear(dim, n_fft + 2)
        self.istft = ISTFT(n_fft, hop_length)

    def forward(self, x: Tensor) -> Tensor:
        """Return samples [B, (T - 1) * hop] of hidden states [B, T, dim]."""
        logs, phases = self.out(x).transpose(1, 2).chunk(2, dim=1)
        magnitudes = logs.exp().clamp(max=LARGEST_MAGNITUDE)
        samples: Tensor = self.istft(magnitudes * (phases.cos() + 1j * phases.sin()))
        return samples


class ISTFT(nn.Module):
    """The inverse short-time Fourier transform of centred frames under a Hann window.

    Attributes:
        padding: ``center``, the only kind that this class computes.
    """

    padding = "center"

    def __init__(self, n_fft: int, hop_length: int) -> None:
        super().__init__()
        self.n_fft, self.hop_length = n_fft, hop_length
        with computed():
            self.register_buffer("window", torch.hann_window(n_fft))
        self.window: Tensor

    def forward(self, spectrum: Tensor) -> Tensor:
        """Return samples [B, (T - 1) * hop] of a complex spectrum [B, n_fft / 2 + 1, T].

        Raises:
            RuntimeError: the window leaves samples without any weight.
        """
        return torch.istft(spectrum, self.n_fft, self.hop_length, window=self.window)
