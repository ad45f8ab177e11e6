"""The compiled kernels as Python sees them: structures, functions, threads."""

from __future__ import annotations

import ctypes
import functools
import operator
import os
import tempfile
import weakref
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....errors import ConfigError
from ....utils.cache_files import UNFINISHED
from ....utils.machine import checked_threads
from ...devices.instruction_sets import allows_amx
from . import build

S = TypeVar("S", bound=ctypes.Structure)
T = TypeVar("T")

# Weight kinds, as weights.h numbers them. "wide bfloat16" are weights of bfloat16 that are widened
# for inputs in float32, whose products have the same bits in all variants of the kernels.
KINDS = {"float32": 0, "bfloat16": 1, "int8": 2, "wide bfloat16": 3}
ALIGNMENT = 64

# Vectors and rows of the decoder are padded to a multiple of this many floats (``kRowStep``).
ROW_STEP = 16

# Sizes and counts stay below it, so that sums of two, and what is rounded up, are 32-bit numbers.
_LIMIT = 2**30


def whole(value: int, what: str, limit: int = _LIMIT) -> int:
    """Return ``value`` if it fits into the kernels' type, since ctypes would cut off high bits.

    Args:
        value: a size or a count.
        what: its name in the message.
        limit: the value must be below it.

    Raises:
        ConfigError: it is negative, or ``limit`` or more.
    """
    number = operator.index(value)
    if not 0 <= number < limit:
        raise ConfigError(
            f"{what} must be at least 0 and below {limit} for the CPU kernels, not {number}"
        )
    return number


def _fields(kind: Any, names: str) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names.split()]


# By the types of C that hold sizes and counts.
_LIMITS: dict[Any, int] = {c_int: _LIMIT, c_int32: _LIMIT, c_int64: 2**62}


def _checks_numbers(structure: type[S]) -> type[S]:
    """Let a structure check its sizes and counts when they are set; addresses take no call."""
    fields: Any = structure._fields_
    for name, kind in fields:
        if kind in _LIMITS:
            setattr(structure, name, _checked_number(name, getattr(structure, name), _LIMITS[kind]))
    return structure


def _checked_number(name: str, field: Any, limit: int) -> property:
    def set_number(structure: ctypes.Structure, value: int) -> None:
        field.__set__(structure, value if 0 <= value < limit else whole(value, name, limit))

    return property(field.__get__, set_number)


@_checks_numbers
class NativeSizes(ctypes.Structure):
    """``NativeSizes`` of llama.h."""

    _fields_ = [
        *_fields(c_int32, "hidden intermediate layers heads kv_heads head_size num_codebooks"),
        *_fields(c_int32, "block_size audio_tokens queries first_query"),
        *_fields(c_int32, "first_hidden own_hidden first_inner own_inner"),
        ("eps", c_float),
    ]


class NativeLayer(ctypes.Structure):
    """``NativeLayer`` of llama.h."""

    _fields_ = _fields(c_void_p, "qkv out gate up down attention_norm mlp_norm")


@_checks_numbers
class NativeLowRank(ctypes.Structure):
    """``NativeLowRank`` of adapters.h."""

    _fields_ = [*_fields(c_void_p, "down up spans"), *_fields(c_int32, "rank")]


@_checks_numbers
class NativeWeights(ctypes.Structure):
    """``NativeWeights`` of llama.h."""

    _fields_ = [
        ("layers", POINTER(NativeLayer)),
        ("adapters", POINTER(NativeLowRank)),
        *_fields(c_int32, "max_rank"),
        *_fields(c_void_p, "final_norm text_table code_table cosines sines"),
    ]


# ``NativeGather`` of llama.h, and ``NativeGathered``.
Gather = ctypes.CFUNCTYPE(None, c_int32, c_void_p, c_int32, c_int32, c_int32)
ATTENDED, HIDDEN, GATED = range(3)


@_checks_numbers
class NativeBatch(ctypes.Structure):
    """``NativeBatch`` of llama.h."""

    _fields_ = [
        *_fields(c_int32, "rows draws table_width"),
        *_fields(c_void_p, "kinds ids positions tables table_of draw_rows adapter_of"),
        *_fields(c_void_p, "vectors pool hiddens"),
        *_fields(c_void_p, "given passed"),
        ("gather", Gather),
        *_fields(c_void_p, "probe_first probe_layers probe_heads probe_columns probe_starts"),
        *_fields(c_void_p, "probe_out"),
    ]


@_checks_numbers
class NativeConvNeXtBlock(ctypes.Structure):
    """``NativeConvNeXtBlock`` of convnext.h."""

    _fields_ = [
        *_fields(c_void_p, "taps taps_bias norm norm_bias up up_bias down down_bias scale"),
        *_fields(c_int32, "kind channels intermediate kernel dilation"),
        ("eps", c_float),
    ]


@_checks_numbers
class NativeDecoderLayer(ctypes.Structure):
    """``NativeDecoderLayer`` of decoder.h."""

    _fields_ = [
        *_fields(c_int32, "type inputs outputs kernel dilation padding gelu"),
        ("number", c_float),
        *_fields(c_void_p, "matrix weight bias block"),
    ]


@_checks_numbers
class NativeDecoderInput(ctypes.Structure):
    """``NativeDecoderInput`` of decoder.h."""

    _fields_ = [
        *_fields(c_void_p, "kept rows out"),
        ("seen", c_int64),
        *_fields(c_int32, "count last"),
    ]


# Types of layers, as decoder.h numbers them.
CONVOLUTION, NORM, BLOCK, SPECTRUM, OVERLAP = range(5)

# ``NativeDraw`` of sampler.h, as rows of an array.
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

# Bytes of the structures that are given to the kernels, in the order of kernels.cpp.
_BYTES: dict[str, int] = {
    **{
        structure.__name__: ctypes.sizeof(structure)
        for structure in (
            NativeSizes,
            NativeLayer,
            NativeLowRank,
            NativeWeights,
            NativeBatch,
            NativeConvNeXtBlock,
            NativeDecoderLayer,
            NativeDecoderInput,
        )
    },
    "DRAW": DRAW.itemsize,
}

_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "chattts_build": (c_char_p, ()),
    "chattts_structure_bytes": (c_int64, (c_int,)),
    "chattts_panel": (c_int, ()),
    "chattts_team": (c_void_p, (c_int,)),
    "chattts_dismiss": (None, (c_void_p,)),
    "chattts_matrix_bytes": (c_int64, (c_int, c_int, c_int)),
    "chattts_pack": (None, (c_void_p, c_int, c_void_p, c_int, c_int, c_void_p)),
    "chattts_product": (
        None,
        (c_void_p, c_int, c_void_p, c_int, c_void_p, c_int, c_int, c_void_p),
    ),
    "chattts_block_bytes": (c_int64, (c_int, c_int, POINTER(NativeSizes))),
    "chattts_llama": (c_void_p, (c_int, c_int, POINTER(NativeSizes), POINTER(NativeWeights))),
    "chattts_llama_delete": (None, (c_void_p,)),
    "chattts_advance": (
        None,
        (c_void_p, POINTER(NativeDecoderLayer), c_int, POINTER(NativeDecoderInput), c_int),
    ),
    "chattts_forward": (None, (c_void_p, c_void_p, POINTER(NativeBatch))),
    "chattts_sample": (
        None,
        (c_void_p, c_void_p, c_int, c_int, c_int, c_void_p, c_void_p, c_void_p, c_void_p),
    ),
}


class Kernels:
    """The functions of a library, as attributes, which check the sizes and counts that they get.

    Attributes:
        source: the library's content and where it is from.

    Args:
        source: becomes the attribute.
        found: the loaded library.

    Raises:
        AttributeError: it lacks a function.
        TypeError: a structure has another size here than in the sources.
    """

    def __init__(self, source: build.Library, found: ctypes.CDLL) -> None:
        self.source = source
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(found, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, _checked(function, arguments))
        for place, (name, size) in enumerate(_BYTES.items()):
            if (found_size := self.chattts_structure_bytes(place)) != size:
                raise TypeError(
                    f"{name} of library.py has {size} bytes, and its structure in the sources of "
                    f"the CPU kernels {found_size}: give both the same fields"
                )

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AttributeError(f"the CPU kernels have no function {name}")


def _checked(function: Any, arguments: Sequence[Any]) -> Callable[..., Any]:
    limits = [(place, _LIMITS[kind]) for place, kind in enumerate(arguments) if kind in _LIMITS]
    if not limits:
        return cast(Callable[..., Any], function)
    what = f"a number for {function.__name__}"

    def call(*given: Any) -> Any:
        for place, limit in limits:
            if not 0 <= given[place] < limit:
                whole(given[place], what, limit)  # raises
        return function(*given)

    return call


@functools.cache
def load() -> Kernels:
    """Return the kernels of this machine.

    Raises:
        BuildError: they cannot be compiled, or do not load.
        ConfigError: ``CHATTTS_KERNELS`` names a variant that cannot run here.
    """
    return _loaded(build.KERNELS, lambda found: _allowed(Kernels(found, _opened(found))))


@functools.cache
def load_wait() -> Callable[..., int]:
    """Return ``chattts_wait_for`` of wait.h; the kernels beside it are not compiled for it.

    Raises:
        BuildError: it cannot be compiled, or does not load.
        ConfigError: ``CHATTTS_KERNELS`` names a variant that cannot run here.
    """
    function = _loaded(build.WAIT, lambda found: _opened(found).chattts_wait_for)
    function.restype = c_int
    function.argtypes = (c_void_p, c_void_p, c_int, c_double, c_double, c_double)
    return cast(Callable[..., int], function)


def _loaded(source: str, open_library: Callable[[build.Library], T]) -> T:
    found = build.library(source)
    while True:
        try:
            return open_library(found)
        except (OSError, AttributeError) as error:
            if found.new:
                raise build.BuildError(
                    f"the CPU kernels were compiled but do not load ({error}); name another "
                    "compiler in the environment variable CXX"
                ) from error
        # Another system may have kept that one. A library that is compiled now must load.
        found = build.library(source, anew=True)


def _allowed(kernels: Kernels) -> Kernels:
    """Return kernels whose instructions the system lets this process use.

    Raises:
        BuildError: they use AMX by flags in ``CXX``, and the system does not allow it.
    """
    if "AMX" in kernels.chattts_build().decode("ascii") and not allows_amx():
        raise build.BuildError(
            "the CPU kernels were compiled for AMX, which this system does not allow; take AMX out "
            "of the flags in the environment variable CXX"
        )
    return kernels


def _opened(library: build.Library) -> ctypes.CDLL:
    """Load a library, from memory where the system can: changes to its file have no effect then.

    Raises:
        OSError: it does not load.
    """
    if (found := _from_memory(library.code)) is not None:
        return found
    if library.path is not None:
        return ctypes.CDLL(str(library.path))
    with tempfile.TemporaryDirectory(prefix=UNFINISHED, ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "kernels.so"
        path.write_bytes(library.code)
        return ctypes.CDLL(str(path))


def _from_memory(code: bytes) -> ctypes.CDLL | None:
    """Load a library from this process's memory; return None where the system cannot (Linux can).

    The files of a cache may be truncated while they are in use, or lie where nothing may run.
    """
    if not hasattr(os, "memfd_create"):
        return None
    try:
        # Never closed: the loader knows a library by its name, which has this number.
        handle = os.memfd_create("chattts-kernels", os.MFD_CLOEXEC)
    except OSError:
        return None
    try:
        with open(handle, "wb", closefd=False) as file:
            file.write(code)
        return ctypes.CDLL(f"/proc/{os.getpid()}/fd/{handle}")
    except OSError:
        os.close(handle)
        return None


def address(array: Tensor | NDArray[Any]) -> int:
    """Return the address of a contiguous tensor or array, which the caller must keep alive."""
    return array.data_ptr() if isinstance(array, Tensor) else addresses(array)[0]


def addresses(*arrays: NDArray[Any]) -> list[int]:
    """Return the addresses of contiguous arrays, which the caller must keep alive."""
    # `array.ctypes.data` would be three calls of Python for each array.
    found = []
    for array in arrays:
        found.append(array.__array_interface__["data"][0])
    return found


class Team:
    """Threads that compute together; they sleep between calls and end with this object.

    Raises:
        BuildError: there are no kernels here.
        ConfigError: ``size`` is not a positive number of threads, or the system refuses them.
    """

    def __init__(self, size: int) -> None:
        self.size = checked_threads(size)
        self.library = load()
        self.handle = self.library.chattts_team(self.size)
        if self.handle is None:
            raise ConfigError(f"{size} threads cannot be started here: ask for less (num_threads)")
        self.about = self.library.chattts_build().decode("ascii")
        # Not at the interpreter's end, when a daemon thread may still be computing on them.
        weakref.finalize(self, self.library.chattts_dismiss, self.handle).atexit = False

    def advance(
        self, layers: ctypes.Array[NativeDecoderLayer], inputs: Sequence[NativeDecoderInput]
    ) -> None:
        """Take ``inputs`` through ``layers``; no state may be in two of them."""
        self.library.chattts_advance(
            self.handle,
            layers,
            len(layers),
            (NativeDecoderInput * len(inputs))(*inputs),
            len(inputs),
        )

    def pack(self, weight: Tensor, kind: str, into: Tensor) -> None:
        """Pack float32 ``weight`` [outputs, inputs] ``into`` bytes (see :meth:`packed_bytes`)."""
        outputs, inputs = weight.shape
        self.library.chattts_pack(
            self.handle, KINDS[kind], address(weight), outputs, inputs, address(into)
        )

    def packed_bytes(self, kind: str, outputs: int, inputs: int) -> int:
        """Return the bytes of a packed matrix, in whole cache lines."""
        size = int(self.library.chattts_matrix_bytes(KINDS[kind], outputs, inputs))
        return -(-size // ALIGNMENT) * ALIGNMENT

    def product(self, rows: Tensor, packed: Tensor, kind: str, outputs: int) -> Tensor:
        """Multiply float32 ``rows`` [n, inputs] with a packed matrix: float32 [n, outputs]."""
        rows = rows.contiguous()
        n, inputs = rows.shape
        out = torch.empty(n, outputs, dtype=torch.float32, device="cpu")
        self.library.chattts_product(
            self.handle,
            KINDS[kind],
            rows.data_ptr(),
            n,
            packed.data_ptr(),
            outputs,
            inputs,
            out.data_ptr(),
        )
        return out
