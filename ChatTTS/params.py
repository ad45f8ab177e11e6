"""What a caller may ask of a request: ``RefineTextParams`` and ``InferCodeParams``.

The names and defaults are those that scripts know. A checkpoint may have defaults of its own;
they apply to the fields that the caller did not name, which is why the classes remember which
ones were named.

Forms and servers build these objects too: pydantic from JSON, others by ``**vars(params)``. What
the published package accepts is therefore accepted, with its meaning: ``None`` for a filter that is
off, say. A value is refused where no meaning can be guessed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np

from .errors import ConfigError, shown

P = TypeVar("P", bound="RefineTextParams")
Q = TypeVar("Q", "RefineTextParams", "InferCodeParams", "LowLatency")

_FLAGS = ("show_tqdm", "ensure_non_empty")

# More tokens than any vocabulary has, and still a number that 32 bits hold.
NO_TOP_K = 2**31 - 1
_LARGEST = 2**31 - 1  # frames or samples that a number of LowLatency may say


class _Named:
    """Remembers the fields that the caller named, outside of ``__dict__``, which is the fields'."""

    __slots__ = ("_named",)
    _named: frozenset[str]


def _remembers(cls: type[P]) -> type[P]:
    """Let the ``__init__`` of a dataclass note which fields it was given."""
    init: Callable[..., None] = cls.__init__
    names = tuple(f.name for f in fields(cls))

    @functools.wraps(init)  # so that the signature is the fields'
    def noting(self: P, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        given = frozenset(names[: len(args)]) | frozenset(kwargs)
        # All at once is a copy, as `**vars(params)` and `replace` make it, and names nothing.
        self._named = frozenset() if len(given) == len(names) else given

    cls.__init__ = noting  # type: ignore[assignment, method-assign]
    return cls


@_remembers
@dataclass(eq=False)
class RefineTextParams(_Named):
    """Settings of the refine pass, which puts breaks and laughs into a text.

    Two objects are equal if they are one, and can be keys of a dict.

    Attributes:
        prompt: control tags behind the text, such as ``[oral_2][laugh_0][break_6]``; ``None`` is
            none.
        top_P: keep the most probable tokens that reach this probability together [0 to 1]; ``None``
            is off.
        top_K: keep this many tokens at most; ``None`` is off.
        temperature: divides the logits; 0 takes the most probable token (greedy).
            Speech takes one float for each codebook as well.
        repetition_penalty: weakens tokens among the last 16; 1 or ``None`` is off.
        max_new_token: most tokens (here) or frames (speech, 46.875 a second) to generate.
        min_new_token: the end is forbidden before this many.
        show_tqdm: show a progress bar.
        ensure_non_empty: retry a row that ends at once, then raise; otherwise give it empty.
        manual_seed: the seed of the draws; ``None`` takes one from torch's global generator.
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
        """The fields that the caller named; one that differs from its default always counts.

        pydantic makes objects without ``__init__``, and then values and later assignments tell.
        """
        return getattr(self, "_named", frozenset()) | {
            f.name for f in fields(self) if not _is(getattr(self, f.name), f.default)
        }

    def with_defaults(self: P, defaults: Mapping[str, Any]) -> P:
        """A checked copy in which ``defaults`` fill the fields that the caller did not name.

        Values with another spelling come out in the one that the model's code knows.
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
        """``values`` without the spellings that forms and JSON have for them."""
        off = {"prompt": "", "top_P": 1.0, "top_K": NO_TOP_K, "repetition_penalty": 1.0}
        spelled = {
            name: off[name] if value is None and name in off else value
            for name, value in values.items()
        }
        for name in ("top_K", "max_new_token", "min_new_token", "manual_seed"):
            spelled[name] = _whole(spelled[name])
        # Python's own values from here on: they are read in threads that serve other callers, where
        # no method of a class of the caller's has any business.
        for name in spelled.keys() - {"temperature"}:  # may be several; `Sampling` reads them
            spelled[name] = _plain(name, spelled[name])
        if isinstance(spelled["min_new_token"], int):
            spelled["min_new_token"] = max(0, spelled["min_new_token"])
        return spelled

    def check(self) -> None:
        """Raise ConfigError for the first value that makes no sense."""
        self._require(str, "text", "prompt")
        self._require(Real, "a number", "top_P", "repetition_penalty")
        self._require(Integral, "a whole number", "top_K", "max_new_token", "min_new_token")
        if self.manual_seed is not None:
            self._require(Integral, "a whole number", "manual_seed")
        temperatures = _temperatures(self.temperature)
        checks = (
            (0 <= self.top_P <= 1, "top_P", "must be between 0 and 1"),
            (self.top_K >= 1, "top_K", "must be at least 1"),
            (all(t >= 0 for t in temperatures), "temperature", "must not be negative"),
            (self.repetition_penalty > 0, "repetition_penalty", "must be above 0"),
            (self.max_new_token >= 1, "max_new_token", "must be at least 1"),
            (
                self.manual_seed is None or -(2**63) <= self.manual_seed < 2**64,
                "manual_seed",
                "must fit into 64 bits",
            ),
        )
        for holds, name, rule in checks:
            if not holds:
                raise ConfigError(f"{name} {rule}, not {shown(getattr(self, name))}")

    def _require(self, kind: type, what: str, *names: str) -> None:
        for name in names:
            if not isinstance(getattr(self, name), kind):
                raise ConfigError(f"{name} must be {what}, not {shown(getattr(self, name))}")


@_remembers
@dataclass(eq=False)
class InferCodeParams(RefineTextParams):
    """Settings of the speech pass, from text to frames of codes.

    Attributes:
        prompt: control tags before the text, such as ``[speed_5]``.
        spk_emb: the speaker: a speaker string, or H floats as a tensor or array.
        spk_smp: a sample prompt string (see ``Chat.sample_audio_speaker``).
        txt_smp: the exact transcript of that sample.
        stream_batch: frames between the chunks of a stream; a whole number above 0, else the
            chunks follow the listener.
        stream_speed: samples of a stream's chunk, likewise.
        pass_first_n_batches: chunks that a stream gathers before the first goes out.
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

    def respelled(self, values: Mapping[str, Any]) -> dict[str, Any]:
        spelled = super().respelled(values)
        usual = {f.name: f.default for f in fields(InferCodeParams)}
        for name in ("stream_batch", "stream_speed"):
            # A stream loses nothing by its chunks: what says no size leaves them to the listener.
            size = _rounded(spelled[name])
            spelled[name] = usual[name] if size is None or size < 1 else size
        first = _rounded(spelled["pass_first_n_batches"])
        spelled["pass_first_n_batches"] = (
            usual["pass_first_n_batches"] if first is None else max(0, first)
        )
        return spelled

    def check(self) -> None:
        super().check()
        for name in ("spk_smp", "txt_smp"):
            if getattr(self, name) is not None:
                self._require(str, "text", name)


@dataclass(frozen=True)
class LowLatency:
    """How a stream begins before its samples are final; see ``docs/streaming.md``.

    A sample depends on sounds that come after it. In this mode the first chunks of a row go out
    when only ``lookahead`` frames behind them are known, and each is faded into the next one.
    Lookahead and chunks grow until the stream is the exact one. All of it is fixed by these
    numbers: the samples depend on nothing else.

    A listener hears no pause if frames come at least ``growth + (growth - 1) * lookahead / first``
    times as fast as they are heard.

    Attributes:
        first: frames of the first chunk (46.875 a second).
        lookahead: frames that are known behind the first chunk.
        growth: of lookahead and chunks, from one chunk to the next.
        largest: frames of a chunk at most.
        fade: samples over which a chunk is faded into the next.
    """

    first: int = 6
    lookahead: int = 6
    growth: float = 1.15
    largest: int = 24
    fade: int = 256

    def __post_init__(self) -> None:
        for name in ("first", "lookahead", "largest", "fade"):
            self._require(name, isinstance(getattr(self, name), Integral), "a whole number")
        self._require("growth", isinstance(self.growth, Real), "a number")
        self._require("first", self.first >= 1, "at least 1")
        self._require("lookahead", self.lookahead >= 1, "at least 1")
        self._require("growth", self.growth > 1, "above 1")
        self._require("largest", self.largest >= self.first, "at least first")
        self._require("fade", 0 <= self.fade <= 256, "between 0 and 256")
        for name in ("first", "lookahead", "growth", "largest"):
            self._require(name, getattr(self, name) <= _LARGEST, f"at most {_LARGEST}")

    def _require(self, name: str, holds: bool, rule: str) -> None:
        if not holds:
            found = shown(getattr(self, name))
            raise ConfigError(f"{name} of LowLatency must be {rule}, not {found}")

    def chunks(self, reach: float) -> Iterator[tuple[int, int]]:
        """The chunks before the exact stream is joined.

        Args:
            reach: frames behind a sample that it depends on.

        Yields:
            How many frames must be there, and how many of them go out, both from the beginning.
        """
        size, lookahead, given = float(self.first), float(self.lookahead), 0
        while lookahead < reach:
            given += int(size)
            yield given + int(lookahead), given
            lookahead *= self.growth
            size = min(size * self.growth, self.largest)


def as_low_latency(value: bool | LowLatency | Mapping[str, Any]) -> LowLatency | None:
    """Accept the object, a dict of its fields, ``True`` for the defaults, ``False`` for none.

    Raises:
        ConfigError: an unknown field, or an object of another kind.
    """
    if isinstance(value, bool):
        return LowLatency() if value else None
    given = as_params(LowLatency, value)
    # Plain numbers: chunks are cut in a thread that serves other callers too.
    return LowLatency(
        **{f.name: _plain(f.name, getattr(given, f.name)) for f in fields(LowLatency)}
    )


def as_params(kind: type[Q], value: Q | Mapping[str, Any] | None) -> Q:
    """Accept params objects, the dicts of older versions, or nothing.

    Raises:
        ConfigError: an unknown key, or an object of another kind.
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
    raise ConfigError(f"expected {kind.__name__} or a dict, not {type(value).__name__}")


def _is(value: Any, default: Any) -> bool:
    """Whether a field has its default; tensors and arrays, which compare item by item, have not."""
    try:
        return isinstance(value, (bool, int, float, str, type(None))) and bool(value == default)
    except Exception:  # of a class of the caller's
        return False


def _whole(value: Any) -> Any:
    """Change a float such as 20.0, which JSON and sliders give, to its whole number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _plain(name: str, value: Any) -> Any:
    """A number, text or flag as Python's own; anything else stays what it is.

    Raises:
        ConfigError: it is of a class that fails, or too large for a float.
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


def _temperatures(given: Any) -> list[float]:
    """The numbers of a temperature.

    Raises:
        ConfigError: it holds something else.
    """
    try:
        values = list(np.atleast_1d(np.array(given, dtype=object)).flat)
        if all(isinstance(value, Real) for value in values):
            return [float(value) for value in values]
    except Exception as error:  # of a class of the caller's, or too large for a float
        raise ConfigError(f"temperature cannot be read ({error})") from error
    raise ConfigError(f"temperature must be a number, or one for each codebook, not {shown(given)}")


def _rounded(value: Any) -> int | None:
    """Round a number down to a whole one; ``None`` if it is none."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None
