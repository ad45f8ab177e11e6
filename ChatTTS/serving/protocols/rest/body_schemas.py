"""The bodies of requests, as the OpenAPI schema shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    create_model,
)

from ....config.request_fields import REQUEST_FIELDS, RequestField, RequestFields, fields_on
from ....languages import LANGUAGES
from ...encoding.formats import HIGHEST_RATE, LOWEST_RATE, usual_name
from ...http.bodies import Fields
from ...requests.request import parse_field
from ...requests.vendor_voices import is_vendor_voice

AnyName = BeforeValidator(usual_name)
"""Lets the field of a format take its other names, such as ``ogg`` and ``MP3``."""
Sound = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]
FormatName = Annotated[Sound, AnyName]
B = TypeVar("B", bound="Body")
_MOST_VOLUME = 10.0
_MOST_ITEMS = 2000  # whatever the settings, since validating more takes long


class Body(Fields):
    """Base of request bodies. Unknown fields are ignored: clients send those of other servers."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, protected_namespaces=())

    def request_fields(self) -> RequestFields:
        """Return the fields of requests that the body has.

        Raises:
            BadRequestError: the lexicon cannot be used.
        """
        given = {
            each.name: parse_field(each.name, getattr(self, each.name))
            for each in REQUEST_FIELDS
            if hasattr(self, each.name)
        }
        return RequestFields(**given)


class VoiceId(Body):
    """A voice by its id."""

    id: str


def _name_of(voice: Any) -> Any:
    """Return a seed of ChatTTS as a name: its clients send numbers."""
    return str(voice) if type(voice) is int and is_vendor_voice(str(voice)) else voice


def _id_of(voice: Any) -> Any:
    return voice.id if isinstance(voice, VoiceId) else voice


SeedOrName = Annotated[str | None, BeforeValidator(_name_of)]
VoiceName = Annotated[str | VoiceId | None, BeforeValidator(_name_of), AfterValidator(_id_of)]
_SPOKEN = WithJsonSchema({"type": "string", "enum": [*LANGUAGES]})
# The annotations of fields that take more than a type and bounds say. The languages are checked
# where those of the model are known.
_ANNOTATIONS: dict[str, Any] = {"voice": VoiceName, "language": Annotated[str, _SPOKEN] | None}


def with_fields(interface: str) -> Callable[[type[B]], type[B]]:
    """Return a decorator that adds the fields of an interface to a body.

    A field that the body declares itself stays as it is there.
    """

    def extended(body: type[B]) -> type[B]:
        own: dict[str, Any] = {
            each.name: _declared(each)
            for each in fields_on(interface)
            if each.name not in body.model_fields
        }
        return create_model(
            body.__name__, __base__=body, __module__=body.__module__, __doc__=body.__doc__, **own
        )

    return extended


def _declared(field: RequestField) -> tuple[Any, Any]:
    """Return the annotation and the default of a field, as pydantic takes them."""
    kind: Any = dict[str, Any] if field.kind is dict else field.kind
    if field.choices:
        kind = Literal[field.choices]
    annotation = _ANNOTATIONS.get(field.name, kind if field.default is not None else kind | None)
    examples = None if field.example is None else [field.example]
    about: dict[str, Any] = {"description": field.meaning, "examples": examples}
    if (bounds := field.bounds) is not None:
        about |= {"ge": bounds.least, "gt": bounds.above, "lt": bounds.below, "le": bounds.most}
    return annotation, Field(field.default, **about)


@with_fields("rest")
class SpeechOptions(Body):
    """Fields of every request for speech, except the text."""

    model: str | None = Field(
        None, description="Any name: there is one model, which the header `x-model` tells."
    )
    response_format: FormatName = "mp3"
    sample_rate: int = Field(24_000, ge=LOWEST_RATE, le=HIGHEST_RATE)
    ref_audio: str | None = Field(
        None,
        description="A recording in base64 to speak like; `voice` does not count then. It needs "
        "`ref_text`.",
    )
    ref_text: str | None = Field(None, description="What the recording says, word for word.")
    timestamp_granularities: list[Literal["word"]] | None = Field(
        None, description="`word` tells when each word is spoken."
    )

    @property
    def word_times(self) -> bool:
        """Return whether the times of the words are wanted."""
        return bool(self.timestamp_granularities)


class SpeechBody(SpeechOptions):
    """``POST /v1/audio/speech``."""

    input: str = Field(
        min_length=1,
        description="The text, with control tags such as [laugh]; SSML if it begins with <speak.",
    )
    stream: bool = Field(True, description="False sends a whole file at the end, with its length.")
    stream_format: Literal["audio", "sse"] = "audio"
    instructions: str | None = Field(None, description="Accepted, but has no effect.")

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"model": "chattts", "input": "Hello there.", "voice": "alloy", "seed": 7}]
        }
    )


class BatchItem(SpeechOptions):
    """A text of a batch; the batch gives the values of fields that it leaves out."""

    input: str = Field(min_length=1)
    custom_id: str | None = Field(None, max_length=64)


class BatchBody(SpeechOptions):
    """``POST /v1/audio/speech/batch``."""

    items: list[BatchItem] = Field(min_length=1, max_length=_MOST_ITEMS)
    stream: bool = Field(False, description="Send a line for each item as soon as it is done.")

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "response_format": "wav",
                    "items": [
                        {"custom_id": "one", "input": "Hello there."},
                        {"custom_id": "two", "input": "Good bye.", "seed": 3},
                    ],
                }
            ]
        }
    )


@with_fields("tts")
class PlainBody(Body):
    """``/tts``."""

    text: str = Field(min_length=1)
    voice: SeedOrName = None
    format: FormatName = "wav"
    stream: bool = Field(False, description="Send it while it is spoken; files lack a length then.")


@with_fields("tts")
class CaptionedBody(Body):
    """``POST /dev/captioned_speech``."""

    model: str | None = Field(None, description="Any name, such as kokoro.")
    input: str = Field(min_length=1)
    response_format: FormatName = "mp3"
    stream: bool = Field(True, description="Lines of JSON while it is spoken.")
    return_timestamps: bool = True
    lang_code: str | None = Field(None, description="a, b or en; z or zh.")
    volume_multiplier: float | None = Field(None, ge=0, le=_MOST_VOLUME)

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"input": "Hello there.", "stream": False}]}
    )


@with_fields("refine")
class RefineBody(Body):
    """``POST /v1/audio/refine``."""

    model_config = ConfigDict(
        populate_by_name=True, json_schema_extra={"examples": [{"input": "Hello.", "laugh": 1}]}
    )

    input: str = Field(min_length=1)
    oral: int | None = Field(None, ge=0, le=9, description="How casual.")
    laugh: int | None = Field(None, ge=0, le=2, description="How much laughter.")
    breaks: int | None = Field(None, ge=0, le=7, alias="break", description="How many pauses.")

    @property
    def tags(self) -> str | None:
        """The prompt of the refine pass; ``None`` if no tag is set."""
        named = {"oral": self.oral, "laugh": self.laugh, "break": self.breaks}
        tags = "".join(f"[{tag}_{level}]" for tag, level in named.items() if level is not None)
        return tags or None
