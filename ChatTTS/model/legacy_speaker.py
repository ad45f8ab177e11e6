"""Speakers of old versions: ``.pt`` files with one tensor, read without unpickling.

Such a file is a zip archive. A pickle in it describes the tensor, and another member has its bytes.
Unpickling could allocate any amount of memory, even if only harmless classes were allowed. So this
module interprets the few opcodes by itself, with plain values, and reads only bytes that the file
has.
"""

from __future__ import annotations

import io
import math
import pickletools
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor

from ..errors import VoiceError, shown
from ..utils.untrusted import read_bytes

# A speaker has a few kilobytes. A slice of a larger tensor is saved with all of that tensor.
_MAX_BYTES = 16 << 20
_MAX_OPCODES = 1000

_DTYPES = {
    "DoubleStorage": torch.float64,
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
}


class _Name(NamedTuple):
    """A global name in a pickle; it is never imported."""

    module: str
    name: str


class _Stored(NamedTuple):
    """A storage: the dtype of its values, and the key of its member in the archive."""

    dtype: torch.dtype
    key: str


class _View(NamedTuple):
    """A tensor as a part of a storage."""

    stored: _Stored
    offset: int
    size: tuple[int, ...]


class _UnreadableError(Exception):
    """A file is no saved speaker tensor; the message has the reason."""


def read_legacy_speaker(path: Path) -> Tensor:
    """Read a speaker tensor from an old ``.pt`` file.

    Raises:
        VoiceError: the file is missing, or is not one tensor of floats.
    """
    try:
        content = read_bytes(path, _MAX_BYTES)
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _tensor(archive)
    except OSError as error:
        raise VoiceError(f"{path} cannot be read: {error.strerror or error}") from error
    except _UnreadableError as error:
        raise VoiceError(f"{path} is not a saved speaker tensor: {error}") from None
    except Exception as error:  # zipfile and pickletools raise many kinds for damaged files
        raise VoiceError(f"{path} is not a saved speaker tensor ({error})") from error


def _tensor(archive: zipfile.ZipFile) -> Tensor:
    """Return the only tensor of an archive."""
    pickles = [name for name in archive.namelist() if name.endswith("/data.pkl")]
    if len(pickles) != 1:
        _fail("it holds no tensor")
    folder = pickles[0].removesuffix("data.pkl")
    names = archive.namelist()
    if f"{folder}byteorder" in names and _member(archive, f"{folder}byteorder") != b"little":
        _fail("its bytes are in the order of another machine")
    view = _described(_member(archive, pickles[0]))
    data = _member(archive, f"{folder}data/{view.stored.key}")
    dtype = view.stored.dtype
    if not data or len(data) % dtype.itemsize:
        _fail("its values are cut off")
    values = torch.frombuffer(bytearray(data), dtype=dtype)
    count = math.prod(view.size)
    if not 0 < count <= len(values) - view.offset:
        _fail(f"it promises values of the shape {shown(view.size)} that it does not have")
    return values[view.offset : view.offset + count].reshape(view.size).clone()


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return the bytes of a member, uncompressed: a compressed one could expand without limit."""
    member = archive.getinfo(name)
    if member.compress_type != zipfile.ZIP_STORED or member.file_size > _MAX_BYTES:
        _fail(f"its {name} is compressed")
    return archive.read(member)


def _fail(what: str) -> NoReturn:
    raise _UnreadableError(what)


# ---------------------------------------------------------------- the pickle


def _described(pickle: bytes) -> _View:
    """Return the tensor that a pickle describes."""
    interpreter = _PickleInterpreter()
    for number, (opcode, argument, _) in enumerate(pickletools.genops(pickle)):
        if number == _MAX_OPCODES:
            _fail("it says more than a tensor needs")
        if opcode.name == "STOP":
            break
        interpreter.step(opcode.name, argument)
    result = interpreter.stack[-1] if interpreter.stack else None
    if not isinstance(result, _View):
        _fail(f"it holds a {type(result).__name__}, not a tensor of floats")
    return result


_MARK = object()


class _PickleInterpreter:
    """Interprets the opcodes of a saved tensor, without imports or calls.

    Attributes:
        stack: the values so far.
    """

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def step(self, name: str, argument: Any) -> None:
        """Interpret one opcode."""
        if name in ("PROTO", "FRAME"):
            return
        if name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _VALUES:
            self.stack.append(argument)
        elif name == "GLOBAL":
            self.stack.append(_Name(*str(argument).split(" ", 1)))
        elif name == "STACK_GLOBAL":
            self.stack[-2:] = [_Name(str(self.stack[-2]), str(self.stack[-1]))]
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = self.stack[-1]
        elif name in ("BINPUT", "LONG_BINPUT"):
            self._memo[argument] = self.stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            self.stack.append(self._memo[argument])
        elif name == "MARK":
            self.stack.append(_MARK)
        elif name == "TUPLE":
            start = len(self.stack) - 1 - self.stack[::-1].index(_MARK)
            self.stack[start:] = [tuple(self.stack[start + 1 :])]
        elif name in _TUPLES:
            start = len(self.stack) - _TUPLES[name]
            self.stack[start:] = [tuple(self.stack[start:])]
        elif name == "BINPERSID":
            self.stack.append(_storage(self.stack.pop()))
        elif name == "REDUCE":
            arguments, function = self.stack.pop(), self.stack.pop()
            self.stack.append(_made(function, arguments))
        else:
            _fail(f"it holds more than a tensor ({name})")


_CONSTANTS: Mapping[str, Any] = {
    "NONE": None,
    "NEWTRUE": True,
    "NEWFALSE": False,
    "EMPTY_TUPLE": (),
}
_VALUES = ("BINUNICODE", "SHORT_BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1")
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def _storage(said: Any) -> _Stored:
    """Return the storage of a persistent id, which has its type, member, device and length."""
    kind, name, key = said[:3]
    if kind != "storage" or not isinstance(name, _Name) or name.name not in _DTYPES:
        _fail(f"its values are {shown(name)}, not floats")
    if not str(key).isalnum():
        _fail("its values have no member")
    return _Stored(_DTYPES[name.name], str(key))


def _made(function: Any, arguments: Any) -> Any:
    """Return the result of a call; only the three of a saved tensor are known."""
    known: Mapping[_Name, Callable[..., Any]] = {
        _Name("torch._utils", "_rebuild_tensor_v2"): _view,
        _Name("torch._utils", "_rebuild_parameter"): lambda view, *_: view,
        _Name("collections", "OrderedDict"): tuple,
    }
    if function not in known:
        _fail(f"it calls {shown(function)}")
    return known[function](*arguments)


def _view(stored: Any, offset: Any, size: Any, stride: Any, *_: Any) -> _View:
    """Return a contiguous tensor."""
    numbers = (offset, *size, *stride)
    if not isinstance(stored, _Stored) or not all(type(n) is int and n >= 0 for n in numbers):
        _fail("its tensor is damaged")
    expected = [math.prod(size[axis + 1 :]) for axis in range(len(size))]
    # The stride of an axis with one value has no meaning.
    if any(
        n != 1 and found != wanted for n, found, wanted in zip(size, stride, expected, strict=True)
    ):
        _fail("its values do not follow one another")
    return _View(stored, offset, tuple(size))
