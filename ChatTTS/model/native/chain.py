"""Frames to samples on the CPU kernels: one native call for the next frames of many utterances.

Every bit of a sample depends on the frames within reach alone: not on the pieces in which they
come, on what is pushed beside them, or on the number of threads.

What happens between the native calls is done by numpy: torch's threads would go on spinning on the
cores that the team needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...errors import ChatTTSError, ConfigError
from ..chain import Push, check
from ..code_tables import CodeTables
from ..dvae import DVAE, MelDecoder
from ..vocoder import LARGEST_MAGNITUDE, Vocoder
from .convnext import ConvNeXtStack, Packing, kept_floats, padded
from .library import (
    CONVOLUTION,
    NORM,
    OVERLAP,
    SPECTRUM,
    ChainLayer,
    ChainPush,
    Team,
    address,
)


class NativeState:
    """What decoding one utterance has to remember; its size does not grow with the utterance.

    Attributes:
        chain: which it belongs to.
        kept: the rows of all layers that later outputs need again.
        seen: mel frames so far.
        ended: whether the utterance has had its last frame.
    """

    def __init__(
        self, chain: NativeChain, kept: NDArray[np.float32], seen: int = 0, ended: bool = False
    ) -> None:
        self.chain, self.kept, self.seen, self.ended = chain, kept, seen, ended

    def copy(self) -> NativeState:
        """A state that goes on from here by itself."""
        return NativeState(self.chain, self.kept.copy(), self.seen, self.ended)

    @property
    def kept_bytes(self) -> int:
        """Memory of the rows that are kept."""
        return self.kept.nbytes


class NativeChain:
    """The ``Chain`` of the CPU kernels; see ``model/chain.py``.

    The blocks are those of the modules; the weights of the other layers are packed in float32.

    Args:
        mel_decoder: the Decoder or the DVAE, after :func:`~.convnext.accelerate`.
        vocoder: mel to samples, after it too; or its :class:`VocoderLayers`, which two chains of
            one team may share.
        team: the threads that compute. Calls wait for each other.

    Raises:
        ConfigError: a module was not accelerated, or the transform cannot be computed in pieces.
    """

    exact = True

    def __init__(
        self, mel_decoder: MelDecoder, vocoder: Vocoder | VocoderLayers, team: Team
    ) -> None:
        if isinstance(vocoder, Vocoder):
            vocoder = VocoderLayers(vocoder, team)
        mel = MelLayers(mel_decoder, team)
        self._team, self._parts = team, (mel, vocoder)
        layers = [*mel.layers, *vocoder.layers]
        self._layers = (ChainLayer * len(layers))(*layers)
        self._kept_floats, self._hop = kept_floats(layers), vocoder.hop
        self._reach = sum((x.kernel - 1) * x.dilation - x.padding for x in layers)
        # The halves of a frame's features are two rows, one after the other.
        self._features = 2 * layers[0].inputs
        self._tables = CodeTables(mel_decoder.vq_layer) if isinstance(mel_decoder, DVAE) else None
        self._width = self._features if self._tables is None else self._tables.num_codebooks

    def begin(self) -> NativeState:
        """The state of an utterance of which nothing is known yet."""
        return NativeState(self, np.zeros(self._kept_floats, dtype=np.float32))

    def advance(self, pushes: Sequence[Push]) -> list[Tensor]:
        """For each push the samples [m] that became final, float32 on the CPU, often none.

        Raises:
            ChatTTSError: an utterance has ended already, a state is in two pushes or belongs to
                another chain, or frames have another width; no state has changed then.
        """
        check(pushes)
        if any(push.state.chain is not self for push in pushes):
            raise ChatTTSError("this state belongs to another chain: begin one here")
        features = [self._rows(push.frames) for push in pushes]
        samples, calls = [], []
        for push, rows in zip(pushes, features, strict=True):
            state, count = push.state, 2 * len(rows)
            hops = self._ready(state.seen + count, push.last) - self._ready(state.seen, False)
            out = torch.empty(hops * self._hop, dtype=torch.float32, device="cpu")
            samples.append(out)
            calls.append(
                ChainPush(*map(address, (state.kept, rows, out)), state.seen, count, push.last)
            )
        self._team.advance(self._layers, calls)
        for push, call in zip(pushes, calls, strict=True):
            push.state.seen += call.count
            push.state.ended = push.last
        return samples

    def _rows(self, frames: Tensor | None) -> Tensor:
        """Frames as the first layer takes them: contiguous float32 [n, features]."""
        if frames is None:
            return torch.empty(0, self._features, device="cpu")
        if frames.dim() != 2 or frames.shape[1] != self._width:
            raise ChatTTSError(
                f"this chain takes frames [n, {self._width}], not {list(frames.shape)}"
            )
        frames = frames.detach().cpu()
        return (frames.float() if self._tables is None else self._tables(frames)).contiguous()

    def _ready(self, seen: int, last: bool) -> int:
        """Hops that are final after so many mel frames."""
        return max(0, seen - (1 if last else self._reach))


class MelLayers:
    """Features to mel.

    Attributes:
        layers: in order; they live as long as this object.

    Args:
        module: the Decoder or the DVAE, after :func:`~.convnext.accelerate`.
        team: packs the weights.

    Raises:
        ConfigError: the module was not accelerated.
    """

    def __init__(self, module: MelDecoder, team: Team) -> None:
        pack, net = Packing(team), module.decoder
        convolutions: Any = net.conv_in
        self._packing, self._blocks = pack, _stack(net.decoder_block)
        first, _, second = convolutions
        out = module.out_conv.weight * module.coef[0].unsqueeze(-1)  # [n_mels, odim, kernel]
        self.layers = [
            _convolution(pack, first.weight, first.bias, gelu=True),
            _convolution(pack, second.weight, second.bias),
            *self._blocks.layers,
            _convolution(pack, net.conv_out.weight),
            _convolution(pack, out),
        ]


class VocoderLayers:
    """Mel to samples.

    Attributes:
        hop: samples for each row that comes out.
        layers: in order; they live as long as this object.

    Args:
        module: after :func:`~.convnext.accelerate`.
        team: packs the weights.

    Raises:
        ConfigError: the module was not accelerated, or its transform cannot be computed in pieces.
    """

    def __init__(self, module: Vocoder, team: Team) -> None:
        backbone: Any = module.backbone
        pack = Packing(team)
        self._packing, self._blocks = pack, _stack(backbone.convnext)
        transform: Any = module.head.istft
        self.hop = transform.hop_length
        self.layers = [
            _convolution(pack, backbone.embed.weight, backbone.embed.bias),
            _norm(pack, backbone.norm),
            *self._blocks.layers,
            _norm(pack, backbone.final_layer_norm),
            *_head(pack, module),
        ]


def _stack(blocks: Iterable[nn.Module]) -> ConvNeXtStack:
    (stack, *rest) = blocks
    if rest or not isinstance(stack, ConvNeXtStack):
        raise ConfigError("a native chain needs modules on the kernels: accelerate them before")
    return stack


def _convolution(
    pack: Packing, weight: Tensor, bias: Tensor | None = None, *, gelu: bool = False
) -> ChainLayer:
    """Of weight [outputs, inputs, kernel], zeros where it reaches beyond the ends."""
    outputs, inputs, kernel = weight.shape
    rows = padded(weight.detach().float().transpose(1, 2))  # as they lie in a window
    return ChainLayer(
        type=CONVOLUTION,
        inputs=inputs,
        outputs=outputs,
        kernel=kernel,
        dilation=1,
        padding=kernel // 2,
        gelu=gelu,
        matrix=pack.matrix(rows.flatten(1)),
        bias=pack.vector(weight.new_zeros(outputs) if bias is None else bias),
    )


def _norm(pack: Packing, norm: Any) -> ChainLayer:
    (channels,) = norm.normalized_shape
    return ChainLayer(
        type=NORM,
        inputs=channels,
        outputs=channels,
        kernel=1,
        dilation=1,
        number=norm.eps,
        weight=pack.vector(norm.weight),
        bias=pack.vector(norm.bias),
    )


def _head(pack: Packing, vocoder: Vocoder) -> list[ChainLayer]:
    """Log-magnitudes and phases, the inverse Fourier transform, and the sum where frames overlap.

    Centred frames lose half a frame at each end of the utterance. Counted in hops that leaves
    nothing but sums of ``overlap`` frames, with half as many less one of zeros at the ends.
    """
    head: Any = vocoder.head
    transform, overlap = head.istft, vocoder.overlap
    n_fft, hop = transform.n_fft, transform.hop_length
    # Logs and phases are padded each by itself, so that the kernels take them by whole vectors.
    weight = _padded_halves(head.out.weight)
    bias = _padded_halves(head.out.bias.unsqueeze(1)).flatten()
    window = transform.window.detach().double().cpu()
    bins = torch.eye(n_fft // 2 + 1, dtype=torch.complex128)
    inverse = torch.cat([torch.fft.irfft(part * bins, n_fft) * window for part in (1, 1j)])
    # One output more says that there is a frame: sums of weights leave out what is not there.
    inverse = nn.functional.pad(_padded_halves(inverse), (0, 1)).T
    there = nn.functional.pad(torch.zeros(n_fft), (0, 1), value=1.0)
    return [
        _convolution(pack, weight.unsqueeze(-1), bias),
        ChainLayer(
            type=SPECTRUM,
            inputs=len(weight),
            outputs=len(weight),
            kernel=1,
            dilation=1,
            number=LARGEST_MAGNITUDE,
        ),
        _convolution(pack, inverse.unsqueeze(-1), there),
        ChainLayer(
            type=OVERLAP,
            inputs=n_fft + 1,
            outputs=hop,
            kernel=overlap,
            dilation=1,
            padding=overlap // 2 - 1,
            weight=pack.vector(window.square()),
        ),
    ]


def _padded_halves(rows: Tensor) -> Tensor:
    """[2 n, m] with rows of zeros behind each half."""
    return torch.cat([padded(half.T).T for half in rows.chunk(2)])
