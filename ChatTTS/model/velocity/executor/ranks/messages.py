"""Messages between an engine and its ranks, as bytes.

A message is a length, a JSON text of that length, and the bytes of its arrays. Only the types
that are named here can be read. So a message can make nothing but plain data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ....generation import GenerationRequest, Listener
from ....random_numbers import DrawKey, Pass
from ....sampling_params import SamplingParams
from ....tokenizer import Prompt
from ...configs import CacheConfig, EngineConfig, ModelConfig, ParallelConfig, SchedulerConfig
from ...plan import BlockMove, MoveKind, SequenceData, StepPlan, StepResult, Work

_LENGTH_BYTES = 8


@dataclass(frozen=True)
class Start:
    """Load a part of the model.

    Attributes:
        config: the engine's settings.
        rank: the number of the rank.
        address, port: where the ranks find one another.
        threads: threads of the CPU kernels, and of torch.
        device: the rank's device.
    """

    config: EngineConfig
    rank: int
    address: str
    port: int
    threads: int
    device: str


@dataclass(frozen=True)
class Loaded:
    """The model is loaded.

    Attributes:
        version: of this package.
        block_bytes: the rank's part of a block.
        max_blocks: how many the rank's memory holds; of a given size, as many as are useful.
        gives_attention: whether the rank gives the attention of heads.
        about: a description of the kernels.
    """

    version: str
    block_bytes: int
    max_blocks: int
    gives_attention: bool
    about: str


@dataclass(frozen=True)
class Allocate:
    """Allocate the block pools, of the numbers of blocks in ``cache``."""

    cache: CacheConfig


@dataclass(frozen=True)
class Allocated:
    """The pools are there."""


@dataclass(frozen=True)
class Run:
    """Run a plan.

    Attributes:
        drawn: ids that the last stage drew since the last plan, [n, num_codebooks] by the number of
            the sequence; the stages before it do not know them.
    """

    plan: StepPlan
    drawn: Mapping[int, NDArray[np.int64]]


@dataclass(frozen=True)
class Ran:
    """A plan's result; a rank that does not draw first gives no rows."""

    result: StepResult


@dataclass(frozen=True)
class Failed:
    """An error ended the rank.

    Attributes:
        kind: the name of the error's class.
        message: for the caller.
    """

    kind: str
    message: str


@dataclass(frozen=True)
class Alive:
    """The rank's process runs."""


_DATACLASSES: tuple[type[Any], ...] = (
    *(Start, Loaded, Allocate, Allocated, Run, Ran, Failed, Alive),
    *(EngineConfig, ModelConfig, CacheConfig, SchedulerConfig, ParallelConfig),
    *(StepPlan, BlockMove, SequenceData, GenerationRequest, Work, StepResult),
    *(Prompt, SamplingParams, DrawKey, Listener),
)
_ENUMS: tuple[type[Enum], ...] = (MoveKind, Pass)
_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (*_DATACLASSES, *_ENUMS)}
_TORCH = {torch.float32, torch.bfloat16, torch.float16}


def encode(message: Any) -> bytes:
    """Return a message as bytes.

    Raises:
        TypeError: it holds something that no message may hold.
    """
    arrays: list[bytes] = []
    text = json.dumps(_plain(message, arrays), separators=(",", ":")).encode("utf-8")
    return b"".join([len(text).to_bytes(_LENGTH_BYTES, "little"), text, *arrays])


def is_failure(data: bytes) -> bool:
    """Return whether bytes are a :class:`Failed`, without reading them whole."""
    return data[_LENGTH_BYTES:].startswith(b'{"Failed"')


def decode(data: bytes) -> Any:
    """Return the message of :func:`encode`.

    Raises:
        ValueError: the bytes are no message.
    """
    begin = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
    try:
        return _Reader(memoryview(data)[begin:]).value(json.loads(data[_LENGTH_BYTES:begin]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"these bytes are no message of a rank ({error})") from error


def _plain(value: Any, arrays: list[bytes]) -> Any:
    """Return ``value`` in JSON's types, and put the bytes of its arrays into ``arrays``."""
    if value is None or isinstance(value, (bool, float, str)):
        return value
    if isinstance(value, Enum):
        return {type(value).__name__: value.value}
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Path):
        return {"Path": str(value)}
    if isinstance(value, (tuple, list)):
        return [_plain(each, arrays) for each in value]
    if isinstance(value, np.ndarray):
        arrays.append(np.ascontiguousarray(value).tobytes())
        return {"array": [value.dtype.str, list(value.shape)]}
    if isinstance(value, torch.Tensor):
        arrays.append(value.contiguous().view(torch.uint8).numpy().tobytes())
        return {"tensor": [str(value.dtype).removeprefix("torch."), list(value.shape)]}
    if isinstance(value, Mapping):
        return {"mapping": [[key, _plain(each, arrays)] for key, each in value.items()]}
    if is_dataclass(value) and type(value) in _DATACLASSES:
        parts = [_plain(getattr(value, field.name), arrays) for field in fields(value)]
        return {type(value).__name__: parts}
    raise TypeError(f"a message cannot hold a {type(value).__name__}")


class _Reader:
    """Reads values, and their arrays in the order in which they were written."""

    def __init__(self, arrays: memoryview) -> None:
        self._arrays = arrays

    def value(self, plain: Any) -> Any:
        if isinstance(plain, list):
            return tuple(map(self.value, plain))
        if not isinstance(plain, dict):
            return plain
        ((name, given),) = plain.items()
        if name == "array":
            return self._array(np.dtype(given[0]), given[1])
        if name == "tensor":
            return self._tensor(getattr(torch, given[0]), given[1])
        if name == "mapping":
            return {key: self.value(each) for key, each in given}
        if name == "Path":
            return Path(given)
        kind = _KINDS[name]
        return kind(given) if issubclass(kind, Enum) else kind(*map(self.value, given))

    def _array(self, dtype: np.dtype[Any], shape: list[int]) -> NDArray[Any]:
        if dtype.hasobject:
            raise ValueError("an array of objects")
        return np.frombuffer(self._take(dtype.itemsize, shape), dtype=dtype).reshape(shape)

    def _tensor(self, dtype: torch.dtype, shape: list[int]) -> torch.Tensor:
        if dtype not in _TORCH:
            raise ValueError(f"a tensor of {dtype}")
        taken = self._take(dtype.itemsize, shape)
        return (
            torch.frombuffer(taken, dtype=dtype).view(shape)
            if taken
            else torch.empty(shape, dtype=dtype)
        )

    def _take(self, itemsize: int, shape: list[int]) -> bytearray:
        size = itemsize * int(np.prod(shape, dtype=np.int64))
        taken, self._arrays = bytearray(self._arrays[:size]), self._arrays[size:]
        if len(taken) < size:
            raise ValueError("an array is not all there")
        return taken


ALIVE = encode(Alive())
