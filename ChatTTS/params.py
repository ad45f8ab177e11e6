"""The settings of a request: ``RefineTextParams``, ``InferCodeParams`` and ``LowLatency``.

Names and defaults are those of the published package. A checkpoint may have its own defaults, which
apply to the fields that the caller did not name. Therefore the classes record which fields were
named.

Forms and servers build these objects, too: pydantic from JSON, others by ``**vars(params)``. All
values that the published package accepts are accepted with their meaning there, such as ``None``
for a filter that is off. A value without a clear meaning is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, Generic, TypeVar

import numpy as np

from .errors import ConfigError, shown

P = TypeVar("P", bound="RefineTextParams")
Q = TypeVar("Q", "RefineTextParams", "InferCodeParams", "LowLatency")
N = TypeVar("N", int, float)

# Attributes by which an object of a script's own class is known as parameters.
_MARKS = ("prompt", "top_P", "top_K", "temperature")

_FLAGS = ("show_tqdm", "ensure_non_empty")

# More tokens than any vocabulary has, within 32 bits.
NO_TOP_K = 2**31 - 1
_LARGEST = 2**31 - 1  # most frames or samples of a field of LowLatency


@dataclass(frozen=True)
class NumberRule(Generic[N]):
    """The condition that a number among settings has to meet.

    Attributes:
        kind: of the number.
        wanted: the condition, for error messages.
        holds: whether a number meets it; false for NaN.
    """

    kind: type[N]
    wanted: str
    holds: Callable[[N], bool]

    def read(self, name: str, value: Any) -> N:
        """Return the value of a setting as Python's own number.

        Raises:
            ConfigError: it is not what is wanted; the message has the name.
        """
        fits = isinstance(value, Integral if self.kind is int else Real)
        if not fits:
            noun = "a whole number" if self.kind is int else "a number"
            raise ConfigError(f"{name} must be {noun}, not {shown(value)}")
        try:
            number: N = self.kind(value)
        except Exception as error:  # the number is too large, or of a class of the caller's
            raise ConfigError(f"{name} cannot be read as a number ({error})") from error
        if not self.holds(number):
            raise ConfigError(f"{name} must be {self.wanted}, not {shown(value)}")
        return number


def read_numbers(
    owner: object, rules: Mapping[str, NumberRule[int] | NumberRule[float]], of: str = ""
) -> None:
    """Make the numbers of a new frozen object Python's own, since shared threads read them.

    Args:
        rules: of its fields, by name.
        of: what a message adds to the name of a field.

    Raises:
        ConfigError: a field is not what is wanted.
    """
    for name, rule in rules.items():
        object.__setattr__(owner, name, rule.read(name + of, getattr(owner, name)))


def read_flag(name: str, value: Any) -> bool:
    """Return the value of a setting as true or false.

    Raises:
        ConfigError: it is neither.
    """
    try:
        return bool(value)
    except Exception as error:  # from an array, or a class of the caller's
        raise ConfigError(f"{name} must be true or false, not {shown(value)}") from error


PROBABILITY = NumberRule(float, "between 0 and 1", lambda number: 0 <= number <= 1)
TEMPERATURE = NumberRule(float, "0 or more", lambda number: number >= 0)
FACTOR = NumberRule(float, "above 0", lambda number: number > 0)
COUNT = NumberRule(int, "at least 1", lambda number: number >= 1)
COUNT_OR_NONE = NumberRule(int, "0 or more", lambda number: number >= 0)
_SEED = NumberRule(int, "a number of 64 bits", lambda number: -(2**63) <= number < 2**64)
_RULES: Mapping[str, NumberRule[int] | NumberRule[float]] = {
    "top_P": PROBABILITY,
    "top_K": COUNT,
    "repetition_penalty": FACTOR,
    "max_new_token": COUNT,
    "min_new_token": COUNT_OR_NONE,
}


class _Named:
    """Keeps the names of fields that the caller set, outside of ``__dict__`` with the fields."""

    __slots__ = ("_named",)
    _named: frozenset[str]


def _remembers(cls: type[P]) -> type[P]:
    """Make the ``__init__`` of a dataclass record which fields it was given."""
    init: Callable[..., None] = cls.__init__
    names = tuple(f.name for f in fields(cls))

    @functools.wraps(init)  # keeps the signature with the fields
    def noting(self: P, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        given = frozenset(names[: len(args)]) | frozenset(kwargs)
        # All fields at once are a copy by `**vars(params)` or `replace`, which names none.
        self._named = frozenset() if len(given) == len(names) else given

    cls.__init__ = noting  # type: ignore[assignment, method-assign]
    return cls


@_remembers
@dataclass(eq=False)
class RefineTextParams(_Named):
    """Settings of the refine pass, which inserts breaks and laughs into a text.

    Objects compare by identity, and can be keys of a dict.

    Attributes:
        prompt: control tags after the text, such as ``[oral_2][laugh_0][break_6]``; ``None`` means
            no tags.
        top_P: keep the most probable tokens with this total probability [0 to 1]; ``None`` is off.
        top_K: keep at most this many tokens; ``None`` is off.
        temperature: divides the logits; 0 is greedy. The speech pass also accepts one float for
            each codebook.
        repetition_penalty: makes tokens among the last 16 less probable; 1 or ``None`` is off.
        max_new_token: most tokens (here) or frames (speech, 46.875 a second) to generate.
        min_new_token: the end cannot be drawn before this many.
        show_tqdm: show a progress bar.
        ensure_non_empty: retry an utterance that ends at once, then raise; otherwise it is empty.
        manual_seed: the seed of the draws; ``None`` draws one from torch's global generator.
    """

    prompt: str = ""
    top_P: float = 0.7
    top_K: int = 20
    temperature: float | Sequence[float] = 0.7
    repetition_penalty: float = 1.0
    max_new_token: int = 384
    min_new_token: int = 0
    show_tqdm: bool = True
    ensure_non_empty: bool = True
    manual_seed: int | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        # The generated __init__ sets every field once; a later assignment names the field.
        if name in vars(self):
            self._named = getattr(self, "_named", frozenset()) | {name}
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_named": self.named}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        values = dict(state)
        self._named = values.pop("_named", frozenset())
        vars(self).update(values)

    @property
    def named(self) -> frozenset[str]:
        """The fields that the caller named; those with another value than the default always count.

        pydantic builds objects without ``__init__``; then only values and assignments count.
        """
        return getattr(self, "_named", frozenset()) | {
            f.name for f in fields(self) if not _is(getattr(self, f.name), f.default)
        }

    def with_defaults(self: P, defaults: Mapping[str, Any]) -> P:
        """Return a checked copy, with ``defaults`` in the fields that the caller did not name.

        Alternative spellings of values become the ones that the model's code knows.

        Raises:
            ConfigError: a default is unknown, or a value is invalid.
        """
        known = {f.name for f in fields(self)}
        unknown = set(defaults) - known
        if unknown:
            raise ConfigError(f"defaults name unknown parameters: {', '.join(sorted(unknown))}")
        values = {name: getattr(self, name) for name in known}
        named = self.named
        values.update({k: v for k, v in defaults.items() if k not in named})
        copy = type(self)(**self.respelled(values))
        copy.check()
        return copy

    def respelled(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``values`` with the alternative spellings of forms and JSON replaced."""
        off = {"prompt": "", "top_P": 1.0, "top_K": NO_TOP_K, "repetition_penalty": 1.0}
        spelled = {
            name: off[name] if value is None and name in off else value
            for name, value in values.items()
        }
        for name in ("top_K", "max_new_token", "min_new_token", "manual_seed"):
            spelled[name] = _whole(spelled[name])
        # Plain Python values from here on: shared threads read them, and must not call methods of
        # a caller's own class.
        for name in spelled.keys() - {"temperature"}:  # `SamplingParams` converts the temperatures
            spelled[name] = _plain(name, spelled[name])
        if isinstance(spelled["min_new_token"], int):
            spelled["min_new_token"] = max(0, spelled["min_new_token"])
        return spelled

    def check(self) -> None:
        """Raise ConfigError for the first invalid value."""
        _check_text("prompt", self.prompt)
        for name, rule in _RULES.items():
            rule.read(name, getattr(self, name))
        if self.manual_seed is not None:
            _SEED.read("manual_seed", self.manual_seed)
        for value in _temperatures(self.temperature):
            TEMPERATURE.read("temperature", value)


@_remembers
@dataclass(eq=False)
class InferCodeParams(RefineTextParams):
    """Settings of the speech pass, from text to frames of codes.

    Attributes:
        prompt: control tags before the text, such as ``[speed_5]``.
        spk_emb: the speaker: a speaker string, or H floats as a tensor or array.
        spk_smp: a sample prompt string (see ``Chat.sample_audio_speaker``).
        txt_smp: the exact transcript of that sample.
        stream_batch: frames between the chunks of a stream, a whole number above 0; by default,
            and for other values, the chunks follow the playback.
        stream_speed: samples of a stream's chunk, likewise.
        pass_first_n_batches: batches that a stream collects before its first chunk.
        adapter: the name of a loaded adapter, or ``base`` for the checkpoint alone; ``None`` takes
            the adapter ``default``, if there is one. Without ``spk_emb`` and ``spk_smp`` it speaks
            with the speaker that it was trained with.
    """

    prompt: str = "[speed_5]"
    temperature: float | Sequence[float] = 0.3
    repetition_penalty: float = 1.05
    max_new_token: int = 2048
    spk_emb: Any = None
    spk_smp: str | None = None
    txt_smp: str | None = None
    stream_batch: int = 24
    stream_speed: int = 12000
    pass_first_n_batches: int = 2
    adapter: str | None = None

    def respelled(self, values: Mapping[str, Any]) -> dict[str, Any]:
        spelled = super().respelled(values)
        usual = {f.name: f.default for f in fields(InferCodeParams)}
        for name in ("stream_batch", "stream_speed"):
            # Chunk sizes change no sample, so an invalid size means the default.
            size = _rounded(spelled[name])
            spelled[name] = usual[name] if size is None or size < 1 else size
        first = _rounded(spelled["pass_first_n_batches"])
        spelled["pass_first_n_batches"] = (
            usual["pass_first_n_batches"] if first is None else max(0, first)
        )
        return spelled

    def check(self) -> None:
        super().check()
        for name in ("spk_smp", "txt_smp", "adapter"):
            if getattr(self, name) is not None:
                _check_text(name, getattr(self, name))


@dataclass(frozen=True)
class LowLatency:
    """Settings of a stream that begins before its samples are final; see ``docs/streaming.md``.

    A sample depends on frames that come after it. In this mode the first chunks of a text go out
    when only ``lookahead`` frames after them are known, and each chunk is faded into the next.
    Lookahead and chunks grow until the stream is exact. The samples depend on these numbers only,
    not on timing.

    Playback has no pause if frames are generated at least
    ``growth + (growth - 1) * lookahead / first`` times as fast as they are played.

    Attributes:
        first: frames of the first chunk (46.875 a second).
        lookahead: frames that are known after the first chunk.
        growth: factor of lookahead and chunk size, from one chunk to the next.
        largest: most frames of a chunk.
        fade: samples over which a chunk is faded into the next.
    """

    first: int = 6
    lookahead: int = 6
    growth: float = 1.15
    largest: int = 24
    fade: int = 256

    def __post_init__(self) -> None:
        read_numbers(self, _LOW_LATENCY_RULES, " of LowLatency")
        if self.largest < self.first:
            raise ConfigError(
                f"largest of LowLatency must be at least first, not {self.largest}: first is "
                f"{self.first}"
            )

    def chunks(self, reach: float) -> Iterator[tuple[int, int]]:
        """Yield the chunks before the stream becomes exact.

        Args:
            reach: number of later frames that a sample depends on.

        Yields:
            The frames that must be there, and the frames that go out, both counted from the
            beginning.
        """
        size, lookahead, given = float(self.first), float(self.lookahead), 0
        while lookahead < reach:
            given += int(size)
            yield given + int(lookahead), given
            lookahead *= self.growth
            size = min(size * self.growth, self.largest)


_FRAMES = NumberRule(int, f"at least 1 and at most {_LARGEST}", lambda n: 1 <= n <= _LARGEST)
_LOW_LATENCY_RULES: Mapping[str, NumberRule[int] | NumberRule[float]] = {
    "first": _FRAMES,
    "lookahead": _FRAMES,
    "growth": NumberRule(float, f"above 1 and at most {_LARGEST}", lambda n: 1 < n <= _LARGEST),
    "largest": _FRAMES,
    "fade": NumberRule(int, "between 0 and 256", lambda n: 0 <= n <= 256),
}


def as_low_latency(value: bool | LowLatency | Mapping[str, Any]) -> LowLatency | None:
    """Return the settings for an object, a dict of its fields, or ``True``; None for ``False``.

    Raises:
        ConfigError: a field is unknown, or ``value`` has another type.
    """
    if isinstance(value, bool):
        return LowLatency() if value else None
    given = as_params(LowLatency, value)
    return LowLatency(**{f.name: getattr(given, f.name) for f in fields(LowLatency)})


def as_params(kind: type[Q], value: Q | Mapping[str, Any] | None) -> Q:
    """Return params for an object of ``kind``, a dict of its fields, or ``None``.

    A class of a script's own may have the published fields as attributes.

    Raises:
        ConfigError: a key is unknown, or ``value`` has another type.
    """
    if value is None:
        return kind()
    if isinstance(value, kind):
        return value
    if isinstance(value, Mapping):
        known = {f.name for f in fields(kind)}
        unknown = set(value) - known
        if unknown:
            raise ConfigError(
                f"{kind.__name__} has no {', '.join(sorted(map(str, unknown)))}; "
                f"it has {', '.join(sorted(known))}"
            )
        return kind(**value)
    if not isinstance(value, _Named) and all(hasattr(value, name) for name in _MARKS):
        # All fields at once, so that only those with other values than the defaults are named.
        found: dict[str, Any] = {f.name: getattr(value, f.name, f.default) for f in fields(kind)}
        return kind(**found)
    raise ConfigError(f"expected {kind.__name__} or a dict, not {type(value).__name__}")


def _is(value: Any, default: Any) -> bool:
    """Return whether a field has its default.

    Tensors and arrays never do, because they compare by item.
    """
    try:
        return isinstance(value, (bool, int, float, str, type(None))) and bool(value == default)
    except Exception:  # from a caller's own class
        return False


def _whole(value: Any) -> Any:
    """Return a float such as 20.0, which JSON and sliders give, as an int."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _plain(name: str, value: Any) -> Any:
    """Return a number, text or flag as a plain Python value; other values are unchanged.

    Raises:
        ConfigError: its class fails, or it is too large for a float.
    """
    try:
        if name in _FLAGS:
            return bool(value)
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, Integral):
            return int(value)
        return float(value) if isinstance(value, Real) else value
    except Exception as error:
        raise ConfigError(f"{name} cannot be read ({type(error).__name__}: {error})") from error


def _check_text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise ConfigError(f"{name} must be text, not {shown(value)}")


def _temperatures(given: Any) -> list[Any]:
    """Return the values of a temperature, unchecked."""
    try:
        return list(np.atleast_1d(np.array(given, dtype=object)).flat)
    except Exception as error:  # from a caller's own class
        raise ConfigError(f"temperature cannot be read ({error})") from error


def _rounded(value: Any) -> int | None:
    """Return a number as an int; ``None`` if it is no number."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None
