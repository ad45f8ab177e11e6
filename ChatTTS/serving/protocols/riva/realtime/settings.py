"""The settings of a session, as its client changes them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from .....audio.samples import SAMPLE_RATE
from .....config.request_fields import Priority
from .....errors import AudioError
from .....text.lexicon import Lexicon
from ....encoding import Format
from ....encoding.base64_blocks import from_base64
from ....encoding.formats import usual_name
from ....errors import BadRequestError
from ....requests.request import SpeechRequest, parse_lexicon
from ....speech.config import RunConfig
from ....speech.recordings import sample_prompt
from ....speech.service import SpeechService
from ..request_parsing import (
    AudioSettings,
    parse_configuration,
    parse_dictionary,
    parse_language,
    parse_rate,
    resolve_voice,
)

_PCM_NAMES = ("linear_pcm", "pcm16", "none")


@dataclass(frozen=True, kw_only=True)
class PromptedConfig(RunConfig):
    """The settings of a run, with a recording in place of a voice.

    Attributes:
        sample, transcript: as ``SpeechRequest`` describes them.
    """

    sample: str | None = None
    transcript: str | None = None

    def request(
        self,
        text: str,
        seed: int,
        *,
        is_first: bool = True,
        is_last: bool = True,
        **others: Any,
    ) -> SpeechRequest:
        """Return the request for an utterance."""
        prompt = {"sample": self.sample, "transcript": self.transcript}
        return super().request(text, seed, is_first=is_first, is_last=is_last, **prompt, **others)


@dataclass(frozen=True)
class SessionSettings:
    """The settings with which the texts of a session are spoken.

    Attributes:
        language_code, voice_name: as the client wrote them.
        audio: format, rate and tempo of the sound.
        configuration: fields of ``SpeechRequest``.
        lexicon: of ``custom_dictionary``.
        sample, transcript: of ``zero_shot_config``.
    """

    language_code: str = ""
    voice_name: str = ""
    audio: AudioSettings = field(
        default_factory=lambda: AudioSettings(Format.PCM, SAMPLE_RATE, 1.0)
    )
    configuration: tuple[tuple[str, Any], ...] = ()
    lexicon: Lexicon = field(default_factory=Lexicon)
    sample: str | None = None
    transcript: str | None = None

    async def updated(self, session: dict[str, Any], service: SpeechService) -> SessionSettings:
        """Return a copy with the fields of ``synthesize_session.update``; others are kept.

        Raises:
            BadRequestError: a field cannot be used; the message names it.
            ServingError: the recording of ``zero_shot_config`` cannot be used.
        """
        text = _object(session, "input_text_synthesis")
        output = _object(session, "output_audio_params")
        rate = output.get("sample_rate_hz")
        audio = replace(
            self.audio,
            format=_format(output.get("audio_format"), self.audio.format),
            sample_rate=self.audio.sample_rate if rate is None else parse_rate(rate),
        )
        changed = replace(
            self,
            language_code=_string(text, "language_code", self.language_code),
            voice_name=_string(text, "voice_name", self.voice_name),
            audio=audio,
        )
        if session.get("custom_configuration"):
            given = _object(session, "custom_configuration")
            fields = parse_configuration({str(k): str(v) for k, v in given.items()})
            speed = fields.pop("speed", audio.speed)
            audio = replace(audio, speed=speed)
            changed = replace(changed, audio=audio, configuration=tuple(fields.items()))
        dictionary = session.get("custom_dictionary")
        if dictionary:
            known = isinstance(dictionary, str)
            lexicon = parse_dictionary(dictionary) if known else parse_lexicon(dictionary)
            changed = replace(changed, lexicon=lexicon)
        prompt = _object(session, "zero_shot_config")
        if prompt.get("audio_prompt_bytes"):
            changed = await changed._with_prompt(prompt, service)

        def check() -> None:  # it reads the file of a voice
            config = changed.config(service)
            if config.sample is None:
                service.voices.parameters(config.voice)

        await service.in_thread(check)
        return changed

    def config(self, service: SpeechService) -> PromptedConfig:
        """Return the settings of a text; reads the files of voices.

        Raises:
            BadRequestError: a value is out of its range.
        """
        voice = None if self.sample else resolve_voice(self.voice_name, service.voices)
        config = PromptedConfig(
            voice=voice,
            sample=self.sample,
            transcript=self.transcript,
            response_format=self.audio.format.value,
            sample_rate=self.audio.sample_rate,
            speed=self.audio.speed,
            language=parse_language(self.language_code, service.model.languages),
            lexicon=self.lexicon,
            **dict(self.configuration),
        )
        config.check()
        return config

    def as_json(self) -> dict[str, Any]:
        """Return the settings in the protocol's form."""
        return {
            "input_text_synthesis": {
                "language_code": self.language_code,
                "voice_name": self.voice_name,
            },
            "output_audio_params": {
                "sample_rate_hz": self.audio.sample_rate,
                "num_channels": 1,
                "audio_format": _name(self.audio.format),
            },
            "custom_configuration": {name: _as_text(value) for name, value in self.configuration},
        }

    async def _with_prompt(self, prompt: dict[str, Any], service: SpeechService) -> SessionSettings:
        param = "zero_shot_config"
        transcript = _string(prompt, "audio_prompt_transcript", "")
        if not transcript.strip():
            raise BadRequestError(
                "audio_prompt_transcript is required with a recording", param=param
            )
        try:
            text = _string(prompt, "audio_prompt_bytes", "")
            data = await service.in_parsing_thread(partial(from_base64, text))
        except ValueError as error:
            raise BadRequestError("audio_prompt_bytes is not valid base64", param=param) from error
        sample = await sample_prompt(service, data, param)
        return replace(self, sample=sample, transcript=transcript)


def _object(fields: dict[str, Any], name: str) -> dict[str, Any]:
    value = fields.get(name) or {}
    if not isinstance(value, dict):
        raise BadRequestError(f"{name} must be an object", param=name)
    return value


def _string(fields: dict[str, Any], name: str, default: str) -> str:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, str):
        raise BadRequestError(f"{name} must be a string", param=name)
    return value


def _format(name: Any, default: Format) -> Format:
    if name is None:
        return default
    if str(name).lower() in _PCM_NAMES:
        return Format.PCM
    try:
        return Format.parse(str(usual_name(name)))
    except AudioError as error:
        raise BadRequestError(str(error), param="audio_format") from error


def _as_text(value: Any) -> str:
    """Return a value of the configuration as a client may write it."""
    if isinstance(value, Priority):
        return value.name.lower()
    return str(value).lower() if isinstance(value, bool) else str(value)


def _name(format: Format) -> str:
    return "LINEAR_PCM" if format is Format.PCM else format.name
