"""Decoding in pieces, in torch: each layer keeps the inputs that it needs again.

A convolution that pads with zeros gives an output frame once all inputs in its span are there. So
each layer puts its padding before the first input, gives what it can, keeps the inputs that later
outputs need as well, and puts its padding behind the last input. Such layers, one after another,
give what the modules give for the whole utterance, delayed by their reach.

Frames are rows here: [n, C]. A layer takes the windows of many utterances at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..dvae import DVAE, MelDecoder
from .layers import (
    ConvNeXtLayer,
    ConvolutionLayer,
    DecoderLayer,
    GeluLayer,
    InverseFourierLayer,
    NormLayer,
    OverlapAddLayer,
    block_scale,
    mel_layers,
    vocoder_layers,
)
from .streaming_decoder import DecoderInput, DecoderState, StreamingDecoder, check_inputs
from .vocoder import Vocoder
from .vocoder_modules import LARGEST_MAGNITUDE

# From windows of n rows without padding all outputs that have their whole context, in one tensor:
# n - span + 1 of each window, or a whole multiple of as many.
_Compute = Callable[[Sequence[Tensor]], Tensor]


class TorchLayer:
    """A layer that computes, and how much of its input later outputs depend on.

    Args:
        compute: gives the outputs of windows.
        span: input frames that one output depends on.
        padding: frames of zeros at each end of the utterance.
    """

    def __init__(self, compute: _Compute, span: int = 1, padding: int = 0) -> None:
        self._compute, self._span, self._padding = compute, span, padding

    def window(self, kept: Tensor | None, x: Tensor | None, last: bool) -> Tensor | None:
        """Return what is kept with the new inputs behind it, from which outputs are computed."""
        if self._span == 1:
            return x
        if x is not None:
            before = x.new_zeros(self._padding, x.shape[1]) if kept is None else kept
            kept = torch.cat([before, x])
        if kept is not None and last:
            kept = nn.functional.pad(kept, (0, 0, 0, self._padding))
        return kept

    def ready(self, window: Tensor | None) -> int:
        """Return how many outputs a window gives: as many of its inputs are not needed again."""
        return 0 if window is None else max(0, len(window) - self._span + 1)

    def kept(self, window: Tensor | None) -> Tensor | None:
        """Return what later outputs need of a window."""
        if window is None or self._span == 1:
            return None
        return window[self.ready(window) :].clone()  # a view would keep the whole window alive

    def __call__(self, windows: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return the outputs of windows that have any."""
        counts = [self.ready(window) for window in windows]
        outputs = self._compute(windows)
        rate = len(outputs) // sum(counts)
        return torch.split(outputs, [rate * count for count in counts])


class TorchStreamingDecoder(StreamingDecoder):
    """A :class:`~ChatTTS.model.synthesis.streaming_decoder.StreamingDecoder` of the loaded modules.

    Raises:
        ConfigError: the vocoder's transform cannot be computed in pieces.
    """

    exact = False

    def __init__(self, mel_decoder: MelDecoder, vocoder: Vocoder) -> None:
        self.by_launches = mel_decoder.coef.device.type != "cpu"
        layers = [*mel_layers(mel_decoder), *vocoder_layers(vocoder)]
        self._layers = [*_input_layers(mel_decoder), *map(_torch_layer, layers)]

    def begin(self) -> DecoderState:
        """Return the state of an utterance that has had no frame yet."""
        return DecoderState(self, [None] * len(self._layers))

    @torch.inference_mode()
    def advance(self, inputs: Sequence[DecoderInput]) -> list[Tensor]:
        """See :meth:`~ChatTTS.model.synthesis.streaming_decoder.StreamingDecoder.advance`."""
        check_inputs(self, inputs)
        kept: list[list[Tensor | None]] = [[] for _ in inputs]
        rows = [None if x.frames is None or not len(x.frames) else x.frames for x in inputs]
        for index, layer in enumerate(self._layers):
            windows = [
                layer.window(given.state.kept[index], x, given.last)
                for given, x in zip(inputs, rows, strict=True)
            ]
            ready = [window for window in windows if window is not None and layer.ready(window)]
            outputs = iter(layer(ready) if ready else ())
            rows = [next(outputs) if layer.ready(window) else None for window in windows]
            for own, window in zip(kept, windows, strict=True):
                own.append(layer.kept(window))
        for given, own in zip(inputs, kept, strict=True):
            given.state.kept, given.state.ended = own, given.last
        silence = torch.empty(0, dtype=torch.float32, device="cpu")
        return [silence if hops is None else hops.flatten().float().cpu() for hops in rows]


def _input_layers(module: MelDecoder) -> Iterator[TorchLayer]:
    """Frames to the rows that the first layer of :func:`mel_layers` takes."""
    if isinstance(module, DVAE):
        yield TorchLayer(_by_rows(partial(_features, module)))
    else:
        yield TorchLayer(_by_rows(lambda hiddens: hiddens.to(module.coef)))
    # The halves of the channels are two mel frames.
    yield TorchLayer(_by_rows(lambda features: features.unflatten(1, (2, -1)).flatten(0, 1)))


def _features(module: DVAE, codes: Tensor) -> Tensor:
    """Codes [n, num_codebooks] to features [n, dim]."""
    return module.vq_layer.embed(codes.to(module.coef.device).T.unsqueeze(0))[0].T


def _torch_layer(layer: DecoderLayer) -> TorchLayer:
    """The layer that carries out a description."""
    return TorchLayer(_compute_of(layer), layer.span, layer.padding)


def _compute_of(layer: DecoderLayer) -> _Compute:
    match layer:
        case ConvolutionLayer():
            return partial(_convolution, layer)
        case ConvNeXtLayer():
            return partial(_residual, layer)
        case GeluLayer(module) | NormLayer(module):
            return _by_rows(module)
        case InverseFourierLayer():
            return _by_rows(partial(_windowed_frames, layer))
        case OverlapAddLayer():
            return partial(_overlapped, layer.frames)
    raise TypeError(f"no torch layer for {type(layer).__name__}")


def _windowed_frames(layer: InverseFourierLayer, features: Tensor) -> Tensor:
    """Features [n, dim] to [n, 2 n_fft]: frames of samples, and the weights that they carry."""
    window = layer.window
    logs, phases = layer.head.out(features).chunk(2, dim=1)
    magnitudes = logs.exp().clip(max=LARGEST_MAGNITUDE)
    spectra = torch.complex(magnitudes * phases.cos(), magnitudes * phases.sin())
    frames = torch.fft.irfft(spectra, len(window), dim=1) * window
    return torch.cat([frames, window.square().expand_as(frames)], dim=1)


def _overlapped(overlap: int, windows: Sequence[Tensor]) -> Tensor:
    """Frames [n, 2 n_fft] to hops of samples [n - overlap + 1, hop], summed in one order."""
    hops = []
    for window in windows:
        count = len(window) - overlap + 1
        parts = window.unflatten(1, (2, overlap, -1))  # [n, 2, overlap, hop]
        total = parts[:count, :, overlap - 1]
        for age in reversed(range(overlap - 1)):
            first = overlap - 1 - age
            total = total + parts[first : first + count, :, age]
        samples, weights = total.unbind(1)
        hops.append(samples / weights)
    return torch.cat(hops)


def _residual(layer: ConvNeXtLayer, windows: Sequence[Tensor]) -> Tensor:
    """A ConvNeXt block without padding."""
    block, reach = layer.block, layer.padding
    conv, scale = block.dwconv, block_scale(block)
    # One convolution over the joined windows. Outputs that lie across two of them are dropped.
    mixed = nn.functional.conv1d(
        torch.cat(list(windows)).T,
        conv.weight,
        conv.bias,
        dilation=conv.dilation,
        groups=conv.groups,
    ).T
    parts, at = [], 0
    for window in windows:
        parts.append(mixed[at : at + len(window) - 2 * reach])
        at += len(window)
    y: Tensor = block.norm(torch.cat(parts))
    y = block.pwconv2(block.act(block.pwconv1(y)))
    skip = torch.cat([window[reach : len(window) - reach] for window in windows])
    return skip + y * scale


def _convolution(layer: ConvolutionLayer, windows: Sequence[Tensor]) -> Tensor:
    """A convolution without padding, as a product of rows.

    torch's own convolution, given a few frames, sums in an order with three times the rounding
    errors.
    """
    conv, scale = layer.conv, layer.scale
    (dilation,) = conv.dilation
    taps = [window.unfold(0, layer.span, 1)[..., ::dilation] for window in windows]
    rows = nn.functional.linear(torch.cat(taps).flatten(1), conv.weight.flatten(1), conv.bias)
    return rows if scale is None else rows * scale


def _by_rows(compute: Callable[[Tensor], Any]) -> _Compute:
    """A layer that takes each row by itself."""
    return lambda windows: compute(torch.cat(list(windows)))
