"""The voices of the server: the checkpoint's, uploaded ones, and aliases with OpenAI's names."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone

from ..config import Config
from ..errors import VoiceError
from ..voices import SavedVoice, VoiceLibrary, check_name, is_speaker_string
from .errors import BadRequestError, RequestTooLargeError, ServingError, UnknownVoiceError

logger = logging.getLogger(__name__)

# Programs for OpenAI's API use these names. They are assigned to the checkpoint's speakers in turn,
# so that different names are different voices if the checkpoint has several.
ALIASES = (
    "alloy",
    "ash",
    "ballad",
    "cedar",
    "coral",
    "echo",
    "fable",
    "marin",
    "nova",
    "onyx",
    "sage",
    "shimmer",
    "verse",
)
_MAX_SHOWN = 80  # characters of a name in an error message


@dataclass(frozen=True)
class VoiceInfo:
    """A voice that requests may name.

    Attributes:
        id: its name in requests.
        kind: ``speaker``, ``sample`` or ``alias``.
        uploaded: whether it was uploaded, and so can be deleted.
        language: of the checkpoint, if it has only one.
    """

    id: str
    kind: str
    uploaded: bool
    language: str | None


class Voices:
    """Finds, saves and deletes voices.

    Args:
        config: of the checkpoint.
        library: the uploaded voices.
        default: voice of requests that name none; ``None`` means the checkpoint's default.
        fallback: speaker string of the default voice if the checkpoint has no voice at all.
        most: maximum number of uploaded voices.

    Attributes:
        default: name of the voice of requests that name none; ``None`` if there is none.

    Raises:
        UnknownVoiceError: there is no voice ``default``.
    """

    def __init__(
        self,
        config: Config,
        library: VoiceLibrary,
        *,
        default: str | None = None,
        fallback: str | None = None,
        most: int = 1000,
    ) -> None:
        self._config, self._library, self._most = config, library, most
        own = config.defaults.speakers
        if config.defaults.speaker is not None or own or fallback is None:
            self._speakers: Mapping[str, str] = own
        else:
            self._speakers = {"default": fallback}
        self.default = default or config.defaults.speaker or next(iter(self._speakers), None)
        if default is not None:
            self.parameters(default)

    def list(self) -> list[VoiceInfo]:
        """Return all voices: uploaded ones, the checkpoint's, and aliases."""
        language = self._config.defaults.language
        width = self._config.gpt.hidden_size
        uploaded = {v.name: v for v in self._library.readable() if v.width == width}
        found = [VoiceInfo(v.name, v.kind, True, language) for v in uploaded.values()]
        names = [name for name in self._speakers if name not in uploaded]
        found += [VoiceInfo(name, "speaker", False, language) for name in names]
        taken = {info.id for info in found}
        if self._speakers:
            found += [
                VoiceInfo(name, "alias", False, language) for name in ALIASES if name not in taken
            ]
        return found

    def parameters(self, name: str | None) -> dict[str, str]:
        """Return the fields of ``InferCodeParams`` of a voice.

        Args:
            name: of a voice, or a speaker string; ``None`` means the default voice.

        Raises:
            UnknownVoiceError: there is no voice of that name.
            VoiceError: the voice belongs to another model.
            ServingError: its file is damaged.
        """
        name = name or self.default
        if name is None:
            return {}
        if name in self._library:
            with _hidden_file_errors(f"the voice {name!r} cannot be read here"):
                voice = self._library.load(name)
            return voice.parameters(self._config.gpt.hidden_size)
        if name in self._speakers:
            return {"spk_emb": self._speakers[name]}
        if name in ALIASES and self._speakers:
            speakers = list(self._speakers.values())
            return {"spk_emb": speakers[ALIASES.index(name) % len(speakers)]}
        if is_speaker_string(name):
            return {"spk_emb": name}
        shown = name if len(name) <= _MAX_SHOWN else f"{name[:_MAX_SHOWN]}..."
        raise UnknownVoiceError(
            f"there is no voice {shown!r}; GET /v1/audio/voices lists all of them"
        )

    def save(
        self,
        name: str,
        *,
        consent: str,
        speaker: str | None = None,
        sample: str | None = None,
        transcript: str | None = None,
    ) -> VoiceInfo:
        """Save a voice under a name; an uploaded voice of that name is replaced.

        Args:
            consent: what the speaker agreed to, in the uploader's words; saved with the voice.
            speaker: a speaker string.
            sample, transcript: a sample prompt string and its transcript.

        Raises:
            VoiceError: the name is not allowed.
            ServingError: the file cannot be written.
            BadRequestError: consent is missing, or not exactly one of speaker and sample is given.
            RequestTooLargeError: the maximum number of voices is reached.
        """
        check_name(name)
        if not consent.strip():
            raise BadRequestError(
                "consent must say that the speaker agrees to the use of this voice",
                param="consent",
            )
        if (speaker is None) == (sample is None):
            raise BadRequestError("give a recording or a speaker string, not both", param="name")
        if name not in self._library and len(self._library.names()) >= self._most:
            raise RequestTooLargeError(
                f"{self._most} voices are kept already; delete one of them first"
            )
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        voice = SavedVoice(
            name,
            self._config.gpt.hidden_size,
            self._config.defaults.name or "ChatTTS",
            speaker=speaker,
            sample=sample,
            transcript=transcript,
            consent=f"{now}: {consent.strip()}",
        )
        with _hidden_file_errors(f"the voice {name!r} cannot be kept here"):
            self._library.save(voice, overwrite=True)
        return VoiceInfo(name, voice.kind, True, self._config.defaults.language)

    def delete(self, name: str) -> None:
        """Delete an uploaded voice.

        Raises:
            UnknownVoiceError: no voice of that name was uploaded.
            ServingError: its file cannot be deleted.
        """
        if name not in self._library:
            known = name in self._speakers or name in ALIASES
            reason = "belongs to the server and stays" if known else "is not known"
            raise UnknownVoiceError(f"the voice {name[:_MAX_SHOWN]!r} {reason}")
        with _hidden_file_errors(f"the voice {name!r} cannot be deleted here"):
            self._library.remove(name)


@contextmanager
def _hidden_file_errors(what: str) -> Iterator[None]:
    """Log a VoiceError, whose message names files, and raise a ServingError without them."""
    try:
        yield
    except VoiceError as error:
        logger.error("%s", error)
        raise ServingError(f"{what}: ask the server's operator") from error
