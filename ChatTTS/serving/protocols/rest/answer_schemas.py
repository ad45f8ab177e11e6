"""The bodies of responses, as the OpenAPI schema shows them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from ....text.tag_names import TagKind
from .body_schemas import FormatName


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
    unrecorded: int = Field(
        description="Launches on a GPU that are not recorded yet; a thread does that behind the "
        "start. Requests are welcome; some steps take longer meanwhile. A number that stays says "
        "that a recording failed: the log tells why. 0 on other devices, and where it is not known."
    )


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
