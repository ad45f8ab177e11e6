"""The layers from features to samples, each for a batch of windows of one fixed shape.

A layer that looks at its neighbours gives an output as soon as the last input in its span is there:
as many rows come out as go in, later by a delay. Outputs before the first place of an utterance
or behind its last one are set to zero: that is the padding of the whole modules, at the true ends
and nowhere else. So the beginning, the middle and the end of an utterance need the same work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ..kernels.torch_references import ChannelNorm, Residual
from .layer_operations import LayerOperations
from .layers import (
    ConvNeXtLayer,
    ConvolutionLayer,
    DecoderLayer,
    GeluLayer,
    InverseFourierLayer,
    NormLayer,
    OverlapAddLayer,
    block_scale,
)
from .vocoder_modules import LARGEST_MAGNITUDE

# What a layer that takes each row by itself does with rows [B, T, channels].
_RowFunction = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class CudaLayer:
    """One layer, with the layers behind it that take each row by itself.

    Attributes:
        channels: of an input row.
        span: input rows that one output row depends on.
        padding: how many of them are before the one at the output's own place.
        compute: from a window [B, span - 1 + T, channels] and ``there`` [B, span - 1 + T, 1] to
            outputs [B, T, ...], the first from the first ``span`` rows. ``there`` is 1 for rows of
            the utterance and 0 for places outside it, where outputs are 0 as well.
    """

    channels: int
    span: int
    padding: int
    compute: Callable[[Tensor, Tensor], Tensor]

    @property
    def delay(self) -> int:
        """Rows that have to come behind a place before its output is there."""
        return self.span - 1 - self.padding

    @property
    def kept(self) -> int:
        """Numbers of an utterance that later outputs need again."""
        return (self.span - 1) * self.channels

    def at_outputs(self, window: Tensor) -> Tensor:
        """Return the rows [B, T, ...] of a window [B, span - 1 + T, ...] at the outputs' places."""
        return window[:, self.padding : window.shape[1] - self.delay]


def cuda_layers(
    layers: Sequence[DecoderLayer],
    operations: LayerOperations,
    dtype: torch.dtype = torch.float32,
) -> list[CudaLayer]:
    """Return the layers that carry out descriptions, on the device of their modules.

    The last place of an utterance gives no hop of samples.

    Args:
        layers: of a mel decoder or of a vocoder; weights are used where they are, or copied.
        operations: that the layers are computed with.
        dtype: of the products in ConvNeXt blocks; all else is float32.
    """
    made = []
    for layer, by_rows in _grouped(layers):
        after = [_row_function(other, operations) for other in by_rows]
        match layer:
            case ConvolutionLayer():
                made.append(_followed(_convolution(layer, operations), after))
            case ConvNeXtLayer():
                block = _residual(layer, operations, dtype)
                made.append(_followed(block, after) if after else block)
            case OverlapAddLayer():
                made.append(_overlap_add(layer))
            case _:
                raise TypeError(f"no CUDA layer for {type(layer).__name__}")
    return made


def _grouped(layers: Sequence[DecoderLayer]) -> Iterator[tuple[DecoderLayer, list[DecoderLayer]]]:
    """Each layer that looks at its neighbours, and those behind it that do not."""
    starts = [index for index, layer in enumerate(layers) if layer.span > 1]
    for start, end in zip(starts, [*starts[1:], len(layers)], strict=True):
        yield layers[start], list(layers[start + 1 : end])


def _row_function(layer: DecoderLayer, operations: LayerOperations) -> _RowFunction:
    match layer:
        case GeluLayer(module) | NormLayer(module):
            return module
        case ConvolutionLayer(conv):
            weight = conv.weight.squeeze(2).contiguous()
            return lambda rows: operations.dense(rows, weight, conv.bias)
        case InverseFourierLayer():
            return _windowed_frames(layer, operations)
    raise TypeError(f"no function of rows for {type(layer).__name__}")


def _convolution(description: ConvolutionLayer, operations: LayerOperations) -> CudaLayer:
    """A convolution without dilation, as a product of rows: cuDNN's may have fewer bits.

    Places outside the utterance are not set to zero yet, see :func:`_followed`.
    """
    conv, span, scale = description.conv, description.span, description.scale
    weight = conv.weight.detach().flatten(1)
    if scale is not None:
        weight = weight * scale.unsqueeze(1)

    def compute(window: Tensor, there: Tensor) -> Tensor:
        return operations.dense(window.unfold(1, span, 1).flatten(2), weight, conv.bias)

    return CudaLayer(conv.in_channels, span, description.padding, compute)


def _residual(
    description: ConvNeXtLayer, operations: LayerOperations, dtype: torch.dtype
) -> CudaLayer:
    """A ConvNeXt block, of a mel decoder or of the vocoder."""
    block, span = description.block, description.span
    conv, wide, narrow = block.dwconv, block.pwconv1, block.pwconv2
    scale = block_scale(block).detach()
    norm = ChannelNorm(block.norm.weight.detach(), block.norm.bias.detach(), block.norm.eps)
    (dilation,) = conv.dilation
    taps = conv.weight.detach().squeeze(1).T.contiguous()  # [kernel, C]
    wide_weight, wide_bias = wide.weight.detach().to(dtype), wide.bias.detach().to(dtype)
    narrow_weight, narrow_bias = narrow.weight.detach().to(dtype), narrow.bias.detach().to(dtype)

    def compute(window: Tensor, there: Tensor) -> Tensor:
        rows = operations.depthwise_norm(
            window, taps, conv.bias, norm, dilation=dilation, dtype=dtype
        )
        rows = operations.dense(rows, wide_weight, wide_bias, gelu=True)
        residual = Residual(layer.at_outputs(window), scale, layer.at_outputs(there))
        return operations.dense(rows, narrow_weight, narrow_bias, added=residual)

    layer = CudaLayer(conv.in_channels, span, description.padding, compute)
    return layer


def _followed(layer: CudaLayer, after: Sequence[_RowFunction]) -> CudaLayer:
    """A layer with functions of rows behind it, and zeros outside the utterance."""

    def compute(window: Tensor, there: Tensor) -> Tensor:
        rows = layer.compute(window, there)
        for function in after:
            rows = function(rows)
        return rows * layer.at_outputs(there)

    return replace(layer, compute=compute)


def _windowed_frames(layer: InverseFourierLayer, operations: LayerOperations) -> _RowFunction:
    """From rows [B, T, dim] to windowed frames of samples [B, T, n_fft].

    The inverse Fourier transform is a product, which needs no plan and no complex numbers.
    """
    out: nn.Linear = layer.head.out
    inverse = layer.matrix().T.float().contiguous().to(out.weight.device)  # [n_fft, 2 bins]

    def frames(rows: Tensor) -> Tensor:
        logs, phases = operations.dense(rows, out.weight, out.bias).chunk(2, dim=-1)
        magnitudes = logs.exp().clip(max=LARGEST_MAGNITUDE)
        parts = torch.cat([magnitudes * phases.cos(), magnitudes * phases.sin()], dim=-1)
        return operations.dense(parts, inverse)

    return frames


def _overlap_add(description: OverlapAddLayer) -> CudaLayer:
    """Windowed frames to hops of samples [B, T, hop].

    A hop is a sum of frames, over the sum of the weights of those that are there. Where there are
    none, it has no meaning.
    """
    overlap, weights = description.frames, description.weights
    # For each row of a span, the oldest first, the part of the frame that lies in the present hop.
    squares = weights.unflatten(0, (overlap, -1)).flip(0).contiguous()  # [overlap, hop]

    def compute(frames: Tensor, there: Tensor) -> Tensor:
        parts = frames.unflatten(2, (overlap, -1))  # [B, overlap - 1 + T, overlap, hop]
        count = frames.shape[1] - overlap + 1
        total = parts[:, :count, overlap - 1]
        sums = there[:, :count] * squares[0]
        for k in range(1, overlap):
            total = total + parts[:, k : k + count, overlap - 1 - k]
            sums = sums + there[:, k : k + count] * squares[k]
        hops: Tensor = total / sums
        return hops

    return CudaLayer(len(weights), overlap, description.padding, compute)


def total_delay(layers: Sequence[CudaLayer]) -> int:
    """Return the rows that have to come behind a place before its last output is there."""
    return sum(layer.delay for layer in layers)
