"""The bodies of requests and answers, as the API's description shows them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..encoding.formats import HIGHEST_RATE, LOWEST_RATE
from ..requests import FASTEST, SLOWEST

FormatName = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]
_SEEDS = 2**63
_MOST_ITEMS = 2000  # in any settings: checking the fields of more takes long


class Body(BaseModel):
    """Fields that are not known are left alone: clients send what other servers understand."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, protected_namespaces=())


class VoiceId(Body):
    """A voice by its id."""

    id: str


class GenerationOptions(Body):
    """What the draws of the model depend on."""

    seed: int | None = Field(
        None, ge=-_SEEDS, lt=_SEEDS, description="The same seed and text give the same speech."
    )
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=1, lt=_SEEDS)
    language: Literal["en", "zh"] | None = Field(
        None, description="Found out from the text by default."
    )
    priority: Literal["interactive", "batch"] = Field(
        "interactive", description="Batch requests wait until nobody listens."
    )
    max_wait: float | None = Field(
        None, ge=0, description="Seconds that the request may wait for its turn."
    )


class SpeechOptions(GenerationOptions):
    """How to speak."""

    model: str = Field("chattts", description="Any name of GET /v1/models; all are one model.")
    voice: str | VoiceId | None = Field(
        None, description="A name of GET /v1/audio/voices, or a speaker string."
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

    @property
    def voice_name(self) -> str | None:
        """The voice, whichever way it was named."""
        return self.voice.id if isinstance(self.voice, VoiceId) else self.voice


class SpeechBody(SpeechOptions):
    """``POST /v1/audio/speech``."""

    input: str = Field(min_length=1, description="The text; control tags such as [laugh] count.")
    stream: bool = Field(True, description="False answers when all is there, with its length.")
    stream_format: Literal["audio", "sse"] = "audio"
    instructions: str | None = Field(None, description="Taken, and without effect here.")

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"model": "chattts", "input": "Hello there.", "voice": "alloy", "seed": 7}]
        }
    )


class BatchItem(SpeechOptions):
    """A text of a batch; what it leaves out is taken from the batch."""

    input: str = Field(min_length=1)
    custom_id: str | None = Field(None, max_length=64)


class BatchBody(SpeechOptions):
    """``POST /v1/audio/speech/batch``."""

    items: list[BatchItem] = Field(min_length=1, max_length=_MOST_ITEMS)
    stream: bool = Field(False, description="Answer line by line, each item when it is done.")

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
    voice: str | None = None
    format: FormatName = "wav"
    stream: bool = Field(False, description="Send it while it is spoken; files lack a length then.")
    seed: int | None = Field(None, ge=-_SEEDS, lt=_SEEDS)
    speed: float = Field(1.0, ge=SLOWEST, le=FASTEST)


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
        """The prompt of the refine pass; ``None`` where nothing is asked for."""
        named = {"oral": self.oral, "laugh": self.laugh, "break": self.breaks}
        tags = "".join(f"[{tag}_{level}]" for tag, level in named.items() if level is not None)
        return tags or None


class Error(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """The answer of every request that failed."""

    error: Error


class BatchError(Error):
    """What went wrong with an item."""

    retry_after: float | None


class BatchResult(BaseModel):
    """An item that is done: ``audio`` or ``error``."""

    index: int
    custom_id: str | None
    audio: str | None = Field(default=None, description="Base64.")
    format: FormatName | None = None
    sample_rate: int | None = None
    seed: int | None = None
    seconds: float | None = Field(default=None, description="Of the speech, at the tempo 1.")
    finish_reason: str | None = None
    error: BatchError | None = None


class BatchAnswer(BaseModel):
    """All items, in the order in which they were asked for."""

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
    """The same, shorter."""

    models: list[SpeechModel]


class VoiceEntry(BaseModel):
    """A voice."""

    id: str
    name: str
    object: Literal["audio.voice"] = "audio.voice"
    kind: Literal["speaker", "sample", "alias"]
    uploaded: bool
    language: str | None


class VoiceList(BaseModel):
    """All voices."""

    voices: list[VoiceEntry]
    default: str | None


class DeletedVoice(BaseModel):
    """A voice that is no more."""

    id: str
    object: Literal["audio.voice.deleted"] = "audio.voice.deleted"
    deleted: bool = True


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """Whether requests are welcome."""

    status: Literal["starting", "ready", "draining", "failed"]


class ServiceStatus(BaseModel):
    """What the server does now."""

    state: Literal["starting", "ready", "draining", "failed"]
    running: int
    waiting: int
    limit: int
    waiting_interactive: int
    waiting_batch: int
    longest_wait: float
    version: str


ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorBody, "description": "The request is wrong in itself."},
    401: {"model": ErrorBody, "description": "No key, or an unknown one."},
    403: {"model": ErrorBody, "description": "A page of another host may not ask."},
    413: {"model": ErrorBody, "description": "The request is too long."},
    429: {"model": ErrorBody, "description": "Too many requests of this client wait."},
    500: {"model": ErrorBody, "description": "The engine could not do it."},
    503: {"model": ErrorBody, "description": "Too many wait, or the engine is not there."},
    "default": {"model": ErrorBody, "description": "Any other error."},
}
NOT_FOUND: dict[int | str, dict[str, Any]] = {
    404: {"model": ErrorBody, "description": "It is not here."}
}
