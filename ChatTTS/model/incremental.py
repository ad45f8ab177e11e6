"""Decoding in pieces, in torch: each layer keeps the inputs that it needs again.

A convolution that pads with zeros gives an output frame once the inputs in its span are there. So
a stage puts its padding before the first input, gives what it can, keeps the inputs that later
outputs need as well, and puts its padding behind the last input. A chain of such stages gives what
the layers give to the whole utterance, delayed by their reach; zeros stand where the layers put
them, at the true ends, and nowhere else.

Frames are rows here: [n, C]. The stages take the windows of many utterances at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .chain import Push, check
from .dvae import DVAE, ConvNeXtBlock, MelDecoder
from .vocoder import LARGEST_MAGNITUDE, Vocoder

# A layer without padding: from windows of n frames, all outputs that have their whole context, in
# one tensor: n - span + 1 of each window, or a whole multiple of as many.
_Layer = Callable[[Sequence[Tensor]], Tensor]


class TorchState:
    """The inputs that the stages keep of one utterance.

    Attributes:
        kept: for each stage a tensor [n, C]; ``None`` before its first input. Tensors are
            replaced, never changed, so copies share them.
        ended: whether the utterance has had its last frame.
    """

    def __init__(self, kept: Sequence[Tensor | None], ended: bool = False) -> None:
        self.kept = list(kept)
        self.ended = ended

    def copy(self) -> TorchState:
        """A state that goes on from here by itself."""
        return TorchState(self.kept, self.ended)

    @property
    def kept_bytes(self) -> int:
        """Memory of the inputs that later outputs need again."""
        return sum(kept.nbytes for kept in self.kept if kept is not None)


class Stage:
    """One layer, and how much of its input later outputs depend on.

    Args:
        layer: computes the outputs of windows.
        span: input frames that one output depends on.
        padding: frames of zeros at each end of the utterance.
    """

    def __init__(self, layer: _Layer, span: int = 1, padding: int = 0) -> None:
        self._layer, self._span, self._padding = layer, span, padding

    def window(self, kept: Tensor | None, x: Tensor | None, last: bool) -> Tensor | None:
        """What is kept, and the new inputs behind it: what the next outputs are computed from."""
        if self._span == 1:
            return x
        if x is not None:
            before = x.new_zeros(self._padding, x.shape[1]) if kept is None else kept
            kept = torch.cat([before, x])
        if kept is not None and last:
            kept = nn.functional.pad(kept, (0, 0, 0, self._padding))
        return kept

    def ready(self, window: Tensor | None) -> int:
        """Inputs at the head of a window that nothing behind the next outputs depends on."""
        return 0 if window is None else max(0, len(window) - self._span + 1)

    def kept(self, window: Tensor | None) -> Tensor | None:
        """What later outputs need of a window."""
        if window is None or self._span == 1:
            return None
        return window[self.ready(window) :].clone()  # a view would keep the whole window alive

    def __call__(self, windows: Sequence[Tensor]) -> Sequence[Tensor]:
        """The outputs of windows that have any."""
        counts = [self.ready(window) for window in windows]
        outputs = self._layer(windows)
        rate = len(outputs) // sum(counts)
        return outputs.split([rate * count for count in counts])


class TorchChain:
    """The loaded modules, layer by layer; see :class:`~ChatTTS.model.chain.Chain`.

    Raises:
        ConfigError: the vocoder's transform cannot be computed in pieces.
    """

    exact = False

    def __init__(self, mel_decoder: MelDecoder, vocoder: Vocoder) -> None:
        self._stages = [
            *_mel_stages(mel_decoder),
            *_backbone_stages(vocoder),
            *_head_stages(vocoder),
        ]

    def begin(self) -> TorchState:
        """The state of an utterance of which nothing is known yet."""
        return TorchState([None] * len(self._stages))

    @torch.inference_mode()
    def advance(self, pushes: Sequence[Push]) -> list[Tensor]:
        """See :class:`~ChatTTS.model.chain.Chain`."""
        check(pushes)
        rows = [
            None if push.frames is None or not len(push.frames) else push.frames for push in pushes
        ]
        for index, stage in enumerate(self._stages):
            windows = [
                stage.window(push.state.kept[index], x, push.last)
                for push, x in zip(pushes, rows, strict=True)
            ]
            given = [window for window in windows if window is not None and stage.ready(window)]
            outputs = iter(stage(given) if given else ())
            rows = [next(outputs) if stage.ready(window) else None for window in windows]
            for push, window in zip(pushes, windows, strict=True):
                push.state.kept[index] = stage.kept(window)
        for push in pushes:
            push.state.ended = push.last
        silence = torch.empty(0, dtype=torch.float32, device="cpu")
        return [silence if hops is None else hops.flatten().float().cpu() for hops in rows]


def _mel_stages(module: MelDecoder) -> Iterator[Stage]:
    if isinstance(module, DVAE):
        yield Stage(_pointwise(lambda codes: _features(module, codes)))
    else:
        yield Stage(_pointwise(lambda hiddens: hiddens.to(module.coef)))
    # The halves of the channels are two mel frames.
    yield Stage(_pointwise(lambda features: features.unflatten(1, (2, -1)).flatten(0, 1)))
    net = module.decoder
    for part in net.conv_in:
        yield _convolution(part) if isinstance(part, nn.Conv1d) else Stage(_pointwise(part))
    yield from map(_residual, net.decoder_block)
    yield _convolution(net.conv_out)
    yield _convolution(module.out_conv)
    yield Stage(_pointwise(lambda mel: mel * module.coef.flatten()))


def _features(module: DVAE, codes: Tensor) -> Tensor:
    """Codes [n, num_codebooks] to features [n, dim]."""
    return module.vq_layer.embed(codes.to(module.coef.device).T.unsqueeze(0))[0].T


def _backbone_stages(vocoder: Vocoder) -> Iterator[Stage]:
    backbone: Any = vocoder.backbone
    yield _convolution(backbone.embed)
    yield Stage(_pointwise(backbone.norm))
    yield from map(_residual, backbone.convnext)
    yield Stage(_pointwise(backbone.final_layer_norm))


def _head_stages(vocoder: Vocoder) -> Iterator[Stage]:
    """The inverse Fourier transform, frame by frame, and the sum where frames overlap.

    Centred frames lose half a frame at each end of the utterance. Counted in hops that leaves
    nothing but sums of ``overlap`` frames, with half as many less one of zeros at the ends.
    """
    head: Any = vocoder.head
    overlap = vocoder.overlap
    yield Stage(_pointwise(partial(_windowed_frames, head)))
    yield Stage(partial(_overlapped, overlap), overlap, overlap // 2 - 1)


def _windowed_frames(head: Any, features: Tensor) -> Tensor:
    """Features [n, dim] to [n, 2 n_fft]: frames of samples, and the weights that they carry."""
    logs, phases = head.out(features).chunk(2, dim=1)
    magnitudes = logs.exp().clip(max=LARGEST_MAGNITUDE)
    spectra = torch.complex(magnitudes * phases.cos(), magnitudes * phases.sin())
    window = head.istft.window
    frames = torch.fft.irfft(spectra, head.istft.n_fft, dim=1) * window
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


def _residual(block: Any) -> Stage:
    """A ConvNeXt block of this package or of vocos."""
    scale = block.weight if isinstance(block, ConvNeXtBlock) else block.gamma
    conv = block.dwconv
    reach = _reach(conv)

    def layer(windows: Sequence[Tensor]) -> Tensor:
        # Over all windows in a row; what lies across two of them is left out.
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
        y = block.norm(torch.cat(parts))
        y = block.pwconv2(block.act(block.pwconv1(y)))
        skip = torch.cat([window[reach : len(window) - reach] for window in windows])
        return skip + (y if scale is None else y * scale)

    return Stage(layer, 2 * reach + 1, reach)


def _convolution(conv: nn.Conv1d) -> Stage:
    """A convolution as a product of rows: torch's own, of a few frames, sums in an order that has
    three times the rounding errors."""
    reach = _reach(conv)
    (dilation,) = conv.dilation

    def layer(windows: Sequence[Tensor]) -> Tensor:
        taps = [window.unfold(0, 2 * reach + 1, 1)[..., ::dilation] for window in windows]
        return nn.functional.linear(torch.cat(taps).flatten(1), conv.weight.flatten(1), conv.bias)

    return Stage(layer, 2 * reach + 1, reach)


def _reach(conv: nn.Conv1d) -> int:
    """Frames on each side that the convolution reads."""
    return conv.kernel_size[0] // 2 * conv.dilation[0]


def _pointwise(layer: Callable[[Tensor], Tensor]) -> _Layer:
    """A layer of single frames: what stands beside them does not matter."""
    return lambda windows: layer(torch.cat(list(windows)))
