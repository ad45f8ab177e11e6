"""Decoding in pieces: each layer keeps the inputs that it needs again, and computes nothing twice.

A convolution that pads with zeros gives an output frame once the inputs in its span are there. So
a stage puts its padding before the first input, gives what it can, keeps the inputs that later
outputs need as well, and puts its padding behind the last input. A chain of such stages gives what
the layers give to the whole utterance, delayed by their reach; zeros stand where the layers put
them, at the true ends, and nowhere else.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ChatTTSError, ConfigError
from .dvae import DVAE, ConvNeXtBlock, MelDecoder, two_frames_each
from .native.convnext import ConvNeXtStack
from .vocoder import Vocoder

# A layer without padding: [C, n] to [C', n - span + 1], or a whole multiple of as many frames.
_Layer = Callable[[Tensor], Tensor]

# What the vocos package limits magnitudes to.
_LARGEST_MAGNITUDE = 1e2


class State:
    """What decoding one utterance has to remember; its size does not grow with the utterance.

    It holds the loaded modules by reference and tensors that nobody changes, so a copy is cheap.

    Args:
        stages: the layers, first to last, with nothing pushed yet.
    """

    def __init__(self, stages: Iterable[Stage]) -> None:
        self._stages = list(stages)
        self._ended = False

    def push(self, x: Tensor | None, *, last: bool = False) -> Tensor | None:
        """Take the next frames [C, n], or ``None`` for none; returns what became final.

        Args:
            last: whether the utterance ends with these frames.

        Raises:
            ChatTTSError: the utterance has ended already.
        """
        if self._ended:
            raise ChatTTSError("this utterance has ended: begin a new state for the next one")
        self._ended = last
        for stage in self._stages:
            x = stage.push(x, last)
        return x

    def copy(self) -> State:
        """A state that goes on from here by itself."""
        twin = State(copy.copy(stage) for stage in self._stages)
        twin._ended = self._ended
        return twin

    @property
    def kept_bytes(self) -> int:
        """Memory of the inputs that are kept."""
        return sum(stage.kept_bytes for stage in self._stages)


class Stage:
    """One layer, and those of its inputs that later outputs depend on.

    Args:
        layer: computes all the outputs that a window of inputs has the whole context of.
        span: input frames that one output depends on.
        padding: frames of zeros at each end of the utterance.
    """

    def __init__(self, layer: _Layer, span: int = 1, padding: int = 0) -> None:
        self._layer, self._span, self._padding = layer, span, padding
        self._kept: Tensor | None = None  # replaced, never changed: copies of the stage share it

    def push(self, x: Tensor | None, last: bool) -> Tensor | None:
        """Take frames [C, n] or none, and give the outputs that became final, if there are any."""
        if x is not None:
            before = x.new_zeros(len(x), self._padding) if self._kept is None else self._kept
            self._kept = torch.cat([before, x], dim=1)
        if self._kept is None:
            return None
        window = nn.functional.pad(self._kept, (0, self._padding)) if last else self._kept
        ready = window.shape[1] - self._span + 1
        if ready <= 0:
            return None
        # A view would keep the whole window alive.
        self._kept = window[:, ready:].clone()
        return self._layer(window)

    @property
    def kept_bytes(self) -> int:
        """Memory of the inputs that are kept."""
        return 0 if self._kept is None else self._kept.nbytes


def begin(mel_decoder: MelDecoder, vocoder: Vocoder) -> State:
    """The state of an utterance of which nothing is known yet.

    It takes codes [num_vq, n] for a DVAE and hidden states [hidden, n] for a Decoder, and gives
    samples [hop, n]: a column is one hop.

    Raises:
        ConfigError: the vocoder's transform cannot be computed in pieces.
    """
    return State([*_mel_stages(mel_decoder), *_backbone_stages(vocoder), *_head_stages(vocoder)])


def _mel_stages(module: MelDecoder) -> Iterator[Stage]:
    if isinstance(module, DVAE):
        yield Stage(_batched(module.vq_layer.embed))
    yield Stage(_batched(two_frames_each))
    net = module.decoder
    for part in net.conv_in:
        yield _convolution(part) if isinstance(part, nn.Conv1d) else Stage(part)
    yield from _block_stages(net.decoder_block)
    yield _convolution(net.conv_out)
    yield _convolution(module.out_conv)
    yield Stage(lambda mel: mel * module.coef[0])


def _backbone_stages(vocoder: Vocoder) -> Iterator[Stage]:
    backbone: Any = vocoder.backbone
    yield _convolution(backbone.embed)
    yield Stage(_on_rows(backbone.norm))
    yield from _block_stages(backbone.convnext)
    yield Stage(_on_rows(backbone.final_layer_norm))


def _head_stages(vocoder: Vocoder) -> Iterator[Stage]:
    """The inverse Fourier transform, frame by frame, and the sum where frames overlap.

    Centred frames lose half a frame at each end of the utterance. Counted in hops that leaves
    nothing but sums of ``overlap`` frames, with half as many less one of zeros at the ends.
    """
    head: Any = vocoder.head
    transform = head.istft
    overlap, rest = divmod(transform.n_fft, transform.hop_length)
    if transform.padding != "center" or rest or overlap % 2:
        raise ConfigError(
            "decoding in pieces needs a vocoder with centre padding and an n_fft that is an even "
            f"multiple of hop_length, not {transform.padding!r}, {transform.n_fft} and "
            f"{transform.hop_length}; decode whole utterances with this one"
        )
    yield Stage(partial(_windowed_frames, head))
    yield Stage(partial(_overlapped, overlap), overlap, overlap // 2 - 1)


def _windowed_frames(head: Any, features: Tensor) -> Tensor:
    """Features [dim, n] to [2 n_fft, n]: frames of samples, and the weights that they carry."""
    logs, phases = head.out(features.T).chunk(2, dim=1)
    magnitudes = logs.exp().clip(max=_LARGEST_MAGNITUDE)
    spectra = torch.complex(magnitudes * phases.cos(), magnitudes * phases.sin())
    window = head.istft.window
    frames = torch.fft.irfft(spectra, head.istft.n_fft, dim=1) * window
    return torch.cat([frames, window.square().expand_as(frames)], dim=1).T


def _overlapped(overlap: int, frames: Tensor) -> Tensor:
    """[2 n_fft, n] to samples [hop, n - overlap + 1], always summed in the same order."""
    count = frames.shape[1] - overlap + 1
    parts = frames.unflatten(0, (2, overlap, -1))  # [2, overlap, hop, n]
    total = parts[:, overlap - 1, :, :count]
    for age in reversed(range(overlap - 1)):
        first = overlap - 1 - age
        total = total + parts[:, age, :, first : first + count]
    samples, weights = total
    return samples / weights


def _block_stages(blocks: Iterable[nn.Module]) -> Iterator[Stage]:
    for block in blocks:
        if isinstance(block, ConvNeXtStack):
            for index in range(block.depth):
                yield Stage(partial(block.block, index), 2 * block.reach + 1, block.reach)
        else:
            yield _residual(block)


def _residual(block: Any) -> Stage:
    """A ConvNeXt block of this package or of vocos, in torch."""
    scale = block.weight if isinstance(block, ConvNeXtBlock) else block.gamma
    reach = _reach(block.dwconv)

    def layer(x: Tensor) -> Tensor:
        y = block.norm(_unpadded(block.dwconv, x).T)
        y = block.pwconv2(block.act(block.pwconv1(y)))
        return x[:, reach : x.shape[1] - reach] + (y if scale is None else y * scale).T

    return Stage(layer, 2 * reach + 1, reach)


def _convolution(conv: nn.Conv1d) -> Stage:
    reach = _reach(conv)
    return Stage(partial(_unpadded, conv), 2 * reach + 1, reach)


def _reach(conv: nn.Conv1d) -> int:
    """Frames on each side that the convolution reads."""
    return conv.kernel_size[0] // 2 * conv.dilation[0]


def _unpadded(conv: nn.Conv1d, x: Tensor) -> Tensor:
    """[C, n] to [C', n - 2 reach]."""
    if conv.groups > 1:
        return nn.functional.conv1d(
            x, conv.weight, conv.bias, dilation=conv.dilation, groups=conv.groups
        )
    # As a product of rows: torch's convolution of a few frames sums in an order that has three
    # times the rounding errors.
    (kernel,), (dilation,) = conv.kernel_size, conv.dilation
    taps = x.unfold(1, (kernel - 1) * dilation + 1, 1)[..., ::dilation]  # [C, n - 2 reach, kernel]
    return nn.functional.linear(
        taps.transpose(0, 1).flatten(1), conv.weight.flatten(1), conv.bias
    ).T


def _batched(layer: _Layer) -> _Layer:
    """A layer that takes a batch, for one sequence."""
    return lambda x: layer(x.unsqueeze(0))[0]


def _on_rows(layer: _Layer) -> _Layer:
    """A layer that takes channels last, for channels first."""
    return lambda x: layer(x.T).T
