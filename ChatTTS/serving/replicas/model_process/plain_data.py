"""Dataclasses to values of JSON and back; what comes back has the declared types.

Nothing is ever unpickled: a reader builds only the classes that their caller and their fields name.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from ....text.lexicon import Lexicon

T = TypeVar("T")

# Names that a module imports for its types alone.
_NAMES = {"Lexicon": Lexicon}
_PLAIN = (str, int, float, bool, type(None))


class WireError(ValueError):
    """Bytes from the other process are no message."""


def to_plain(value: Any) -> Any:
    """Return a dataclass, a mapping or a sequence as values that JSON has.

    Samples are left out: they travel beside the JSON.

    Raises:
        TypeError: it holds something else.
    """
    kind: Any = type(value)
    if kind in _PLAIN:
        return value
    if _has_fields(kind):
        return {name: to_plain(getattr(value, name)) for name in _names(kind)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(each) for each in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, str):  # such as torch's version
        return str.__str__(value)
    raise TypeError(f"a message cannot hold a {kind.__name__}")


def from_plain(kind: type[T], plain: Any, **samples: Any) -> T:
    """Return the dataclass ``kind`` of values that :func:`to_plain` gave.

    Args:
        samples: the field that was left out, if the class has one.

    Raises:
        WireError: the values are not those of its fields.
    """
    hashable: Any = kind
    try:
        made: T = _reader(hashable)(plain, **samples)
    except (TypeError, ValueError) as error:
        raise WireError(f"no {kind.__name__}: {error}") from error
    return made


def _has_fields(kind: Any) -> bool:
    return is_dataclass(kind)


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind) if each.name != "samples")


@cache
def _reader(kind: Any) -> Callable[..., Any]:
    """Return the function that checks a value of JSON and makes it one of a type."""
    if kind is Any:
        return lambda plain: plain
    if kind is float:
        return _number
    if kind in _PLAIN:
        return lambda plain: _of_type(kind, plain)
    if _has_fields(kind):
        hints = get_type_hints(kind, localns=_NAMES)
        return _of_fields(kind, {name: _reader(hints[name]) for name in _names(kind)})
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, Union):
        [inner] = [_reader(each) for each in arguments if each is not type(None)]
        return lambda plain: None if plain is None else inner(plain)
    if origin is tuple:
        return _of_list(arguments)
    if origin is not None and issubclass(origin, Mapping):
        inner = _reader(arguments[1])
        return lambda plain: {name: inner(each) for name, each in _of_type(dict, plain).items()}
    raise TypeError(f"messages have no fields of type {kind}")


def _of_fields(kind: Any, readers: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    def read(plain: Any, **samples: Any) -> Any:
        if len(_of_type(dict, plain)) != len(readers):
            raise ValueError(f"it has the fields {', '.join(plain)}")
        try:
            given = {name: reader(plain[name]) for name, reader in readers.items()}
        except KeyError as error:
            raise ValueError(f"it lacks {error}") from error
        return kind(**given, **samples)

    return read


def _of_list(arguments: tuple[Any, ...]) -> Callable[..., Any]:
    if arguments[1:] == (...,):
        inner = _reader(arguments[0])
        return lambda plain: tuple(map(inner, _of_type(list, plain)))
    readers = tuple(map(_reader, arguments))

    def read(plain: Any) -> Any:
        pairs = zip(readers, _of_type(list, plain), strict=True)
        return tuple(reader(each) for reader, each in pairs)

    return read


def _of_type(kind: type, plain: Any) -> Any:
    if type(plain) is not kind:  # true is no int
        raise TypeError(f"{kind.__name__} expected, not {type(plain).__name__}")
    return plain


def _number(plain: Any) -> float:
    if type(plain) is int:
        return plain
    return float(_of_type(float, plain))
