"""The options of a script, checked; plain data, so that they are kept with the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...audio.subtitles import SUBTITLE_FORMATS
from ...config.request_fields import RequestFields, fields_on
from ...errors import AudioError, ConfigError
from ...longform.files import SCRIPT_FORMATS
from ...longform.loudness import LoudnessMeter
from ...longform.notes import NOTES
from ...longform.script import ScriptError
from ...longform.settings import (
    AUDIOBOOK,
    STEADINESS,
    Late,
    Loudness,
    Pauses,
    ReadSettings,
    Role,
    parse_roles,
)
from ...longform.sound_file import WORK_FORMATS, check_format
from ..errors import BadRequestError
from ..requests.request import parse_field

# Names of the formats of subtitles, which are one format here.
_CUES = ("srt", "vtt", "ass")
_MOST_ROLES = 1000
SCRIPT_FORMAT_NAMES = (*SCRIPT_FORMATS, *_CUES)
"""Values of the option ``format``."""


@dataclass(frozen=True, kw_only=True)
class ScriptOptions(RequestFields):
    """The reading of a script, and the work that is made of it.

    ``request_fields`` describes the fields that are not listed here.

    Attributes:
        format: of the script, one of ``SCRIPT_FORMATS``; ``None`` looks at its name and text.
        response_format: ending of the sound file, one of ``WORK_FORMATS``.
        loudness: of the work; ``None`` leaves the samples as the model gives them.
        pauses: between the parts.
        voice: of lines that name none; ``None`` means the server's default voice.
        roles: voices by the names in the script.
        seed: of all lines that name none.
        subtitles: format of the subtitles; ``None`` for none.
        notes: where notes are spoken: ``skip``, ``end`` (of the chapter) or ``inline``.
        first, last: chapters, by number or title.
        title, author: of the work, in place of the script's own.
        fastest: the most that a cue is sped up to end before the next one.
        fit: speak each cue exactly as long as it is shown.
        late: what becomes of a line that cannot be spoken in its duration.
        steady: ``retry`` or ``report``: what becomes of utterances that leave what is usual for
            their voice.
    """

    format: str | None = None
    response_format: str = "mp3"
    loudness: Loudness | None = field(default_factory=Loudness)
    pauses: Pauses = field(default_factory=Pauses)
    roles: Mapping[str, Role] = field(default_factory=dict)
    seed: int = 0
    subtitles: str | None = None
    notes: str = "skip"
    first: str | None = None
    last: str | None = None
    title: str | None = None
    author: str | None = None
    fastest: float = 1.5
    fit: bool = False
    late: Late = Late.SHIFT
    steady: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> ScriptOptions:
        """Return the options of a client's fields; a field that is ``None`` was left out.

        Raises:
            BadRequestError: a field cannot be used, or a package for it is missing.
        """
        fields = {name: value for name, value in given.items() if value is not None}
        kind = fields.get("format")
        kind = "cues" if kind in _CUES else kind
        _check_choice("format", kind, SCRIPT_FORMATS)
        ending = fields.get("response_format", cls.response_format)
        _check_choice("response_format", ending, WORK_FORMATS)
        subtitles = fields.get("subtitles")
        _check_choice("subtitles", subtitles, SUBTITLE_FORMATS)
        _check_choice("notes", fields.get("notes"), NOTES)
        _check_choice("late", fields.get("late"), tuple(each.value for each in Late))
        _check_choice("steady", fields.get("steady"), STEADINESS)
        plain = {n: fields[n] for n in _PLAIN if n in fields}
        plain |= {n: parse_field(n, fields[n]) for n in _OF_REQUESTS if n in fields}
        plain["late"] = Late(fields.get("late", Late.SHIFT))
        if plain.get("guard") == "none":
            plain["guard"] = None
        try:
            options = cls(
                format=kind,
                response_format=ending,
                loudness=_loudness(fields.get("loudness", "")),
                pauses=_pauses(fields.get("pauses", {})),
                roles=_roles(fields.get("voices", {})),
                subtitles=subtitles,
                **plain,
            )
            options.reading()
            check_format(ending)
            if options.loudness is not None:
                LoudnessMeter()
        except (ConfigError, AudioError) as error:
            raise BadRequestError(str(error)) from error
        return options

    def reading(self) -> ReadSettings:
        """Return the settings that the recording uses.

        Raises:
            ConfigError: they are not valid.
        """
        return ReadSettings(
            pauses=self.pauses,
            seed=self.seed,
            word_times=self.subtitles is not None,
            guard=self.guard,
            fastest=self.fastest,
            fit=self.fit,
            late=self.late,
            steady=self.steady,
            silence_before=self.silence_before,
            silence_after=self.silence_after,
        )


_PLAIN = ("notes", "first", "last", "title", "author", "fastest", "fit", "steady")
_OF_REQUESTS = tuple(each.name for each in fields_on("scripts"))


def _check_choice(name: str, value: Any, known: tuple[str, ...]) -> None:
    if value is not None and value not in known:
        raise BadRequestError(f"{name} must be one of {', '.join(known)}", param=name)


def _loudness(given: Any) -> Loudness | None:
    if given == "":
        return Loudness()
    if given == "off":
        return None
    if given == "audiobook":
        return AUDIOBOOK
    try:
        return Loudness(float(given))
    except (ValueError, TypeError) as error:  # ConfigError is a ValueError
        raise BadRequestError(
            "loudness must be LUFS from -40 to -5, audiobook or off", param="loudness"
        ) from error


def _pauses(given: Mapping[str, Any]) -> Pauses:
    try:
        return Pauses(**given)
    except ConfigError as error:
        raise BadRequestError(str(error), param="pauses") from error
    except TypeError as error:
        raise BadRequestError(
            "pauses must have the names phrase, sentence, line, paragraph and chapter",
            param="pauses",
        ) from error


def _roles(given: Mapping[str, Any]) -> dict[str, Role]:
    if len(given) > _MOST_ROLES:
        raise BadRequestError(f"voices may have at most {_MOST_ROLES} names", param="voices")
    try:
        return parse_roles(given, "voices")
    except ScriptError as error:
        raise BadRequestError(str(error), param="voices") from error
