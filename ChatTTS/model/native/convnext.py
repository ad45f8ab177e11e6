"""Stacks of ConvNeXt blocks on the CPU kernels, in place of torch's."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, byref, c_float, c_int32, c_void_p, pointer
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import ConfigError
from ..dvae import MelDecoder
from ..vocoder import Vocoder
from .library import KINDS, Team, address

# Vectors and rows are padded to a multiple of this many floats (``kRowStep`` of convnext.h).
_ROW_STEP = 16


class _Block(ctypes.Structure):
    """``VelocityConvNeXtBlock`` of convnext.h."""

    _fields_ = [
        ("taps", c_void_p),
        ("taps_bias", c_void_p),
        ("norm", c_void_p),
        ("norm_bias", c_void_p),
        ("up", c_void_p),
        ("up_bias", c_void_p),
        ("down", c_void_p),
        ("down_bias", c_void_p),
        ("scale", c_void_p),
    ]


class _Stack(ctypes.Structure):
    """``VelocityConvNeXt`` of convnext.h."""

    _fields_ = [
        ("blocks", POINTER(_Block)),
        ("depth", c_int32),
        ("channels", c_int32),
        ("intermediate", c_int32),
        ("kernel", c_int32),
        ("dilation", c_int32),
        ("padded", c_int32),
        ("eps", c_float),
    ]


def accelerate(module: MelDecoder | Vocoder, team: Team, kind: str = "float32") -> None:
    """Replace the blocks between features and mel, or between mel and samples, by one stack.

    The weights of the blocks must be loaded; they are packed and then let go. What encodes audio
    (the DVAE's other half) stays as it is: its codes would differ by a rounding.

    Args:
        team: the threads that compute. One call at a time may use them.
        kind: ``float32``, ``bfloat16`` or ``int8``; how the matrices are kept.

    Raises:
        ConfigError: the blocks are of another architecture.
    """
    if isinstance(module, MelDecoder):
        stack = ConvNeXtStack(list(module.decoder.decoder_block), team, kind)
        module.decoder.decoder_block = nn.ModuleList([stack])
    else:
        stack = ConvNeXtStack(list(module.backbone.convnext), team, kind)
        module.backbone.convnext = nn.ModuleList([stack])


class ConvNeXtStack(nn.Module):
    """Blocks one after another, in one native call; for inference on the CPU.

    A frame's bits depend on the frames within the blocks' reach: not on the length, the batch or
    the number of threads, nor on whether :meth:`block` took the frames in pieces.

    Attributes:
        channels: of the frames.
        depth: number of blocks.
        reach: frames on each side that one block reads.

    Args:
        blocks: ``ConvNeXtBlock`` of this package or of vocos, all of one shape, with their weights.
            Nothing of them is kept.
        team: the threads that compute. One call at a time may use them.
        kind: ``float32``, ``bfloat16`` or ``int8``; how the matrices are kept. The convolutions
            and norms are float32.

    Raises:
        ConfigError: the blocks differ in shape, or are not built as those two are.
    """

    def __init__(self, blocks: Sequence[nn.Module], team: Team, kind: str = "float32") -> None:
        super().__init__()
        if kind not in KINDS:
            raise ConfigError(f"the kind of weights must be one of {', '.join(KINDS)}, not {kind}")
        shapes = {_shape(block) for block in blocks}
        if len(shapes) != 1:
            raise ConfigError("a stack needs ConvNeXt blocks that are all of one shape")
        self.channels, intermediate, kernel, dilation, eps = shapes.pop()
        self._team, self._kind = team, kind
        # Not buffers: whatever moves or casts a module's buffers would leave the addresses behind.
        self._kept: list[Tensor] = []
        self.depth, self.reach = len(blocks), kernel // 2 * dilation
        self._blocks = (_Block * self.depth)(*(self._pack(block) for block in blocks))
        sizes = self.channels, intermediate, kernel, dilation
        self._whole = _Stack(self._blocks, self.depth, *sizes, True, eps)
        self._singles = [_Stack(pointer(block), 1, *sizes, False, eps) for block in self._blocks]

    def forward(self, x: Tensor, cond_embedding_id: None = None) -> Tensor:
        """[B, channels, T] to float32 of the same shape; in memory, channels come last.

        Args:
            cond_embedding_id: what the backbone of vocos hands to each block; always ``None``.

        Raises:
            ConfigError: ``x`` has another number of channels or dimensions.
        """
        if x.dim() != 3 or x.shape[1] != self.channels:
            raise ConfigError(
                f"the blocks take [batch, {self.channels}, frames], not {list(x.shape)}"
            )
        return self._run(self._whole, x, x.shape[2])

    def block(self, index: int, x: Tensor) -> Tensor:
        """One block, without padding: [channels, n] to float32 [channels, n - 2 * reach].

        Only frames that have their whole context come out; the caller puts zeros where a sequence
        begins and ends.

        Raises:
            ConfigError: ``x`` has another number of channels or dimensions, or too few frames.
        """
        left = x.shape[-1] - 2 * self.reach
        if x.dim() != 2 or len(x) != self.channels or left < 0:
            raise ConfigError(
                f"a block takes [{self.channels}, frames] with at least {2 * self.reach} frames, "
                f"not {list(x.shape)}"
            )
        return self._run(self._singles[index], x.unsqueeze(0), left)[0]

    def _run(self, stack: _Stack, x: Tensor, frames: int) -> Tensor:
        """[B, channels, T] through the blocks of ``stack``, which leave so many frames."""
        rows = x.detach().to("cpu", torch.float32).transpose(1, 2).contiguous()
        out = rows.new_empty(len(rows), frames, self.channels)
        if out.numel():
            self._team.library.velocity_convnext(
                self._team.handle,
                KINDS[self._kind],
                byref(stack),
                address(rows),
                *rows.shape[:2],
                address(out),
            )
        return out.transpose(1, 2)

    def _pack(self, block: Any) -> _Block:
        scale = block.weight if hasattr(block, "weight") else block.gamma
        return _Block(
            taps=self._vector(block.dwconv.weight[:, 0].T),
            taps_bias=self._vector(block.dwconv.bias),
            norm=self._vector(block.norm.weight),
            norm_bias=self._vector(block.norm.bias),
            up=self._matrix(block.pwconv1.weight),
            up_bias=self._vector(block.pwconv1.bias),
            down=self._matrix(block.pwconv2.weight),
            down_bias=self._vector(block.pwconv2.bias),
            scale=self._vector(torch.ones(self.channels) if scale is None else scale),
        )

    def _vector(self, values: Tensor) -> int:
        """Address of a copy whose last dimension is padded with zeros."""
        padding = -values.shape[-1] % _ROW_STEP
        return self._keep(nn.functional.pad(values.detach().float(), (0, padding)).clone())

    def _matrix(self, weight: Tensor) -> int:
        # Zeros: the padding of a matrix is not written, and scales of it are read.
        packed = torch.zeros(self._team.packed_bytes(self._kind, *weight.shape), dtype=torch.uint8)
        self._team.pack(weight.detach().float().contiguous(), self._kind, packed)
        return self._keep(packed)

    def _keep(self, values: Tensor) -> int:
        values = values.contiguous()
        self._kept.append(values)
        return address(values)


def _shape(block: Any) -> tuple[int, int, int, int, float]:
    """Channels, intermediate size, kernel, dilation and eps of a block.

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
        raise ConfigError(f"{type(block).__name__} is no ConvNeXt block ({error})") from None
    if not fits:
        raise ConfigError(
            "the kernels take ConvNeXt blocks of an odd depthwise convolution that keeps the "
            "length, a LayerNorm and an exact GELU; use the torch blocks for others"
        )
    return shape
