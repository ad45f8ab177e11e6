"""The layers from features to samples, each for a batch of windows of one fixed shape.

A layer that looks at its neighbours gives an output as soon as the last input in its span is there:
as many rows come out as go in, later by a delay. What comes out before the first place of an
utterance or behind its last one is zeroed: that is the padding of the whole modules, at the true
ends and nowhere else. So the beginning, the middle and the end of an utterance are the same work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from ..dvae import ConvNeXtBlock, MelDecoder
from ..vocoder import LARGEST_MAGNITUDE, Vocoder


@dataclass(frozen=True)
class Stage:
    """One layer, with what follows it row by row.

    Attributes:
        channels: of an input row.
        span: input rows that one output row depends on.
        padding: how many of them are before the one at the output's own place.
        layer: from a window [B, span - 1 + T, channels] and ``there`` [B, span - 1 + T, 1] to
            outputs [B, T, ...], the first from the first ``span`` rows. ``there`` is 1 for rows of
            the utterance and 0 for places outside it, where outputs are 0 as well.
    """

    channels: int
    span: int
    padding: int
    layer: Callable[[Tensor, Tensor], Tensor]

    @property
    def delay(self) -> int:
        """Rows that have to come behind a place before its output is there."""
        return self.span - 1 - self.padding

    @property
    def kept(self) -> int:
        """Numbers of an utterance that later outputs need again."""
        return (self.span - 1) * self.channels

    def at_outputs(self, window: Tensor) -> Tensor:
        """Of a window's rows [B, span - 1 + T, ...] those at the outputs' places [B, T, ...]."""
        return window[:, self.padding : window.shape[1] - self.delay]


def mel_stages(module: MelDecoder, dtype: torch.dtype = torch.float32) -> list[Stage]:
    """Rows of features, two for each frame, to rows of log-mel.

    Args:
        module: the Decoder or the DVAE; its weights are used where they are, or copied.
        dtype: of the blocks' perceptrons; all else is float32.
    """
    net: Any = module.decoder
    first, activation, second = net.conv_in
    stages = [_convolution(first, after=activation), _convolution(second)]
    stages += [_residual(block, dtype) for block in net.decoder_block]
    narrow = net.conv_out.weight.squeeze(2)
    stages[-1] = _followed(stages[-1], lambda rows: linear(rows, narrow))
    return [*stages, _convolution(module.out_conv, scale=module.coef.flatten())]


def vocoder_stages(module: Vocoder, dtype: torch.dtype = torch.float32) -> list[Stage]:
    """Rows of log-mel to hops of samples. The last place of an utterance gives none.

    Args:
        module: its weights are used where they are, or copied.
        dtype: of the blocks' perceptrons; all else is float32.

    Raises:
        ConfigError: the transform cannot be computed in pieces.
    """
    overlap = module.overlap
    backbone: Any = module.backbone
    head: Any = module.head
    stages = [_convolution(backbone.embed, after=backbone.norm)]
    stages += [_residual(block, dtype) for block in backbone.convnext]
    stages[-1] = _followed(stages[-1], _windowed_frames(module))
    return [*stages, _overlapped(head.istft.window, overlap)]


def _convolution(
    conv: Any, *, after: Callable[[Tensor], Tensor] | None = None, scale: Tensor | None = None
) -> Stage:
    """A convolution without dilation, as a product of rows: cuDNN's may have fewer bits.

    Args:
        after: what follows, row by row.
        scale: of its outputs [outputs], where it has no bias.
    """
    (span,) = conv.kernel_size
    weight = conv.weight.detach().flatten(1)
    if scale is not None:
        weight = weight * scale.unsqueeze(1)

    def layer(window: Tensor, there: Tensor) -> Tensor:
        rows = linear(window.unfold(1, span, 1).flatten(2), weight, conv.bias)
        if after is not None:
            rows = after(rows)
        return rows * stage.at_outputs(there)

    stage = Stage(conv.in_channels, span, span // 2, layer)
    return stage


def _residual(block: Any, dtype: torch.dtype) -> Stage:
    """A ConvNeXt block of this package or of vocos."""
    conv, wide, narrow = block.dwconv, block.pwconv1, block.pwconv2
    scale = block.weight if isinstance(block, ConvNeXtBlock) else block.gamma
    if scale is None:
        scale = torch.ones_like(narrow.bias)
    scale = scale.detach()
    (dilation,) = conv.dilation
    reach = conv.kernel_size[0] // 2 * dilation
    span = 2 * reach + 1
    taps = conv.weight.detach().squeeze(1).T.contiguous()  # [kernel, C]
    wide_weight, wide_bias = wide.weight.detach().to(dtype), wide.bias.detach().to(dtype)
    narrow_weight, narrow_bias = narrow.weight.detach().to(dtype), narrow.bias.detach().to(dtype)

    def layer(window: Tensor, there: Tensor) -> Tensor:
        inputs = window.unfold(1, span, 1)[..., ::dilation].transpose(2, 3)  # [B, T, kernel, C]
        y = block.norm((inputs * taps).sum(2) + conv.bias).to(dtype)
        y = linear(block.act(linear(y, wide_weight, wide_bias)), narrow_weight, narrow_bias)
        # The scale is float32, and so is what it gives.
        return torch.addcmul(stage.at_outputs(window), y * scale, stage.at_outputs(there))

    stage = Stage(conv.in_channels, span, reach, layer)
    return stage


def _followed(stage: Stage, after: Callable[[Tensor], Tensor]) -> Stage:
    """A stage with something behind it that works row by row."""

    def layer(window: Tensor, there: Tensor) -> Tensor:
        return after(stage.layer(window, there)) * stage.at_outputs(there)

    return replace(stage, layer=layer)


def _windowed_frames(vocoder: Vocoder) -> Callable[[Tensor], Tensor]:
    """Rows [B, T, dim] to windowed frames of samples [B, T, n_fft].

    The inverse Fourier transform is a product, which needs no plan and no complex numbers.
    """
    head: Any = vocoder.head
    norm: Any = vocoder.backbone.final_layer_norm
    n_fft = head.istft.n_fft
    window = head.istft.window.detach().double().cpu()
    bins = torch.eye(n_fft // 2 + 1, dtype=torch.complex128, device="cpu")
    inverse = torch.cat([torch.fft.irfft(part * bins, n_fft) * window for part in (1, 1j)])
    inverse = inverse.T.float().contiguous().to(head.out.weight.device)  # [n_fft, 2 bins]

    def frames(rows: Tensor) -> Tensor:
        logs, phases = head.out(norm(rows)).chunk(2, dim=-1)
        magnitudes = logs.exp().clip(max=LARGEST_MAGNITUDE)
        parts = torch.cat([magnitudes * phases.cos(), magnitudes * phases.sin()], dim=-1)
        return linear(parts, inverse)

    return frames


def _overlapped(window: Tensor, overlap: int) -> Stage:
    """Windowed frames to hops of samples [B, T, hop]: sums of ``overlap`` frames, over the sums of
    the weights of those that are there. Where none is, nothing sensible comes out.

    Centred frames lose half a frame at each end of the utterance. Counted in hops that leaves
    nothing but such sums, with half as many less one of zeros at the ends.
    """
    # Of the row k of a span, the oldest first, the part that is heard now.
    squares = window.detach().square().unflatten(0, (overlap, -1)).flip(0).T.contiguous()

    def layer(frames: Tensor, there: Tensor) -> Tensor:
        parts = frames.unflatten(2, (overlap, -1))  # [B, overlap - 1 + T, overlap, hop]
        count = frames.shape[1] - overlap + 1
        total = parts[:, :count, overlap - 1]
        for k in range(1, overlap):
            total = total + parts[:, k : k + count, overlap - 1 - k]
        weights = linear(there.squeeze(2).unfold(1, overlap, 1), squares)
        return total / weights

    return Stage(len(window), overlap, overlap // 2 - 1, layer)


def reach(stages: Sequence[Stage]) -> int:
    """Rows that have to come behind a place before its last output is there."""
    return sum(stage.delay for stage in stages)
