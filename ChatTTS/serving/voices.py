"""The voices of the server: the checkpoint's, those that were uploaded, and OpenAI's names."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone

from ..config import Config
from ..errors import VoiceError
from ..voices import SavedVoice, VoiceLibrary, check_name, is_speaker_string
from .errors import BadRequestError, RequestTooLargeError, ServingError, UnknownVoiceError

logger = logging.getLogger(__name__)

# Programs that were written for OpenAI's server name one of these; they take turns over the
# checkpoint's own speakers, so that different names are different voices where there are any.
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
_SHOWN = 80


@dataclass(frozen=True)
class VoiceInfo:
    """A voice that may be named.

    Attributes:
        id: what a request calls it.
        kind: ``speaker``, ``sample`` or ``alias``.
        uploaded: whether it can be deleted.
        language: of the checkpoint, where it has but one.
    """

    id: str
    kind: str
    uploaded: bool
    language: str | None


class Voices:
    """Finds, keeps and forgets voices.

    Args:
        config: of the checkpoint.
        library: the folder of the uploaded ones.
        default: what a request without a voice means; the checkpoint's own default without one.
        fallback: the speaker string that is meant where the checkpoint has no default either.
        most: how many uploaded voices are kept.

    Raises:
        UnknownVoiceError: ``default`` is no voice.
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
        self._default = default or config.defaults.speaker or next(iter(self._speakers), None)
        if default is not None:
            self.parameters(default)

    @property
    def default(self) -> str | None:
        """The name of the voice that speaks where none is asked for."""
        return self._default

    def list(self) -> list[VoiceInfo]:
        """All that may be named: uploaded ones, the checkpoint's, and aliases."""
        language = self._config.defaults.language
        width = self._config.gpt.hidden_size
        uploaded = {v.name: v for v in self._readable() if v.width == width}
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
        """The fields of ``InferCodeParams`` of a voice.

        Args:
            name: of a voice, or a speaker string; ``None`` means the default one.

        Raises:
            UnknownVoiceError: there is none of that name.
            VoiceError: it belongs to another model.
            ServingError: its file is damaged.
        """
        name = name or self._default
        if name is None:
            return {}
        if name in self._library:
            with _own_fault(f"the voice {name!r} cannot be read here"):
                voice = self._library.load(name)
            return voice.parameters(self._config.gpt.hidden_size)
        if name in self._speakers:
            return {"spk_emb": self._speakers[name]}
        if name in ALIASES and self._speakers:
            speakers = list(self._speakers.values())
            return {"spk_emb": speakers[ALIASES.index(name) % len(speakers)]}
        if is_speaker_string(name):
            return {"spk_emb": name}
        shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."
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
        """Keep a voice under a name; one that was uploaded under it before is replaced.

        Args:
            consent: what the speaker agreed to, in the uploader's words; kept with the voice.
            speaker: a speaker string.
            sample, transcript: a sample prompt string, and what it says.

        Raises:
            VoiceError: the name cannot be used.
            ServingError: the file cannot be written.
            BadRequestError: no consent, or not exactly one of speaker and sample.
            RequestTooLargeError: there are as many voices as may be kept.
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
        with _own_fault(f"the voice {name!r} cannot be kept here"):
            self._library.save(voice, overwrite=True)
        return VoiceInfo(name, voice.kind, True, self._config.defaults.language)

    def delete(self, name: str) -> None:
        """Delete an uploaded voice.

        Raises:
            UnknownVoiceError: none was uploaded under that name.
            ServingError: its file cannot be deleted.
        """
        if name not in self._library:
            known = name in self._speakers or name in ALIASES
            reason = "belongs to the server and stays" if known else "is not known"
            raise UnknownVoiceError(f"the voice {name[:_SHOWN]!r} {reason}")
        with _own_fault(f"the voice {name!r} cannot be deleted here"):
            self._library.remove(name)

    def _readable(self) -> Sequence[SavedVoice]:
        """The uploaded voices without those whose files are damaged."""
        return self._library.readable()


@contextmanager
def _own_fault(what: str) -> Iterator[None]:
    """Files of the server are no fault of a client's, and their paths are for the log only."""
    try:
        yield
    except VoiceError as error:
        logger.error("%s", error)
        raise ServingError(f"{what}: ask the server's operator") from error
