"""Voice prompts of Riva's clients: audio files, or samples without a header."""

from __future__ import annotations

from ...errors import BadRequestError
from ...speech.recordings import RawAudioFormat
from .generated import riva_audio_pb2 as audio

PARAM = "zero_shot_data"
_HEADERS = (b"RIFF", b"fLaC", b"OggS")
_SUBTYPES: dict[int, str] = {audio.LINEAR_PCM: "PCM_16", audio.MULAW: "ULAW", audio.ALAW: "ALAW"}


def raw_audio_format(data: bytes, encoding: int, sample_rate: int) -> RawAudioFormat | None:
    """Return the format of samples without a header; ``None`` for a WAV, FLAC or Ogg file.

    Args:
        data: the file, or the samples.
        encoding: an ``AudioEncoding``.
        sample_rate: samples a second.

    Raises:
        BadRequestError: samples in an encoding that needs a header.
    """
    if data.startswith(_HEADERS):
        return None
    subtype = _SUBTYPES.get(encoding)
    if subtype is None:
        raise BadRequestError(
            "the audio prompt is not a WAV, FLAC or Ogg file: send one, or samples as "
            "LINEAR_PCM, MULAW or ALAW with their sample_rate_hz",
            param=PARAM,
        )
    return RawAudioFormat(subtype, sample_rate)
