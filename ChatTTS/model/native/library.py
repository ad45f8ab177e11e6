"""The compiled kernels as Python sees them: structures, functions, threads."""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_float, c_int, c_int32, c_int64, c_void_p
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import ConfigError
from . import build

# Weight kinds, as products.h numbers them.
KINDS = {"float32": 0, "bfloat16": 1, "int8": 2}
ALIGNMENT = 64

# Vectors and rows of a chain are padded to a multiple of this many floats (``kRowStep``).
ROW_STEP = 16


def _fields(kind: Any, names: str) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names.split()]


class Sizes(ctypes.Structure):
    """``VelocitySizes`` of llama.h."""

    _fields_ = [
        *_fields(c_int32, "hidden intermediate layers heads kv_heads head_size lanes"),
        *_fields(c_int32, "block_size audio_tokens"),
        ("eps", c_float),
    ]


class LayerWeights(ctypes.Structure):
    """``VelocityLayer`` of llama.h."""

    _fields_ = _fields(c_void_p, "qkv out gate up down attention_norm mlp_norm")


class Weights(ctypes.Structure):
    """``VelocityWeights`` of llama.h."""

    _fields_ = [
        ("layers", POINTER(LayerWeights)),
        *_fields(c_void_p, "final_norm text_table code_table cosines sines"),
    ]


class BatchInputs(ctypes.Structure):
    """``VelocityBatch`` of llama.h."""

    _fields_ = [
        *_fields(c_int32, "rows draws table_width"),
        *_fields(c_void_p, "kinds ids positions tables table_of draw_rows vectors pool hiddens"),
    ]


class ConvNeXtBlock(ctypes.Structure):
    """``VelocityConvNeXtBlock`` of convnext.h."""

    _fields_ = [
        *_fields(c_void_p, "taps taps_bias norm norm_bias up up_bias down down_bias scale"),
        *_fields(c_int32, "kind channels intermediate kernel dilation"),
        ("eps", c_float),
    ]


class ChainLayer(ctypes.Structure):
    """``VelocityChainLayer`` of chain.h."""

    _fields_ = [
        *_fields(c_int32, "type inputs outputs kernel dilation padding gelu"),
        ("number", c_float),
        *_fields(c_void_p, "matrix weight bias block"),
    ]


class ChainPush(ctypes.Structure):
    """``VelocityChainPush`` of chain.h."""

    _fields_ = [
        *_fields(c_void_p, "kept rows out"),
        ("seen", c_int64),
        *_fields(c_int32, "count last"),
    ]


# Types of layers, as chain.h numbers them.
CONVOLUTION, NORM, BLOCK, SPECTRUM, OVERLAP = range(5)

# ``VelocityDraw`` of sampler.h, as rows of an array.
DRAW = np.dtype(
    [
        ("temperature", np.float32),
        ("top_p", np.float32),
        ("penalty", np.float32),
        ("top_k", np.int32),
        ("forbidden", np.int32),
        ("position", np.int32),
        ("seed", np.uint64),
        ("stream", np.uint32),
        ("sample", np.uint32),
        ("utterance", np.uint32),
        ("history", np.int32),
        ("stride", np.int32),
        ("window", np.uintp),
    ],
    align=True,
)

_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "velocity_build": (c_char_p, ()),
    "velocity_team": (c_void_p, (c_int,)),
    "velocity_dismiss": (None, (c_void_p,)),
    "velocity_matrix_bytes": (c_int64, (c_int, c_int, c_int)),
    "velocity_pack": (None, (c_void_p, c_int, c_void_p, c_int, c_int, c_void_p)),
    "velocity_product": (
        None,
        (c_void_p, c_int, c_void_p, c_int, c_void_p, c_int, c_int, c_void_p),
    ),
    "velocity_block_bytes": (c_int64, (POINTER(Sizes), c_int)),
    "velocity_llama": (c_void_p, (c_int, c_int, POINTER(Sizes), POINTER(Weights))),
    "velocity_llama_delete": (None, (c_void_p,)),
    "velocity_chain": (
        None,
        (c_void_p, POINTER(ChainLayer), c_int, POINTER(ChainPush), c_int),
    ),
    "velocity_forward": (None, (c_void_p, c_void_p, POINTER(BatchInputs))),
    "velocity_sample": (
        None,
        (c_void_p, c_void_p, c_int, c_int, c_int, c_void_p, c_void_p, c_void_p, c_void_p),
    ),
}


@functools.cache
def load() -> ctypes.CDLL:
    """The library of this machine.

    Raises:
        BuildError: it cannot be compiled, or does not load.
    """
    file = build.library()
    try:
        found = ctypes.CDLL(str(file))
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(found, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise build.BuildError(f"{file} does not load ({error}); delete it") from error
    return found


def address(array: Tensor | NDArray[Any]) -> int:
    """Where a contiguous tensor or array begins. The caller keeps it alive."""
    return array.data_ptr() if isinstance(array, Tensor) else array.ctypes.data


class Team:
    """Threads that compute together; they sleep between calls and end with this object.

    Raises:
        BuildError: there are no kernels here.
        ConfigError: the system does not give so many threads.
    """

    def __init__(self, size: int) -> None:
        self.library = load()
        self.size = size
        self.handle = self.library.velocity_team(size)
        if self.handle is None:
            raise ConfigError(f"{size} threads cannot be started here: ask for less (num_threads)")
        self.about = self.library.velocity_build().decode("ascii")
        # Not at the interpreter's end: a daemon thread may be computing on them to the last.
        weakref.finalize(self, self.library.velocity_dismiss, self.handle).atexit = False

    def advance(self, layers: ctypes.Array[ChainLayer], pushes: Sequence[ChainPush]) -> None:
        """Take ``pushes`` through ``layers``; no two of them may have the same state."""
        self.library.velocity_chain(
            self.handle, layers, len(layers), (ChainPush * len(pushes))(*pushes), len(pushes)
        )

    def pack(self, weight: Tensor, kind: str, into: Tensor) -> None:
        """Pack float32 ``weight`` [outputs, inputs] ``into`` bytes (see :meth:`packed_bytes`)."""
        outputs, inputs = weight.shape
        self.library.velocity_pack(
            self.handle, KINDS[kind], address(weight), outputs, inputs, address(into)
        )

    def packed_bytes(self, kind: str, outputs: int, inputs: int) -> int:
        """Room that a packed matrix takes, in whole cache lines."""
        size = int(self.library.velocity_matrix_bytes(KINDS[kind], outputs, inputs))
        return -(-size // ALIGNMENT) * ALIGNMENT

    def product(self, rows: Tensor, packed: Tensor, kind: str, outputs: int) -> Tensor:
        """float32 ``rows`` [n, inputs] times a packed matrix: float32 [n, outputs]."""
        rows = rows.contiguous()
        n, inputs = rows.shape
        out = torch.empty(n, outputs, dtype=torch.float32, device="cpu")
        self.library.velocity_product(
            self.handle,
            KINDS[kind],
            address(rows),
            n,
            address(packed),
            outputs,
            inputs,
            address(out),
        )
        return out
