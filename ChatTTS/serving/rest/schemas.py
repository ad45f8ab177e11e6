"""The bodies of requests and responses, as the OpenAPI schema shows them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ...audio.tempo import FASTEST, SLOWEST
from ...text.tag_names import TagKind
from ..bodies import Fields
from ..encoding.formats import HIGHEST_RATE, LOWEST_RATE, usual_name
from ..requests import SEED_LIMIT
from ..vendor_voices import is_vendor_voice

AnyName = BeforeValidator(usual_name)
"""Lets the field of a format take its other names, such as ``ogg`` and ``MP3``."""
Sound = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]
FormatName = Annotated[Sound, AnyName]
_MOST_VOLUME = 10.0
_MOST_ITEMS = 2000  # whatever the settings, since validating more takes long


class Body(Fields):
    """Base of request bodies. Unknown fields are ignored: clients send those of other servers."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, protected_namespaces=())


class VoiceId(Body):
    """A voice by its id."""

    id: str


class GenerationOptions(Body):
    """Fields of every request that runs the language model."""

    seed: int | None = Field(
        None,
        ge=-SEED_LIMIT,
        lt=SEED_LIMIT,
        description="The same seed and text give the same speech.",
    )
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=1, lt=SEED_LIMIT)
    language: Literal["en", "zh"] | None = Field(
        None, description="Detected from the text by default."
    )
    lexicon: dict[str, Any] | None = Field(
        None,
        description="Words and how they are said. A word in lower case stands for all its forms; "
        '`{"say": "u s", "exact": true}` in place of a saying is for this spelling alone, and '
        '`{"ipa": "ˈɛndʒɪn"}` (or `x-sampa`, `pinyin`) for a voice that reads phonemes.',
        examples=[{"nginx": "engine x", "US": {"say": "u s", "exact": True}}],
    )
    priority: Literal["interactive", "batch"] = Field(
        "interactive", description="Batch requests wait for interactive ones."
    )
    max_wait: float | None = Field(
        None, ge=0, description="Seconds that the request may wait for its turn."
    )


def _name_of(voice: Any) -> Any:
    """Return a seed of ChatTTS as a name: its clients send numbers."""
    return str(voice) if type(voice) is int and is_vendor_voice(str(voice)) else voice


VoiceName = Annotated[str | VoiceId | None, BeforeValidator(_name_of)]


def voice_id(voice: str | VoiceId | None) -> str | None:
    """Return the voice's name, from either form of the field."""
    return voice.id if isinstance(voice, VoiceId) else voice


class SpeechOptions(GenerationOptions):
    """Fields of every request for speech, except the text."""

    model: str | None = Field(
        None, description="Any name: there is one model, which the header `x-model` tells."
    )
    voice: VoiceName = Field(
        None, description="A name of GET /v1/audio/voices, or a speaker string."
    )
    adapter: str | None = Field(
        None,
        description="A name among the server's adapters, in place of that of the voice; `base` for "
        "none.",
    )
    response_format: FormatName = "mp3"
    sample_rate: int = Field(24_000, ge=LOWEST_RATE, le=HIGHEST_RATE)
    speed: float = Field(1.0, ge=SLOWEST, le=FASTEST, description="Tempo, at the same pitch.")
    refine: bool = Field(False, description="Put breaks and laughs into the text first.")
    low_latency: bool = Field(False, description="Begin before the first samples are final.")
    ref_audio: str | None = Field(
        None,
        description="A recording in base64 to speak like; `voice` does not count then. It needs "
        "`ref_text`.",
    )
    ref_text: str | None = Field(None, description="What the recording says, word for word.")
    timestamp_granularities: list[Literal["word"]] | None = Field(
        None, description="`word` tells when each word is spoken."
    )
    guard: Literal["retry", "report", "none"] | None = Field(
        None,
        description="`report` finds skipped and repeated words; `retry` also speaks a faulty "
        "sentence again, before it is sent. The server has a default.",
    )

    strict: bool = Field(
        False, description="Unknown elements of SSML in the text are an error, not a warning."
    )

    @property
    def word_times(self) -> bool:
        """Return whether the times of the words are wanted."""
        return bool(self.timestamp_granularities)

    @property
    def voice_name(self) -> str | None:
        """The voice's name, from either form of the field."""
        return voice_id(self.voice)


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


class PlainBody(Body):
    """``/tts``."""

    text: str = Field(min_length=1)
    voice: Annotated[str | None, BeforeValidator(_name_of)] = None
    format: FormatName = "wav"
    stream: bool = Field(False, description="Send it while it is spoken; files lack a length then.")
    seed: int | None = Field(None, ge=-SEED_LIMIT, lt=SEED_LIMIT)
    speed: float = Field(1.0, ge=SLOWEST, le=FASTEST)


class CaptionedBody(Body):
    """``POST /dev/captioned_speech``."""

    model: str | None = Field(None, description="Any name, such as kokoro.")
    input: str = Field(min_length=1)
    voice: VoiceName = Field(None, description="A name of GET /v1/audio/voices.")
    response_format: FormatName = "mp3"
    speed: float = Field(1.0, ge=SLOWEST, le=FASTEST)
    stream: bool = Field(True, description="Lines of JSON while it is spoken.")
    return_timestamps: bool = True
    lang_code: str | None = Field(None, description="a, b or en; z or zh.")
    volume_multiplier: float | None = Field(None, ge=0, le=_MOST_VOLUME)
    seed: int | None = Field(None, ge=-SEED_LIMIT, lt=SEED_LIMIT)

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"input": "Hello there.", "stream": False}]}
    )

    @property
    def voice_name(self) -> str | None:
        """The voice's name, from either form of the field."""
        return voice_id(self.voice)


class RefineBody(GenerationOptions):
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
    default: str | None


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
