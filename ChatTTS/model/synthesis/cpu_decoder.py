"""Frames to samples on the CPU kernels: one native call for the next frames of many utterances.

Every bit of a sample depends only on the frames within reach. It does not depend on the pieces in
which the frames come, on the utterances beside it, or on the number of threads.

NumPy does what happens between the native calls: torch's threads would go on spinning on the
cores that the team needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from ...errors import ConfigError
from ..dvae import MelDecoder
from ..kernels.cpu.library import (
    CONVOLUTION,
    NORM,
    OVERLAP,
    SPECTRUM,
    NativeDecoderInput,
    NativeDecoderLayer,
    Team,
    address,
)
from .code_tables import FrameFeatures
from .cpu_convnext import ConvNeXtStack, Packing, kept_floats, padded
from .layers import (
    ConvNeXtLayer,
    ConvolutionLayer,
    DecoderLayer,
    GeluLayer,
    InverseFourierLayer,
    NormLayer,
    OverlapAddLayer,
    mel_layers,
    vocoder_layers,
)
from .streaming_decoder import DecoderInput, DecoderState, StreamingDecoder, check_inputs
from .vocoder import Vocoder
from .vocoder_modules import LARGEST_MAGNITUDE


class NativeDecoderState(DecoderState):
    """A state with one array of the rows of all layers, into which the kernels write."""

    def copy(self) -> NativeDecoderState:
        """Return a state that continues from here independently."""
        return replace(self, kept=[rows.copy() for rows in self.kept])


class PackedLayers:
    """Layers as the CPU kernels carry them out.

    Attributes:
        layers: in order; they live as long as this object.

    Args:
        layers: of a mel decoder or a vocoder, after :func:`~.cpu_convnext.accelerate`. Only their
            blocks are kept.
        team: packs the weights.

    Raises:
        ConfigError: the module was not accelerated.
    """

    def __init__(self, layers: Sequence[DecoderLayer], team: Team) -> None:
        self.layers: list[NativeDecoderLayer] = []
        self._packing, self._stacks = Packing(team), list[ConvNeXtStack]()
        for layer in layers:
            self._add(layer)

    def _add(self, layer: DecoderLayer) -> None:
        pack, layers = self._packing, self.layers
        match layer:
            case ConvolutionLayer(conv):
                weight = conv.weight
                if layer.scale is not None:
                    weight = weight * layer.scale.view(-1, 1, 1)
                layers.append(_convolution(pack, weight, conv.bias))
            case GeluLayer():
                layers[-1].gelu = True
            case NormLayer(norm):
                layers.append(_norm(pack, norm))
            case ConvNeXtLayer(stack):
                if not isinstance(stack, ConvNeXtStack):
                    raise ConfigError(
                        "a native decoder needs modules on the kernels: accelerate them before"
                    )
                self._stacks.append(stack)
                layers.extend(stack.layers)
            case InverseFourierLayer():
                layers.extend(_inverse_fourier(pack, layer))
            case OverlapAddLayer():
                layers.append(_overlap_add(pack, layer))
            case _:
                raise TypeError(f"no native layer for {type(layer).__name__}")


class NativeStreamingDecoder(StreamingDecoder):
    """The streaming decoder of the CPU kernels; see ``streaming_decoder.py``.

    The blocks are those of the modules; the weights of the other layers are packed in float32.

    Args:
        mel_decoder: the Decoder or the DVAE, after :func:`~.cpu_convnext.accelerate`.
        vocoder: mel to samples, after it too; or its packed layers, which two decoders of one team
            may share.
        team: the threads that compute. Calls wait for each other.

    Raises:
        ConfigError: a module was not accelerated, or the transform cannot be computed in pieces.
    """

    exact = True
    by_launches = False

    def __init__(
        self, mel_decoder: MelDecoder, vocoder: Vocoder | PackedLayers, team: Team
    ) -> None:
        if isinstance(vocoder, Vocoder):
            vocoder = PackedLayers(vocoder_layers(vocoder), team)
        mel = PackedLayers(mel_layers(mel_decoder), team)
        self._team, self._parts = team, (mel, vocoder)
        layers = [*mel.layers, *vocoder.layers]
        self._layers = (NativeDecoderLayer * len(layers))(*layers)
        self._kept_floats, self._hop = kept_floats(layers), int(layers[-1].outputs)
        self._reach = sum((x.kernel - 1) * x.dilation - x.padding for x in layers)
        self._features = FrameFeatures(mel_decoder, 2 * layers[0].inputs)

    def begin(self) -> NativeDecoderState:
        """Return the state of an utterance that has had no frame yet."""
        return NativeDecoderState(self, [np.zeros(self._kept_floats, dtype=np.float32)])

    def advance(self, inputs: Sequence[DecoderInput]) -> list[Tensor]:
        """See :meth:`~ChatTTS.model.synthesis.streaming_decoder.StreamingDecoder.advance`.

        Raises:
            ChatTTSError: frames have another width, too.
        """
        check_inputs(self, inputs)
        features = [self._features(given.frames).cpu().contiguous() for given in inputs]
        samples, calls = [], []
        for given, rows in zip(inputs, features, strict=True):
            state, count = given.state, 2 * len(rows)
            before = 2 * state.seen  # mel frames
            hops = self._ready(before + count, given.last) - self._ready(before, False)
            out = torch.empty(hops * self._hop, dtype=torch.float32, device="cpu")
            samples.append(out)
            calls.append(
                NativeDecoderInput(
                    *map(address, (*state.kept, rows, out)), before, count, given.last
                )
            )
        self._team.advance(self._layers, calls)
        for given, rows in zip(inputs, features, strict=True):
            given.state.seen += len(rows)
            given.state.ended = given.last
        return samples

    def _ready(self, seen: int, last: bool) -> int:
        """Return the hops that are final after a number of mel frames."""
        return max(0, seen - (1 if last else self._reach))


def _convolution(pack: Packing, weight: Tensor, bias: Tensor | None) -> NativeDecoderLayer:
    """A convolution with weight [outputs, inputs, kernel] and zeros beyond the ends."""
    outputs, inputs, kernel = weight.shape
    rows = padded(weight.detach().float().transpose(1, 2))  # as they lie in a window
    return NativeDecoderLayer(
        type=CONVOLUTION,
        inputs=inputs,
        outputs=outputs,
        kernel=kernel,
        dilation=1,
        padding=kernel // 2,
        matrix=pack.matrix(rows.flatten(1)),
        bias=pack.vector(weight.new_zeros(outputs) if bias is None else bias),
    )


def _norm(pack: Packing, norm: nn.LayerNorm) -> NativeDecoderLayer:
    (channels,) = norm.normalized_shape
    return NativeDecoderLayer(
        type=NORM,
        inputs=channels,
        outputs=channels,
        kernel=1,
        dilation=1,
        number=norm.eps,
        weight=pack.vector(norm.weight),
        bias=pack.vector(norm.bias),
    )


def _inverse_fourier(pack: Packing, layer: InverseFourierLayer) -> list[NativeDecoderLayer]:
    """Three layers: to log-magnitudes and phases, to real and imaginary parts, to frames."""
    # Logs and phases are padded separately, so that the kernels take them by whole vectors.
    weight = _padded_halves(layer.head.out.weight)
    bias = _padded_halves(layer.head.out.bias.unsqueeze(1)).flatten()
    # One more output is 1 for every frame. Sums of weights leave out frames that are not there.
    inverse = nn.functional.pad(_padded_halves(layer.matrix()), (0, 1)).T
    there = nn.functional.pad(torch.zeros(len(layer.window)), (0, 1), value=1.0)
    return [
        _convolution(pack, weight.unsqueeze(-1), bias),
        NativeDecoderLayer(
            type=SPECTRUM,
            inputs=len(weight),
            outputs=len(weight),
            kernel=1,
            dilation=1,
            number=LARGEST_MAGNITUDE,
        ),
        _convolution(pack, inverse.unsqueeze(-1), there),
    ]


def _overlap_add(pack: Packing, layer: OverlapAddLayer) -> NativeDecoderLayer:
    weights = layer.weights
    return NativeDecoderLayer(
        type=OVERLAP,
        inputs=len(weights) + 1,
        outputs=len(weights) // layer.frames,
        kernel=layer.frames,
        dilation=1,
        padding=layer.padding,
        weight=pack.vector(weights),
    )


def _padded_halves(rows: Tensor) -> Tensor:
    """[2 n, m] with rows of zeros behind each half."""
    return torch.cat([padded(half.T).T for half in rows.chunk(2)])
