"""Layers packed for the CPU kernels, and stacks of ConvNeXt blocks in place of torch's."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import ConfigError
from ..dvae import MelDecoder
from ..kernels.cpu.library import (
    BLOCK,
    KINDS,
    ROW_STEP,
    NativeConvNeXtBlock,
    NativeDecoderInput,
    NativeDecoderLayer,
    Team,
    address,
)
from .layers import block_scale
from .vocoder import Vocoder

# Eight bits are for the Llama alone.
_KINDS = ("float32", "bfloat16")


def accelerate(module: MelDecoder | Vocoder, team: Team, kind: str = "float32") -> None:
    """Replace the blocks between features and mel, or between mel and samples, by one stack.

    The weights of the blocks must be loaded; they are packed and then released. The encoder of the
    DVAE stays as it is: rounding could change its codes.

    Args:
        team: the threads that compute. One call at a time may use them.
        kind: ``float32`` or ``bfloat16``, in which the matrices are stored.

    Raises:
        ConfigError: the blocks are of another architecture.
    """
    if isinstance(module, MelDecoder):
        stack = ConvNeXtStack(list(module.decoder.decoder_block), team, kind)
        module.decoder.decoder_block = nn.ModuleList([stack])
    else:
        stack = ConvNeXtStack(list(module.backbone.convnext), team, kind)
        module.backbone.convnext = nn.ModuleList([stack])


class Packing:
    """Copies of weights as the kernels read them, which live as long as this object.

    Args:
        team: packs and pads; its machine decides how.
    """

    def __init__(self, team: Team) -> None:
        self._team = team
        self._held: list[Tensor] = []

    def vector(self, values: Tensor) -> int:
        """Return the address of a copy whose last dimension is padded with zeros."""
        return self._hold(padded(values.detach().float()).clone())

    def matrix(self, weight: Tensor, kind: str = "float32") -> int:
        """Return the address of a packed matrix [outputs, inputs]."""
        # Zeros, because packing does not write the padding, and the kernels read its scales.
        packed = torch.zeros(self._team.packed_bytes(kind, *weight.shape), dtype=torch.uint8)
        self._team.pack(weight.detach().float().contiguous(), kind, packed)
        return self._hold(packed)

    def _hold(self, values: Tensor) -> int:
        values = values.contiguous()
        self._held.append(values)
        return address(values)


class ConvNeXtStack(nn.Module):
    """Blocks one after another, in one native call; for inference on the CPU.

    A frame's bits depend only on the frames within the blocks' reach, and not on the length, the
    batch or the number of threads.

    Attributes:
        channels: of the frames.
        layers: the blocks as the kernels read them; they live as long as the stack.

    Args:
        blocks: ``ConvNeXtBlock`` or ``VocosBlock``, all of one shape, with their weights. Nothing
            of them is kept.
        team: the threads that compute. One call at a time may use them.
        kind: ``float32`` or ``bfloat16``; how the matrices are kept. The convolutions
            and norms are float32.

    Raises:
        ConfigError: the blocks differ in shape, or are not built as those two are.
    """

    def __init__(self, blocks: Sequence[nn.Module], team: Team, kind: str = "float32") -> None:
        super().__init__()
        if kind not in _KINDS:
            raise ConfigError(f"the kind of weights must be one of {', '.join(_KINDS)}, not {kind}")
        shapes = {_shape(block) for block in blocks}
        if len(shapes) != 1:
            raise ConfigError("a stack needs ConvNeXt blocks that are all of one shape")
        self.channels, intermediate, kernel, dilation, eps = shapes.pop()
        self._team = team
        # Not buffers: moving or casting a module's buffers would make the addresses wrong.
        self._packing = Packing(team)
        sizes = KINDS[kind], self.channels, intermediate, kernel, dilation, eps
        self._blocks = [NativeConvNeXtBlock(*self._pack(block, kind), *sizes) for block in blocks]
        layers = (
            NativeDecoderLayer(
                type=BLOCK,
                inputs=self.channels,
                outputs=self.channels,
                kernel=kernel,
                dilation=dilation,
                padding=kernel // 2 * dilation,
                block=ctypes.addressof(block),
            )
            for block in self._blocks
        )
        self.layers = (NativeDecoderLayer * len(blocks))(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Return float32 outputs [B, channels, T], whose channels come last in memory.

        Raises:
            ConfigError: ``x`` has another number of channels or dimensions.
        """
        if x.dim() != 3 or x.shape[1] != self.channels:
            raise ConfigError(
                f"the blocks take [batch, {self.channels}, frames], not {list(x.shape)}"
            )
        rows = x.detach().to("cpu", torch.float32).transpose(1, 2).contiguous()
        out = torch.empty_like(rows)
        if out.numel():
            kept = rows.new_zeros(len(rows), kept_floats(self.layers))
            self._team.advance(
                self.layers,
                [
                    NativeDecoderInput(
                        *map(address, (kept[i], rows[i], out[i])), 0, rows.shape[1], True
                    )
                    for i in range(len(rows))
                ],
            )
        return out.transpose(1, 2)

    def _pack(self, block: Any, kind: str) -> tuple[int, ...]:
        """Return the pointers of a ``NativeConvNeXtBlock``."""
        vector, matrix = self._packing.vector, self._packing.matrix
        return (
            vector(block.dwconv.weight[:, 0].T),
            vector(block.dwconv.bias),
            vector(block.norm.weight),
            vector(block.norm.bias),
            matrix(block.pwconv1.weight, kind),
            vector(block.pwconv1.bias),
            matrix(block.pwconv2.weight, kind),
            vector(block.pwconv2.bias),
            vector(block_scale(block)),
        )


def padded(values: Tensor) -> Tensor:
    """Return ``values`` with zeros behind the last dimension, up to the width of a row."""
    return nn.functional.pad(values, (0, -values.shape[-1] % ROW_STEP))


def kept_floats(layers: Iterable[NativeDecoderLayer]) -> int:
    """Return the size of a state: for each layer the rows that an output depends on, less one."""
    return sum(
        (layer.kernel - 1) * layer.dilation * -(-layer.inputs // ROW_STEP) * ROW_STEP
        for layer in layers
    )


def _shape(block: Any) -> tuple[int, int, int, int, float]:
    """Return channels, intermediate size, kernel, dilation and eps of a block.

    Raises:
        ConfigError: it has parts that the kernels do not compute.
    """
    try:
        conv, norm, up = block.dwconv, block.norm, block.pwconv1
        (kernel,), (dilation,), channels = conv.kernel_size, conv.dilation, conv.out_channels
        fits = (
            type(norm) is nn.LayerNorm
            and type(block.act) is nn.GELU
            and block.act.approximate == "none"
            and conv.groups == conv.in_channels == channels
            and conv.stride == (1,)
            and conv.padding == (kernel // 2 * dilation,)
            and kernel % 2 == 1
        )
        shape = (channels, up.out_features, kernel, dilation, norm.eps)
    except AttributeError as error:
        raise ConfigError(f"{type(block).__name__} is not a ConvNeXt block ({error})") from None
    if not fits:
        raise ConfigError(
            "the kernels take ConvNeXt blocks of an odd depthwise convolution that keeps the "
            "length, a LayerNorm and an exact GELU; use the torch blocks for others"
        )
    return shape
