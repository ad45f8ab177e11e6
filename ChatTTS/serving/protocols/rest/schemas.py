"""The bodies of requests and responses, as the OpenAPI schema shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    create_model,
)

from ....languages import LANGUAGES
from ....request_fields import REQUEST_FIELDS, RequestField, RequestFields, fields_on
from ....text.tag_names import TagKind
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


class Error(BaseModel):
    """An error."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """The response to every request that failed."""

    error: Error


class TimedWord(BaseModel):
    """A word of the text, and when it is spoken."""

    word: str = Field(description="As in the text, without the marks around it.")
    start: float = Field(description="In seconds of the sound.")
    end: float = Field(description="Equal to `start` for a word that was left out.")
    start_character: int = Field(description="Its place in the text, in characters.")
    end_character: int
    confidence: float = Field(description="0 to 1.")


class SpeechFault(BaseModel):
    """A fault of the speech, as the guard found it."""

    kind: Literal["skipped", "cut", "repeated", "tail", "wordless"]
    text: str = Field(description="The words, as in the text; empty for sound without words.")
    words: int = Field(description="How many they are.")
    start: float = Field(description="In seconds of the sound.")
    end: float = Field(description="Equal to `start` for words that are not in the sound.")
    start_character: int = Field(description="Its place in the text, in characters.")
    end_character: int


class RespelledWord(BaseModel):
    """A place of the text where a lexicon was applied."""

    text: str = Field(description="As in the text.")
    saying: str
    start_character: int = Field(description="Its place in the text, in characters.")
    end_character: int


class SubtitleCue(BaseModel):
    """A subtitle."""

    start: float = Field(description="In seconds of the sound.")
    end: float
    lines: list[str] = Field(description="At most two.")


class TimedSpeech(BaseModel):
    """Speech with the times of its words, and subtitles."""

    audio: str = Field(description="Base64.")
    format: FormatName
    sample_rate: int
    seed: int
    duration: float = Field(description="Seconds of the sound.")
    finish_reason: str | None
    words: list[TimedWord]
    cues: list[SubtitleCue]
    faults: list[SpeechFault] | None = Field(None, description="With a guard.")
    retries: int | None = Field(
        None, description="With a guard: how many times sentences were spoken again."
    )
    lexicon: list[RespelledWord] | None = Field(None, description="With a lexicon.")
    left_out: list[str] | None = Field(
        None, description="The letters and words that the voice cannot speak."
    )


class WordTimestamp(BaseModel):
    """A word, with its times in seconds."""

    word: str
    start_time: float
    end_time: float


class CaptionedSpeech(BaseModel):
    """Speech with the times of its words, or a piece of it with those that are known since."""

    audio: str = Field(description="Base64.")
    audio_format: str = Field(description="Its media type.")
    timestamps: list[WordTimestamp] | None


class BatchError(Error):
    """The error of an item."""

    retry_after: float | None


class BatchResult(BaseModel):
    """The result of an item: ``audio`` or ``error``."""

    index: int
    custom_id: str | None
    audio: str | None = Field(default=None, description="Base64.")
    format: FormatName | None = None
    sample_rate: int | None = None
    seed: int | None = None
    voice: str | None = Field(default=None, description="The voice that speaks.")
    seconds: float | None = Field(default=None, description="Length of the speech at tempo 1.")
    finish_reason: str | None = None
    words: list[TimedWord] | None = Field(default=None, description="If they were asked for.")
    faults: list[SpeechFault] | None = Field(default=None, description="With a guard.")
    retries: int | None = Field(
        default=None, description="With a guard: how many times sentences were spoken again."
    )
    lexicon: list[RespelledWord] | None = Field(default=None, description="With a lexicon.")
    left_out: list[str] | None = Field(
        default=None, description="The letters and words that the voice cannot speak."
    )
    error: BatchError | None = None


class BatchAnswer(BaseModel):
    """The results of all items, in the order of the request."""

    object: Literal["list"] = "list"
    data: list[BatchResult]


class RefineAnswer(BaseModel):
    """A text with breaks and laughs."""

    text: str
    utterances: list[str]
    seed: int


class ModelInfo(BaseModel):
    """A model."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str


class ModelList(BaseModel):
    """All names of the model."""

    object: Literal["list"] = "list"
    data: list[ModelInfo]


class SpeechModel(BaseModel):
    """A model by its id."""

    id: str


class SpeechModels(BaseModel):
    """All names of the model, as ids alone."""

    models: list[SpeechModel]


class VoiceEntry(BaseModel):
    """A voice."""

    id: str
    name: str
    object: Literal["audio.voice"] = "audio.voice"
    kind: Literal["speaker", "sample", "alias", "adapter"]
    uploaded: bool
    language: str | None
    stands_for: str | None = Field(None, description="The voice of this list that an alias means.")


class VoiceList(BaseModel):
    """All voices."""

    voices: list[VoiceEntry]
    default: str | None = Field(description="Speaks where a request names no voice.")
    language_defaults: dict[str, str] = Field(
        description="The voices that speak in its place, by the language of the text."
    )


class TagEntry(BaseModel):
    """A control tag that texts may have."""

    tag: str = Field(description="As it is written, such as `[laugh]`.")
    name: str = Field(description="For readers, in English.")
    kind: TagKind = Field(
        description="A pause, a sound between words, or a setting: how the speech is."
    )


class TagList(BaseModel):
    """All control tags that the checkpoint knows in a text."""

    tags: list[TagEntry]


class DeletedVoice(BaseModel):
    """A voice that was deleted."""

    id: str
    object: Literal["audio.voice.deleted"] = "audio.voice.deleted"
    deleted: bool = True


ModelState = Literal["loaded", "unloaded"]
_OF_THE_MODEL = "Whether it is in memory; a request loads a model that was unloaded while idle."


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"
    model: ModelState = Field(description=_OF_THE_MODEL)


class Readiness(BaseModel):
    """The readiness for requests of clients."""

    status: Literal["starting", "ready", "draining", "failed"]
    model: ModelState = Field(description=_OF_THE_MODEL)


class ServiceStatus(BaseModel):
    """The state of the server now."""

    state: Literal["starting", "ready", "draining", "failed"]
    running: int
    waiting: int
    limit: int
    waiting_interactive: int
    waiting_batch: int
    longest_wait: float
    word_times: bool = Field(description="Whether requests may ask for the times of words.")
    max_characters: int = Field(description="The longest text that is accepted.")
    wav_mark: str = Field(
        description="Base64 of the chunk that says in a WAV file that its sound is synthetic, for "
        "clients that write files of sound from a socket; it stands behind the samples. Empty with "
        "`--no-mark`."
    )
    version: str


ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorBody, "description": "The request is invalid."},
    401: {"model": ErrorBody, "description": "The API key is missing or unknown."},
    403: {"model": ErrorBody, "description": "A web page of another origin sent the request."},
    413: {"model": ErrorBody, "description": "The request is too large."},
    429: {"model": ErrorBody, "description": "Too many requests of this client wait."},
    500: {"model": ErrorBody, "description": "The engine failed."},
    503: {"model": ErrorBody, "description": "Too many requests wait, or the engine does not run."},
    "default": {"model": ErrorBody, "description": "Any other error."},
}
NOT_FOUND: dict[int | str, dict[str, Any]] = {
    404: {"model": ErrorBody, "description": "It does not exist."}
}
