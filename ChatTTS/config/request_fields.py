"""The fields of a request for speech: one table, from which every interface takes them.

A field is declared once, in one of the three dataclasses below. The bodies of REST and of
scripts, the settings of the WebSocket, Riva's custom configuration, the arguments of the tools, the
options of the commands, the keys of caches and the table of ``docs/serving/fields.md`` are derived
from its declaration. Only what a field does to the speech stands elsewhere.

Commands import this module for their options, so it imports nothing that takes long.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..text.lexicon import Lexicon

SEED_LIMIT = 2**63
SLOWEST, FASTEST = 0.25, 4.0
"""Bounds of the tempo."""
MOST_SILENCE = 60.0
"""Seconds of silence at an end of a sound, or between two paragraphs."""
LONGEST_DURATION = 600.0
"""The longest time that the speech of a text may be given, with its pauses, in seconds."""
GUARDS = ("retry", "report", "none")
INTERFACES = ("rest", "refine", "scripts", "tts", "websocket", "grpc", "mcp", "command")
"""Interfaces that share names of fields. Protocols of other vendors have names of their own.

``rest`` is ``/v1/audio/speech`` and its batches, ``refine`` the pass alone, ``tts`` the routes with
few fields, ``command`` the sampling of ``say``, ``read`` and ``refine``.
"""


class Priority(IntEnum):
    """Class in the queue: interactive requests go before batch requests."""

    INTERACTIVE = 0
    BATCH = 1


@dataclass(frozen=True)
class Bounds:
    """The bounds of a number; an infinite one is within none.

    Attributes:
        rule: the bounds in words, for errors.
        least, above, below, most: each ``None`` for no such bound.
    """

    rule: str
    least: float | None = None
    above: float | None = None
    below: float | None = None
    most: float | None = None

    def allow(self, value: float) -> bool:
        """Return whether a number is within the bounds."""
        return (
            -math.inf < value < math.inf  # also false for NaN
            and (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
            and (self.most is None or value <= self.most)
        )


@dataclass(frozen=True)
class RequestField:
    """A field of requests.

    Attributes:
        name: in Python, and wherever ``on`` has no other spelling.
        kind: type of its values; ``dict`` for an object of JSON.
        default: ``None`` where a field that is left out is chosen elsewhere.
        meaning: for people who write requests.
        on: the interfaces that have it, and its spelling there.
        parameter: field of ``InferCodeParams`` that it sets; empty for other fields.
        choices: the values of a text.
        bounds: of a number.
        metavar: the value of a command's option.
        example: a value, for schemas.
        elsewhere: further names of it, at other servers, by which errors recognise it.
    """

    name: str
    kind: type
    default: Any
    meaning: str
    on: Mapping[str, str]
    parameter: str = ""
    choices: tuple[str, ...] = ()
    bounds: Bounds | None = None
    metavar: str | None = None
    example: Any = None
    elsewhere: tuple[str, ...] = ()

    @property
    def decides(self) -> bool:
        """Return whether the samples, words and faults of the speech depend on it.

        Those of the voice are the caller's to know, since a name may change its meaning.
        """
        return bool(self.parameter) or self.name in _MANNER

    @property
    def names(self) -> frozenset[str]:
        """All names of it, here and at other servers."""
        return frozenset((self.name, *self.on.values(), *self.elsewhere))

    @property
    def values(self) -> str:
        """The type or the values, for errors about a text or a JSON value."""
        if self.choices:
            return ", ".join(self.choices[:-1]) + f" or {self.choices[-1]}"
        return KIND_NAMES[self.kind]

    @property
    def help(self) -> str:
        """The meaning, as the help of a command has it."""
        return self.meaning[0].lower() + self.meaning[1:].rstrip(".")

    def from_text(self, text: str) -> Any:
        """Return the value of a text, such as ``7`` or ``true``.

        Raises:
            ValueError: it is no such value.
        """
        text = text.strip()
        if self.choices:
            return self.choices[self.choices.index(text.lower())]
        return _BOOLEANS.index(text.lower()) % 2 == 1 if self.kind is bool else self.kind(text)


_BOOLEANS = ("false", "true", "0", "1")
KIND_NAMES = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "an object",
}
# The types of JSON, by the words of annotations.
_KINDS = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "Priority": str,
    "Lexicon": dict,
}


def _field(default: Any, meaning: str, on: str, **others: Any) -> Any:
    """Return a field of a dataclass that carries its description.

    Args:
        default: its value, or a function without arguments that returns it.
        on: interfaces, with a spelling where it differs: ``rest websocket=words``.
    """
    pairs = (pair.partition("=") for pair in on.split())
    about = {"meaning": meaning, "on": {name: spelling for name, _, spelling in pairs}, **others}
    if callable(default):
        return dataclasses.field(default_factory=default, metadata=about)
    return dataclasses.field(default=default, metadata=about)


_SILENCE = Bounds(f"0 to {MOST_SILENCE:g} seconds", least=0, most=MOST_SILENCE)


def _empty_lexicon() -> Lexicon:
    from ..text.lexicon import Lexicon

    return Lexicon()


@dataclass(frozen=True, kw_only=True)
class Draws:
    """The fields of the draws, and the tempo, which the encoder applies."""

    seed: int | None = _field(
        None,
        "The same seed and text give the same speech.",
        "rest refine scripts tts websocket grpc mcp command",
        parameter="manual_seed",
        bounds=Bounds("a number of 64 bits", least=-SEED_LIMIT, below=SEED_LIMIT),
        metavar="N",
    )
    temperature: float | None = _field(
        None,
        "Sampling temperature; lower is steadier, higher is livelier.",
        "rest refine scripts websocket grpc command",
        parameter="temperature",
        bounds=Bounds("0 to 2", least=0, most=2),
        metavar="T",
    )
    top_p: float | None = _field(
        None,
        "Sample from the most probable tokens with this total probability (above 0, at most 1).",
        "rest refine scripts websocket grpc command",
        parameter="top_P",
        bounds=Bounds("above 0 and at most 1", above=0, most=1),
        metavar="P",
    )
    top_k: int | None = _field(
        None,
        "Sample from the K most probable tokens (at least 1).",
        "rest refine scripts websocket grpc command",
        parameter="top_K",
        bounds=Bounds("at least 1, and a number of 64 bits", least=1, below=SEED_LIMIT),
        metavar="K",
    )
    speed: float = _field(
        1.0,
        "Tempo, at the same pitch.",
        "rest tts websocket grpc mcp",
        bounds=Bounds(f"{SLOWEST} to {FASTEST}", least=SLOWEST, most=FASTEST),
    )


@dataclass(frozen=True, kw_only=True)
class CallManner:
    """The fields that are arguments of ``Chat.infer`` and ``Chat.stream`` as well, as they are."""

    guard: str | None = _field(
        None,
        "`report` finds skipped and repeated words; `retry` also speaks a faulty sentence again, "
        "before it is sent.",
        "rest scripts websocket grpc command=--guard",
        choices=GUARDS,
    )
    word_times: bool = _field(
        False,
        "Tell when each word is spoken.",
        "rest=timestamp_granularities websocket grpc=enable_word_time_offsets command=--subtitles",
    )
    silence_before: float | None = _field(
        None,
        "Silence before the first audible sample; as the voice speaks it by default.",
        "rest scripts tts websocket grpc mcp command=--silence-before",
        bounds=_SILENCE,
    )
    silence_after: float | None = _field(
        None,
        "Silence after the last audible sample; as the voice speaks it by default.",
        "rest scripts tts websocket grpc mcp command=--silence-after",
        bounds=_SILENCE,
    )
    paragraph_pause: float | None = _field(
        None,
        "Silence between two paragraphs, which a blank line divides; as the voice pauses by "
        "default.",
        "rest tts websocket grpc mcp command=--paragraph-pause",
        bounds=_SILENCE,
    )
    may_be_late: bool = _field(
        False,
        "Speak as short as can be what does not fit its duration; an error by default.",
        "rest websocket grpc",
    )


@dataclass(frozen=True, kw_only=True)
class Manner(CallManner):
    """The fields that change how a text is spoken, and that travel to the engine as they are."""

    refine: bool = _field(
        False,
        "Put breaks and laughs into the text first.",
        "rest websocket grpc command=--refine",
    )
    low_latency: bool = _field(
        False,
        "Begin before the first samples are final.",
        "rest websocket grpc command=--low-latency",
    )
    language: str | None = _field(
        None,
        "Detected from the text by default.",
        "rest refine scripts websocket grpc=language_code command=--lang",
        elsewhere=("lang", "lang_code", "locale"),
    )
    lexicon: Lexicon = _field(  # noqa: RUF009
        _empty_lexicon,
        "Words and how they are said. A word in lower case stands for all its forms; "
        '`{"say": "u s", "exact": true}` in place of a saying is for this spelling alone, and '
        '`{"ipa": "ˈɛndʒɪn"}` (or `x-sampa`, `pinyin`) for a voice that reads phonemes.',
        "rest refine scripts websocket grpc=custom_dictionary command=--lexicon",
        example={"nginx": "engine x", "US": {"say": "u s", "exact": True}},
    )
    duration: float | None = _field(
        None,
        "Seconds that the speech of the text shall take, exact to the sample.",
        "rest websocket grpc command=--duration",
        bounds=Bounds(
            f"seconds above 0 and at most {LONGEST_DURATION:g}", above=0, most=LONGEST_DURATION
        ),
    )


@dataclass(frozen=True, kw_only=True)
class RequestFields(Manner, Draws):
    """The fields of a request that interfaces share; ``SpeechRequest`` is made of them."""

    voice: str | None = _field(
        None,
        "A name of GET /v1/audio/voices, or a speaker string.",
        "rest scripts tts websocket grpc=voice_name mcp command=--voice",
        elsewhere=("voice_id", "speaker", "speaker_id"),
    )
    adapter: str | None = _field(
        None,
        "A name among the server's adapters, in place of that of the voice; `base` for none.",
        "rest command=--adapter",
    )
    priority: Priority = _field(  # noqa: RUF009
        Priority.INTERACTIVE,
        "Batch requests wait for interactive ones.",
        "rest refine websocket grpc",
        choices=("interactive", "batch"),
    )
    max_wait: float | None = _field(
        None,
        "Seconds that the request may wait for its turn.",
        "rest refine",
        bounds=Bounds("seconds, 0 or more", least=0),
    )
    strict: bool = _field(
        False,
        "What would be left out, such as an unknown element of SSML, is an error.",
        "rest scripts command=--strict",
    )


def kind_of(field: dataclasses.Field[Any]) -> type:
    """Return the type of a field's values in JSON."""
    return _KINDS[str(field.type).partition(" ")[0]]


def _described(field: dataclasses.Field[Any]) -> RequestField:
    default = None if field.default is dataclasses.MISSING else field.default
    if isinstance(default, Priority):
        default = default.name.lower()
    on = {name: spelling or field.name for name, spelling in field.metadata["on"].items()}
    return RequestField(field.name, kind_of(field), default, **{**field.metadata, "on": on})


_MANNER = frozenset(field.name for field in dataclasses.fields(Manner))
REQUEST_FIELDS = tuple(_described(field) for field in dataclasses.fields(RequestFields))
"""The table."""


def fields_on(interface: str) -> tuple[RequestField, ...]:
    """Return the fields that an interface has under their own names."""
    return tuple(field for field in REQUEST_FIELDS if field.on.get(interface) == field.name)


_TEXT = RequestField(
    "text",
    str,
    None,
    "What to speak.",
    on={"rest": "input", "refine": "input", "scripts": "script"},
    elsewhere=("transcript", "utterance"),
)
_MOST_NAMES, _LONGEST_NAME = 100, 64  # that are compared by their letters
_SIMILAR = 0.7  # the ratio of difflib: `imput` and `input` have 0.8, `file` and `title` 0.67


def similar_name(name: str, others: Iterable[str]) -> str | None:
    """Return the one of ``others`` that most likely is the field ``name``; ``None`` for none.

    Another name of that field, such as ``text`` for ``input``, comes before one of similar letters.
    """
    others = tuple(others)
    for each in (_TEXT, *REQUEST_FIELDS):
        if name in each.names and (same := [other for other in others if other in each.names]):
            return same[0]
    from difflib import get_close_matches

    short = [other for other in others if len(other) <= _LONGEST_NAME][:_MOST_NAMES]
    return next(iter(get_close_matches(name[:_LONGEST_NAME], short, 1, _SIMILAR)), None)


def misnamed(field: str, given: Iterable[str]) -> str | None:
    """Return the error of a missing field that was given by another name; ``None`` if it was not.

    Args:
        given: the names of the fields that were given.
    """
    name = similar_name(field, given)
    return None if name is None else f"{name[:40]!r} is no field; did you mean {field!r}?"
