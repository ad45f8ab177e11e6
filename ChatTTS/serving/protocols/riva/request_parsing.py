"""Parse Riva's messages into requests to the service."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message

from ....audio.samples import SAMPLE_RATE
from ....config.request_fields import fields_on, similar_name
from ....errors import ConfigError
from ....languages import find_language, language_choice, locale_of
from ....text.lexicon import Lexicon
from ...encoding import Format
from ...encoding.formats import HIGHEST_RATE, LOWEST_RATE
from ...errors import BadRequestError, RequestTooLargeError, UnknownVoiceError
from ...requests.request import parse_field
from ...settings import Limits
from ...speech.voices import Voices
from .generated import riva_audio_pb2 as audio
from .generated import riva_tts_pb2 as tts

M = TypeVar("M", bound=Message)

_FORMATS = {
    audio.ENCODING_UNSPECIFIED: Format.PCM,
    audio.LINEAR_PCM: Format.PCM,
    audio.FLAC: Format.FLAC,
    audio.MULAW: Format.MULAW,
    audio.ALAW: Format.ALAW,
    audio.OGGOPUS: Format.OGGOPUS,
}
_CONFIGURATION = {field.name: field for field in fields_on("grpc")}


@dataclass(frozen=True)
class AudioSettings:
    """Settings of the encoding of speech.

    Attributes:
        format: audio format.
        sample_rate: samples a second.
        speed: factor of the tempo.
    """

    format: Format
    sample_rate: int
    speed: float


def parse_message(kind: type[M], data: bytes) -> M:
    """Decode a message.

    Raises:
        BadRequestError: ``data`` is not a message of this kind.
    """
    try:
        message: M = kind.FromString(data)
    except DecodeError as error:
        name = kind.DESCRIPTOR.full_name
        raise BadRequestError(f"the message is not a valid {name}") from error
    return message


def parse_speech_request(data: bytes, limits: Limits) -> tts.SynthesizeSpeechRequest:
    """Decode a request for speech and check the sizes of its parts.

    Raises:
        BadRequestError: ``data`` is not such a request, or asks for something unsupported.
        RequestTooLargeError: a part is too large.
    """
    message = parse_message(tts.SynthesizeSpeechRequest, data)
    prompt = len(message.zero_shot_data.audio_prompt)
    for name, size, most in (
        ("audio prompt", prompt, limits.upload_bytes),
        ("message without its audio prompt", len(data) - prompt, limits.message_bytes),
    ):
        if size > most:
            raise RequestTooLargeError(f"the {name} has {size} bytes; the limit is {most}")
    if len(message.text) > limits.characters:
        raise RequestTooLargeError(
            f"the text has {len(message.text)} characters; the limit is {limits.characters}: "
            "send it in parts",
            param="text",
        )
    parse_dictionary(message.custom_dictionary)
    return message


def parse_dictionary(custom_dictionary: str) -> Lexicon:
    """Return the lexicon of pairs "word  saying", separated by commas.

    Two or more spaces separate the word from its saying.

    Raises:
        BadRequestError: a pair cannot be used; the message names it.
    """
    sayings: dict[str, str] = {}
    try:
        for pair in filter(str.strip, custom_dictionary.split(",")):
            word, _, saying = (part.strip() for part in pair.strip().partition("  "))
            if not word or not saying:
                raise ConfigError(
                    f"{pair.strip()[:40]!r} must be a word and its pronunciation with two spaces "
                    "between them"
                )
            if word in sayings:
                raise ConfigError(f"{word[:40]!r} appears twice")
            sayings[word] = saying
        return Lexicon.of(sayings)
    except ConfigError as error:
        raise BadRequestError(f"custom_dictionary: {error}", param="custom_dictionary") from error


def merge_settings(
    first: tts.SynthesizeSpeechRequest, message: tts.SynthesizeSpeechRequest
) -> tts.SynthesizeSpeechRequest:
    """Return ``message`` with its empty settings taken from the call's ``first`` message."""
    merged = tts.SynthesizeSpeechRequest()
    merged.CopyFrom(first)
    merged.ClearField("text")
    if message.voice_name or message.HasField("zero_shot_data"):
        # A recording takes precedence over a name, so it must not survive the choice of another
        # voice.
        merged.ClearField("zero_shot_data")
    merged.MergeFrom(message)
    return merged


def parse_audio_settings(message: tts.SynthesizeSpeechRequest) -> AudioSettings:
    """Return how the speech of a message is to be encoded.

    Raises:
        BadRequestError: an encoding, rate or speed is not supported.
    """
    if message.encoding not in _FORMATS:
        raise BadRequestError(
            f"unknown encoding {message.encoding}: use LINEAR_PCM, FLAC, MULAW, ALAW or OGGOPUS",
            param="encoding",
        )
    chosen = _FORMATS[message.encoding]
    rate = parse_rate(message.sample_rate_hz or SAMPLE_RATE)
    speed = parse_configuration(message.custom_configuration).get("speed", 1.0)
    return AudioSettings(chosen, rate, speed)


def parse_rate(rate: object) -> int:
    """Return the samples a second of ``sample_rate_hz``.

    Raises:
        BadRequestError: there is no such rate.
    """
    if type(rate) is not int or not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise BadRequestError(
            f"sample_rate_hz must be a whole number, {LOWEST_RATE} to {HIGHEST_RATE}",
            param="sample_rate_hz",
        )
    return rate


def parse_configuration(custom_configuration: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a ``SpeechRequest`` that ``custom_configuration`` sets.

    Raises:
        BadRequestError: a name is unknown, or a value has the wrong type.
    """
    values = {}
    for name, text in custom_configuration.items():
        field = _CONFIGURATION.get(name)
        if field is None:
            meant = similar_name(name, _CONFIGURATION)
            remedy = f"did you mean {meant!r}?" if meant else f"use {', '.join(_CONFIGURATION)}"
            raise BadRequestError(
                f"custom_configuration has no {name[:40]!r}: {remedy}",
                param="custom_configuration",
            )
        try:
            values[name] = parse_field(name, field.from_text(text))
        except ValueError as error:
            raise BadRequestError(
                f"{name} in custom_configuration must be {field.values}, not {text[:40]!r}",
                param="custom_configuration",
            ) from error
    return values


def parse_language(code: str, known: Collection[str]) -> str | None:
    """Return the known language of a code such as ``en-US``; ``None`` for an empty one.

    Raises:
        BadRequestError: it is another language.
    """
    language = find_language(code, known) if code else None
    if code and language is None:
        raise BadRequestError(
            f"the language {code[:40]!r} is not supported: use "
            f"{language_choice([locale_of(each) for each in known])}",
            param="language_code",
        )
    return language


def resolve_voice(name: str, voices: Voices) -> str | None:
    """Return the server's name of a voice; Riva's clients may write it as ``Family.name``.

    A voice of the whole name comes first, such as an alias for a voice of Riva's.

    Raises:
        VoiceError: its file is damaged.
    """
    if not name:
        return None
    _, dot, short_name = name.rpartition(".")
    for candidate in (name, short_name) if dot and short_name else ():
        try:
            voices.find(candidate, is_strict=True)
        except UnknownVoiceError:
            continue
        return candidate
    return name  # later errors should show the name that the client used
