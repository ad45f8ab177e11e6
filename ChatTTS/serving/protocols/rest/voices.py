"""``/v1/audio/voices``: list, upload and delete voices."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, File, Form, UploadFile

from ....errors import VoiceError
from ....voices import is_speaker_string
from ....voices.blends import parse_blend
from ...errors import BadRequestError, UnknownVoiceError
from ...speech.recordings import sample_prompt
from ...speech.service import SpeechService
from ...speech.voices import VoiceInfo, Voices
from .answer_schemas import (
    ERRORS,
    NOT_FOUND,
    DeletedVoice,
    VoiceEntry,
    VoiceList,
)

_REFUSALS = ("", "0", "false", "no", "off")


def voice_routes(service: SpeechService) -> APIRouter:
    """Return the routes that list, upload and delete voices."""
    router = APIRouter(tags=["voices"])
    voices = service.voices

    @router.get(
        "/v1/audio/voices",
        summary="List the voices",
        operation_id="listVoices",
        response_model=VoiceList,
        responses=ERRORS,
    )
    async def list_voices() -> VoiceList:
        found = await service.in_thread(voices.list)
        return VoiceList(
            voices=[_entry(info) for info in found],
            default=voices.default,
            language_defaults=dict(voices.language_defaults),
        )

    @router.post(
        "/v1/audio/voices",
        summary="Keep a voice",
        operation_id="createVoice",
        response_model=VoiceEntry,
        responses=ERRORS,
    )
    async def create_voice(
        name: Annotated[str, Form(description="1 to 64 letters, digits, spaces, _ or -.")],
        consent: Annotated[
            str, Form(description="What the speaker agreed to; kept with the voice.")
        ],
        audio_sample: Annotated[
            UploadFile | None, File(description="A recording of 1 to 30 s.")
        ] = None,
        ref_text: Annotated[
            str | None, Form(description="What the recording says, word for word.")
        ] = None,
        speaker: Annotated[
            str | None,
            Form(
                description="A speaker string, or a blend such as clara:0.7,edith:0.3, in place "
                "of a recording."
            ),
        ] = None,
    ) -> VoiceEntry:
        """A voice that was uploaded under this name before is replaced."""
        _check_name(voices, name)
        if consent.strip().lower() in _REFUSALS:
            raise BadRequestError(
                "consent must state that the speaker agrees to this use of their voice",
                param="consent",
            )
        sample = None
        if audio_sample is not None and speaker is None:
            if not (ref_text or "").strip():
                raise BadRequestError(
                    "ref_text is required: the words of the recording, verbatim", param="ref_text"
                )
            sample = await sample_prompt(service, await audio_sample.read(), "audio_sample")
        elif audio_sample is not None or speaker is None:
            raise BadRequestError(
                "send either audio_sample (a recording) or speaker (a speaker string or a blend)",
                param="audio_sample",
            )
        else:
            speaker = await service.in_thread(partial(_speaker_string, voices, speaker.strip()))
            await _check_speaker(service, speaker)
        info = await service.in_thread(
            partial(
                voices.save,
                name,
                consent=consent,
                speaker=speaker,
                sample=sample,
                transcript=ref_text if sample is not None else None,
            )
        )
        return _entry(info)

    @router.delete(
        "/v1/audio/voices/{name}",
        summary="Delete an uploaded voice",
        operation_id="deleteVoice",
        response_model=DeletedVoice,
        responses=ERRORS | NOT_FOUND,
    )
    async def delete_voice(name: str) -> DeletedVoice:
        try:
            await service.in_thread(partial(voices.delete, name))
        except UnknownVoiceError as error:
            raise UnknownVoiceError(str(error), param="name", is_address=True) from error
        return DeletedVoice(id=name)

    return router


def _entry(info: VoiceInfo) -> VoiceEntry:
    return VoiceEntry.model_validate({**vars(info), "name": info.id})


async def _check_speaker(service: SpeechService, speaker: str) -> None:
    try:
        await service.in_thread(partial(service.model.check_speaker, speaker))
    except VoiceError as error:
        raise BadRequestError(str(error), param="speaker") from error


def _speaker_string(voices: Voices, speaker: str) -> str:
    """Return a speaker string as it is, and that of a blend.

    Raises:
        ServingError: it is neither, or the blend cannot be made.
    """
    if is_speaker_string(speaker):
        return speaker
    try:
        if parse_blend(speaker) is None:
            raise VoiceError(
                "speaker is neither a speaker string nor a blend such as clara:0.7,edith:0.3"
            )
        return voices.find(speaker, is_strict=True).parameters["spk_emb"]
    except (VoiceError, UnknownVoiceError) as error:
        raise BadRequestError(str(error), param="speaker") from error


def _check_name(voices: Voices, name: str) -> None:
    try:
        voices.check_upload(name)
    except VoiceError as error:
        raise BadRequestError(str(error), param="name") from error
