"""The convolutional parts: hidden states or codes to mel, and audio to codes.

ConvNeXt blocks (Liu et al., 2022) in one dimension, as in Vocos (Siuzdak, 2023), and a quantiser.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..config import ConvNetConfig, DVAEConfig, MelConfig
from .devices.tf32 import ieee_convolutions, ieee_float32
from .mel import LogMel
from .vector_quantizer import VectorQuantizer

_KERNEL, _DILATION = 7, 2


class ConvNeXtBlock(nn.Module):
    """Depthwise convolution over time, then a perceptron over channels, plus the input.

    Reach: 6 frames on each side.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dwconv = nn.Conv1d(
            dim,
            dim,
            _KERNEL,
            padding=_KERNEL // 2 * _DILATION,
            dilation=_DILATION,
            groups=dim,
        )
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.pwconv1 = nn.Linear(dim, 4 * dim)
        self.act = nn.GELU()
        self.pwconv2 = nn.Linear(4 * dim, dim)
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Return outputs of the shape of ``x`` [B, dim, T]."""
        y: Tensor = self.norm(self.dwconv(x).transpose(1, 2))
        y = self.pwconv2(self.act(self.pwconv1(y))) * self.weight
        return x + y.transpose(1, 2)


class ConvNet(nn.Module):
    """Two convolutions, the blocks, and a convolution to the output width."""

    def __init__(self, config: ConvNetConfig) -> None:
        super().__init__()
        self.conv_in = nn.Sequential(
            nn.Conv1d(config.idim, config.bn_dim, 3, padding=1),
            nn.GELU(),
            nn.Conv1d(config.bn_dim, config.hidden, 3, padding=1),
        )
        self.decoder_block = nn.ModuleList(
            ConvNeXtBlock(config.hidden) for _ in range(config.n_layer)
        )
        self.conv_out = nn.Conv1d(config.hidden, config.odim, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return [B, odim, T] of features [B, idim, T]."""
        x = self.conv_in(x)
        for block in self.decoder_block:
            x = block(x)
        y: Tensor = self.conv_out(x)
        return y


class MelDecoder(nn.Module):
    """Features at the code rate to a log-mel at twice that rate.

    This is the Decoder (from hidden states) and the decoding half of the DVAE.
    """

    def __init__(self, config: ConvNetConfig, n_mels: int) -> None:
        super().__init__()
        self.config = config
        self.decoder = ConvNet(config)
        self.out_conv = nn.Conv1d(config.odim, n_mels, 3, padding=1, bias=False)
        self.register_buffer("coef", torch.ones(1, n_mels, 1))
        self.coef: Tensor

    @property
    def reach(self) -> int:
        """Mel frames on each side that one mel frame depends on."""
        return 2 + self.config.n_layer * (_KERNEL // 2 * _DILATION) + 1

    def forward(self, features: Tensor) -> Tensor:
        """Decode features [B, 2 * idim, T] to log-mel [B, n_mels, 2 T]."""
        mel: Tensor = self.out_conv(self.decoder(two_frames_each(features)))
        return mel * self.coef


def two_frames_each(features: Tensor) -> Tensor:
    """Return [B, C, 2 T] of [B, 2 C, T]: the halves of the channels are frames 2t and 2t + 1."""
    first, second = features.chunk(2, dim=1)
    return torch.stack([first, second], dim=-1).flatten(2)


class DVAE(MelDecoder):
    """The codec: audio to codes, and codes to log-mel."""

    def __init__(self, config: DVAEConfig, mel: MelConfig) -> None:
        super().__init__(config.decoder, mel.n_mels)
        width = config.decoder.odim
        self.preprocessor_mel = LogMel(mel)
        self.downsample_conv = nn.Sequential(
            nn.Conv1d(mel.n_mels, width, 3, padding=1),
            nn.GELU(),
            nn.Conv1d(width, width, 4, stride=2, padding=1),
            nn.GELU(),
        )
        self.encoder = ConvNet(config.encoder)
        self.vq_layer = VectorQuantizer(config.vq)

    def forward(self, inp: Tensor, mode: str = "decode") -> Tensor:
        """Decode features [B, dim, T] or codes [B, num_codebooks, T] to log-mel.

        Args:
            inp: features or codes; samples [n] or [B, n], if ``mode`` is ``encode``.
            mode: ``decode``, or ``encode`` for samples to codes.
        """
        if mode == "encode":
            return self.encode(inp if inp.dim() > 1 else inp.unsqueeze(0))
        return super().forward(inp if inp.is_floating_point() else self.vq_layer.embed(inp))

    @torch.inference_mode()
    def sample_audio(self, wav: NDArray[np.float32] | Tensor) -> Tensor:
        """Encode samples [n] at 24 kHz, unchecked, to codes [num_codebooks, T]."""
        codes: Tensor = self(torch.as_tensor(wav).to(self.coef), "encode")
        return codes[0]

    def encode(self, samples: Tensor) -> Tensor:
        """Encode samples [B, n] at 24 kHz to codes [B, num_codebooks, T], 46.875 a second.

        Products have all bits of float32, since a rounded one may be quantised to another code.
        """
        with ieee_float32(), ieee_convolutions():
            mel = self.preprocessor_mel(samples) / self.coef
            codes: Tensor = self.vq_layer(self.encoder(self.downsample_conv(mel)))
        return codes

    def decode(self, codes: Tensor) -> Tensor:
        """Decode codes [B, num_codebooks, T] to log-mel [B, n_mels, 2 T]."""
        mel: Tensor = self(self.vq_layer.embed(codes))
        return mel


# The names that scripts know.
DVAEDecoder, GFSQ = ConvNet, VectorQuantizer
