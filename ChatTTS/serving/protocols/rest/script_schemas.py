"""The bodies of requests and responses about scripts, as the OpenAPI schema shows them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ....config.request_fields import SEED_LIMIT
from .answer_schemas import Error
from .body_schemas import AnyName, Body, with_fields

ScriptFormat = Literal[
    "plain", "markdown", "dialogue", "srt", "vtt", "ass", "cues", "ssml", "lines", "epub"
]
SoundName = Annotated[Literal["m4b", "m4a", "mp3", "flac", "opus", "wav"], AnyName]
SubtitleName = Literal["srt", "vtt", "ass", "lrc", "json"]
State = Literal["queued", "running", "done", "failed"]
_LONGEST_PAUSE = 600


class ScriptPauses(Body):
    """Seconds of silence between two parts."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    phrase: float | None = Field(None, ge=0, le=_LONGEST_PAUSE)
    sentence: float | None = Field(None, ge=0, le=_LONGEST_PAUSE)
    line: float | None = Field(None, ge=0, le=_LONGEST_PAUSE)
    paragraph: float | None = Field(None, ge=0, le=_LONGEST_PAUSE)
    chapter: float | None = Field(None, ge=0, le=_LONGEST_PAUSE)


@with_fields("scripts")
class ScriptOptionsBody(Body):
    """Fields of ``POST /v1/audio/scripts`` beside the script itself."""

    model_config = ConfigDict(populate_by_name=True)

    format: ScriptFormat | None = Field(
        None, description="Of the script; by default its name and its text tell it."
    )
    response_format: SoundName = "mp3"
    loudness: float | Literal["audiobook", "off"] | None = Field(
        None, description="Integrated loudness in LUFS, -16 by default; audiobook is -19."
    )
    pauses: ScriptPauses | None = None
    voice: str | None = Field(None, description="Voice of the lines that name none.")
    voices: dict[str, str | dict[str, Any]] | None = Field(
        None,
        description="Voices of the names in the script; an object may have `voice`, `speed`, "
        "`tempo`, `temperature`, `oral`, `laugh`, `breaks` and `seed`.",
        examples=[{"Anna": "alloy", "Bob": {"voice": "echo", "tempo": 1.1}}],
    )
    seed: int | None = Field(None, ge=0, lt=SEED_LIMIT, description="0 by default.")
    subtitles: SubtitleName | None = Field(None, description="Also make subtitles.")
    notes: Literal["skip", "end", "inline"] | None = Field(
        None,
        description="Where footnotes and endnotes are spoken: nowhere (the default), at the end of "
        "their chapter, or after the sentence.",
    )
    first: str | None = Field(None, alias="from", description="First chapter: number or title.")
    last: str | None = Field(None, alias="to", description="Last chapter.")
    title: str | None = Field(None, max_length=500)
    author: str | None = Field(None, max_length=500)
    fastest: float | None = Field(
        None, ge=1, le=2, description="The most that a subtitle is sped up to fit its time; 1.5."
    )
    fit: bool | None = Field(
        None, description="Speak each subtitle exactly as long as it is shown."
    )
    late: Literal["shift", "overlap", "cut", "tempo"] | None = Field(
        None,
        description="What becomes of a line that does not fit its duration: later lines are "
        "shifted (the default) or overlapped, it is cut, or its tempo is raised.",
    )
    steady: Literal["retry", "report"] | None = Field(
        None,
        description="Compare voice, loudness and pace of each sentence with what is usual for its "
        "voice; `retry` speaks a sentence again that leaves it.",
    )


class ScriptBody(ScriptOptionsBody):
    """``POST /v1/audio/scripts`` as JSON."""

    script: str | list[Any] = Field(
        description="The text in its format; or lines, objects with `text`, and perhaps `voice`, "
        "`pause` in seconds, `style` and `chapter`."
    )
    name: str | None = Field(None, description="Name of the script, for messages and its format.")

    model_config = ConfigDict(
        populate_by_name=True,
        json_schema_extra={
            "examples": [
                {
                    "script": [
                        {"voice": "Anna", "text": "Did you lock the door?", "pause": 0.4},
                        {"voice": "Bob", "text": "I was sure that you had done it."},
                    ],
                    "voices": {"Anna": "alloy", "Bob": "echo"},
                    "response_format": "m4b",
                }
            ]
        },
    )


class ScriptForm(ScriptOptionsBody):
    """``POST /v1/audio/scripts`` as a form: objects are given as JSON."""

    file: bytes = Field(
        description="The script: .txt, .md, .srt, .vtt, .ass, .ssml, .jsonl or .epub.",
        json_schema_extra={"format": "binary"},
    )


class ScriptProgress(BaseModel):
    """The progress of a script."""

    lines: int = Field(description="Lines that were spoken, in order.")
    lines_total: int
    seconds: float = Field(description="Seconds of sound that these lines give.")


class ScriptResult(BaseModel):
    """The result of a script: its sound, counted."""

    seconds: float
    bytes: int
    chapters: int


class ScriptError(Error):
    """The error that ended a script."""

    file: str | None = None
    line: int | None = None


class ScriptInfo(BaseModel):
    """A script, and how far it is."""

    id: str
    object: Literal["audio.script"] = "audio.script"
    state: State
    created_at: int = Field(description="Seconds since 1970.")
    finished_at: int | None
    expires_at: int | None = Field(description="When a script that is done or failed is deleted.")
    name: str
    response_format: SoundName
    subtitles: SubtitleName | None
    progress: ScriptProgress
    warnings: list[str]
    error: ScriptError | None
    result: ScriptResult | None


class ScriptList(BaseModel):
    """The scripts of a client, the oldest first."""

    object: Literal["list"] = "list"
    data: list[ScriptInfo]


class DeletedScript(BaseModel):
    """A script that was cancelled or forgotten."""

    id: str
    object: Literal["audio.script.deleted"] = "audio.script.deleted"
    deleted: bool = True
