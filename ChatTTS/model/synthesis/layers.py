"""The layers from features to samples, described once for everything that decodes in pieces.

A description names a layer's modules and says how far the layer looks. It computes nothing: the
torch, the native and the CUDA decoder each carry out the same list in their own way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..dvae import MelDecoder
from .vocoder import Vocoder


@dataclass(frozen=True)
class DecoderLayer:
    """A layer over rows [n, channels]; this class describes one that takes each row by itself."""

    @property
    def span(self) -> int:
        """Input rows that one output row depends on."""
        return 2 * self.padding + 1

    @property
    def padding(self) -> int:
        """Rows of zeros at each end of an utterance."""
        return 0


@dataclass(frozen=True)
class ConvolutionLayer(DecoderLayer):
    """A convolution over time that keeps the number of rows.

    Attributes:
        conv: the module, with an odd kernel and without stride.
    """

    conv: nn.Conv1d

    @property
    def scale(self) -> Tensor | None:
        """Factors [outputs] of what the convolution gives; ``None`` where there are none."""
        return None

    @property
    def padding(self) -> int:
        return _reach(self.conv)


@dataclass(frozen=True)
class MelOutputLayer(ConvolutionLayer):
    """The last convolution of a mel decoder, which has no bias, and the scale behind it.

    Attributes:
        module: that has the scale.
    """

    module: MelDecoder

    @property
    def scale(self) -> Tensor:
        return self.module.coef.flatten()


@dataclass(frozen=True)
class ConvNeXtLayer(DecoderLayer):
    """A ConvNeXt block, of a mel decoder or of the vocoder.

    Attributes:
        block: the module; or a stack of blocks on the CPU kernels, which only the native decoder
            carries out.
    """

    block: Any

    @property
    def padding(self) -> int:
        return _reach(self.block.dwconv)


@dataclass(frozen=True)
class GeluLayer(DecoderLayer):
    """An exact GELU."""

    gelu: nn.GELU


@dataclass(frozen=True)
class NormLayer(DecoderLayer):
    """A LayerNorm over the channels."""

    norm: nn.LayerNorm


@dataclass(frozen=True)
class InverseFourierLayer(DecoderLayer):
    """A product with log-magnitudes and phases, then an inverse Fourier transform and a window.

    Attributes:
        head: the module.
    """

    head: Any

    @property
    def window(self) -> Tensor:
        """[n_fft], which every frame of samples is multiplied with."""
        window: Tensor = self.head.istft.window
        return window

    def matrix(self) -> Tensor:
        """Return transform and window as one float64 matrix [2 * bins, n_fft] on the CPU.

        It takes the real parts of all bins, then the imaginary parts.
        """
        n_fft = len(self.window)
        window = self.window.detach().double().cpu()
        bins = torch.eye(n_fft // 2 + 1, dtype=torch.complex128, device="cpu")
        return torch.cat([torch.fft.irfft(part * bins, n_fft) * window for part in (1, 1j)])


@dataclass(frozen=True)
class OverlapAddLayer(DecoderLayer):
    """Windowed frames [n_fft] to hops of samples: sums where frames overlap, over summed weights.

    A centred transform drops half a frame at each end of the utterance. Counted in hops, what
    remains are sums of ``frames`` rows, with zeros at each end of half as many rows less one.

    Attributes:
        frames: that overlap at each sample, an even number.
        head: the module, the square of whose window [n_fft] is the weight of a frame.
    """

    frames: int
    head: Any

    @property
    def span(self) -> int:
        return self.frames

    @property
    def padding(self) -> int:
        return self.frames // 2 - 1

    @property
    def weights(self) -> Tensor:
        """[n_fft], what each sample of a frame weighs."""
        window: Tensor = self.head.istft.window.detach()
        return window.square()


def mel_layers(module: MelDecoder) -> list[DecoderLayer]:
    """Return the layers from feature rows, two for each frame, to rows of log-mel.

    Args:
        module: the Decoder or the DVAE. The layers refer to its modules.
    """
    net: Any = module.decoder
    first, gelu, second = net.conv_in
    return [
        ConvolutionLayer(first),
        GeluLayer(gelu),
        ConvolutionLayer(second),
        *map(ConvNeXtLayer, net.decoder_block),
        ConvolutionLayer(net.conv_out),
        MelOutputLayer(module.out_conv, module),
    ]


def vocoder_layers(module: Vocoder) -> list[DecoderLayer]:
    """Return the layers from rows of log-mel to hops of samples.

    Args:
        module: the layers refer to its modules.

    Raises:
        ConfigError: the transform cannot be computed in pieces.
    """
    backbone: Any = module.backbone
    return [
        ConvolutionLayer(backbone.embed),
        NormLayer(backbone.norm),
        *map(ConvNeXtLayer, backbone.convnext),
        NormLayer(backbone.final_layer_norm),
        InverseFourierLayer(module.head),
        OverlapAddLayer(module.overlap, module.head),
    ]


def block_scale(block: Any) -> Tensor:
    """Return the factors [channels] of a ConvNeXt block's perceptron.

    They are called ``weight`` in mel decoders and ``gamma`` in the vocoder.
    """
    scale: Tensor = block.weight if hasattr(block, "weight") else block.gamma
    return scale


def _reach(conv: nn.Conv1d) -> int:
    """Return the rows on each side that a convolution reads."""
    return conv.kernel_size[0] // 2 * conv.dilation[0]
