"""The voices of the server: the checkpoint's, uploaded ones, and aliases of both."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from ...config import Config
from ...errors import ChatTTSError, VoiceError
from ...model.lora.names import DEFAULT, Adapters
from ...voices import SavedVoice, VoiceLibrary, check_name, folded, is_speaker_string
from ...voices.blends import blend_speakers, parse_blend
from ..errors import (
    BadRequestError,
    RequestTooLargeError,
    ServingError,
    UnknownVoiceError,
    full_disk,
)
from ..requests.vendor_voices import OPENAI_NAMES, is_vendor_voice, speaker_for

logger = logging.getLogger(__name__)

_MAX_BLEND = 1000  # characters of a blend: eight of the longest names, and their weights
_MAX_NAME = 1 << 16  # characters: a sample prompt string of 30 s has 15 000
# Letters of Greek and Cyrillic in lower case, and the Latin ones that they look like.
_LOOKALIKES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u051b\u0501\u051d\u04cf\u0432\u043a\u043c\u043d\u0442"
    "\u03b1\u03b5\u03bf\u03c1\u03c5\u03c7\u03b9\u03ba\u03bd\u03f2\u03f3\u0131\u0261",
    "aeopcyxijshqdwlbkmhtaeopuxikvcjig",
)
_MAX_SHOWN = 80  # characters of a name in an error message


@dataclass(frozen=True)
class VoiceInfo:
    """A voice that requests may name.

    Attributes:
        id: its name in requests.
        kind: ``speaker``, ``sample``, ``adapter`` or ``alias``.
        uploaded: whether it was uploaded, and so can be deleted.
        language: of the checkpoint, if it has only one.
        stands_for: the listed voice that an alias means; ``None`` for a voice of its own, and for
            an alias of a speaker string.
    """

    id: str
    kind: str
    uploaded: bool
    language: str | None
    stands_for: str | None = None


@dataclass(frozen=True)
class FoundVoice:
    """The voice that speaks for a name.

    Attributes:
        name: of the list of voices; a blend as the client wrote it; in brackets what has no name,
            such as ``(recording)``; empty if the checkpoint has no voice at all.
        parameters: the fields of ``InferCodeParams``.
        is_substitute: whether there is no voice of the name, and the default one speaks.
    """

    name: str
    parameters: dict[str, str]
    is_substitute: bool = False


class Voices:
    """Finds, saves and deletes voices.

    Args:
        config: of the checkpoint.
        library: the uploaded voices.
        default: voice of requests that name none; ``None`` means the checkpoint's default.
        fallback: speaker string of the default voice if the checkpoint has no voice at all.
        most: maximum number of uploaded voices.
        aliases: further names, with the voice that each stands for.
        adapters: the loaded adapters, each of which is a voice by its name. The one with the name
            ``default`` is the default voice.
        may_shadow: whether an uploaded voice may take a name that the server itself gives.
        takes_unknown: whether the default voice speaks for names of no voice.

    Attributes:
        default: name of the voice of requests that name none; ``None`` if there is none.
        language_defaults: the names of others for texts of some languages, by their codes.

    Raises:
        UnknownVoiceError: there is no voice ``default``, or none that an alias stands for.
    """

    def __init__(
        self,
        config: Config,
        library: VoiceLibrary,
        *,
        default: str | None = None,
        fallback: str | None = None,
        most: int = 1000,
        aliases: Mapping[str, str] | None = None,
        adapters: Adapters | None = None,
        may_shadow: bool = False,
        takes_unknown: bool = False,
    ) -> None:
        self._config, self._library, self._most = config, library, most
        self._aliases, self._may_shadow = dict(aliases or {}), may_shadow
        self._takes_unknown = takes_unknown
        self._adapters: Adapters = adapters or {}
        self._targets = {folded(name): voice for name, voice in self._aliases.items()}
        own = config.defaults.speakers
        if config.defaults.speaker is not None or own or fallback is None:
            self._speakers: Mapping[str, str] = own
        else:
            self._speakers = {"default": fallback}
        self._own = {
            folded(name): name for name in (*OPENAI_NAMES, *self._speakers, *self._adapters)
        }
        self._plain = config.defaults.speaker or next(iter(self._speakers), None)
        self.default = default or (DEFAULT if DEFAULT in self._adapters else self._plain)
        is_given = default is not None or DEFAULT in self._adapters
        self.language_defaults: Mapping[str, str] = (
            {} if is_given else config.defaults.language_speakers
        )
        for alias, voice in self._aliases.items():
            try:
                self._unaliased(voice)
            except ChatTTSError as error:
                raise UnknownVoiceError(
                    f"the alias {alias!r} stands for the voice {voice!r}, which cannot be used: "
                    f"{error}"
                ) from error
        if default is not None:
            self.find(default, is_strict=True)

    def default_of(self, language: str | None) -> str | None:
        """Return the name of the voice of requests that name none.

        Args:
            language: of the text; ``None`` for one without words.
        """
        own = self._config.defaults.language
        return self.language_defaults.get(language or own or "", self.default)

    def follow_language(self, name: str | None) -> bool:
        """Return whether the language of a text decides the voice of a request.

        Args:
            name: that the request gives to its voice.
        """
        return bool(self.language_defaults) and (not name or self._takes_unknown)

    def without_aliases(self) -> Sequence[VoiceInfo]:
        """Return the listed voices that are no further names of others, the default one first."""
        own = [info for info in self.list() if info.kind != "alias"]
        return sorted(own, key=lambda info: info.id != self.default)

    def listed(self, name: str, *, address: str, param: str) -> VoiceInfo:
        """Return a voice of the list, or what is told of another name that is spoken with.

        Args:
            address: that lists all of them, for the error.
            param: the part of the request's address that names the voice.

        Raises:
            UnknownVoiceError: requests cannot name it, or it is no name.
        """
        voices = self.list()
        for info in voices:
            if info.id == name:
                return info
        if self._takes_unknown or is_vendor_voice(name):
            found = self.find(name)
            meant = next((info for info in voices if info.id == found.name), None)
            if meant is not None:
                return VoiceInfo(name, "alias", False, meant.language, meant.id)
        raise UnknownVoiceError(
            f"there is no voice {name[:80]!r}; GET {address} lists all voices",
            param=param,
            is_address=True,
        )

    def list(self) -> list[VoiceInfo]:
        """Return all voices: uploaded ones, the checkpoint's, and aliases."""
        language = self._config.defaults.language
        width = self._config.gpt.hidden_size
        uploaded = {v.name: v for v in self._library.readable() if v.width == width}
        found = [VoiceInfo(v.name, v.kind, True, language) for v in uploaded.values()]
        found = [info for info in found if info.id not in self._adapters]
        found += [VoiceInfo(name, "adapter", False, language) for name in self._adapters]
        taken = {info.id for info in found}
        names = [name for name in self._speakers if name not in taken]
        found += [VoiceInfo(name, "speaker", False, language) for name in names]
        taken = {info.id for info in found}
        others = [*self._aliases, *(OPENAI_NAMES if self._speakers else ())]
        found += [
            VoiceInfo(name, "alias", False, language, self._meant(name, uploaded))
            for name in dict.fromkeys(others)
            if name not in taken
        ]
        return found

    def parameters(self, name: str | None) -> dict[str, str]:
        """Return the fields of ``InferCodeParams`` of a voice; see :meth:`find`."""
        return self.find(name).parameters

    def find(
        self, name: str | None, *, is_strict: bool = False, language: str | None = None
    ) -> FoundVoice:
        """Return the voice that speaks for a name.

        Args:
            name: of a voice, a speaker string, or a blend such as ``anna:0.7,bert:0.3``; ``None``
                means the default voice. Upper and lower case are the same, unless two voices differ
                by them alone.
            is_strict: whether a name of no voice is an error in any case.
            language: of the text, which decides the default voice; ``None`` for no text.

        Raises:
            UnknownVoiceError: there is no voice of that name.
            VoiceError: the voice belongs to another model, or a blend cannot be made.
            ServingError: its file is damaged.
        """
        default = self.default_of(language)
        name = name or default
        if name is None:
            return FoundVoice("", {})
        try:
            if len(name) > _MAX_NAME:
                raise UnknownVoiceError(f"a voice of {len(name)} characters is none")
            return self._unaliased(self._targets.get(folded(name), name))
        except UnknownVoiceError:
            if is_strict or not self._takes_unknown or name == default:
                raise
        return replace(self.find(None, language=language), is_substitute=True)

    def _unaliased(self, name: str) -> FoundVoice:
        """Return the voice of a name that is no alias of the settings."""
        found = self._named(name)
        if found is not None:
            return found
        if is_speaker_string(name):
            return FoundVoice("(speaker string)", {"spk_emb": name})
        parts = parse_blend(name) if len(name) <= _MAX_BLEND else None
        if parts is not None:
            voices = [(self._part(part), part, weight) for part, weight in parts]
            blended = blend_speakers(voices, self._config.gpt.hidden_size)
            return FoundVoice(name, {"spk_emb": blended})
        raise _unknown(name)

    def _meant(self, alias: str, uploaded: Collection[str]) -> str | None:
        """Return the listed voice that an alias means; ``None`` if that has no name."""
        name = self._targets.get(folded(alias), alias)
        listed = {*self._adapters, *uploaded, *self._speakers}
        if name not in listed | {*OPENAI_NAMES}:
            key = folded(name)
            saved = next((other for other in uploaded if folded(other) == key), None)
            name = saved or self._own.get(key, name)
        if name in listed:
            return name
        return speaker_for(name, list(self._speakers))

    def _part(self, name: str) -> dict[str, str]:
        """Return the parameters of a voice of a blend, which is no blend itself."""
        found = self._named(self._targets.get(folded(name), name))
        if found is None:
            raise _unknown(name, "to blend")
        if "adapter" in found.parameters:
            raise VoiceError(
                f"the voice {name!r} is an adapter, whose weights cannot be blended: use voices "
                "that are speakers"
            )
        return found.parameters

    def _named(self, name: str) -> FoundVoice | None:
        """Return the voice of a name; ``None`` if there is none."""
        if name in self._adapters:
            return self._of_adapter(name)
        if name in self._library:
            return self._saved(name)
        if name in self._speakers or name in OPENAI_NAMES:
            return self._of_server(name)
        key = folded(name)
        # This looks through a folder, so exact names come first.
        saved = next((other for other in self._library.names() if folded(other) == key), None)
        if saved is not None:
            return self._saved(saved)
        return self._of_server(self._own.get(key, name))

    def _saved(self, name: str) -> FoundVoice:
        with _hidden_file_errors(f"the voice {name!r} cannot be read here"):
            voice = self._library.load(name)
        return FoundVoice(name, voice.parameters(self._config.gpt.hidden_size))

    def _of_adapter(self, name: str) -> FoundVoice:
        """Return an adapter, with its own speaker or the checkpoint's."""
        speaker = self._adapters[name].speaker
        if speaker is not None:
            return FoundVoice(name, {"spk_emb": speaker, "adapter": name})
        own = {} if self._plain is None else {"spk_emb": self._speakers[self._plain]}
        return FoundVoice(name, own | {"adapter": name})

    def _of_server(self, name: str) -> FoundVoice | None:
        """Return an adapter, a speaker of the checkpoint, or the one for a vendor's voice."""
        if name in self._adapters:
            return self._of_adapter(name)
        is_own = name in self._speakers
        speaker = name if is_own else speaker_for(name, list(self._speakers))
        return (
            None if speaker is None else FoundVoice(speaker, {"spk_emb": self._speakers[speaker]})
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
            BadRequestError: the name is the server's own, consent is missing, or not exactly one
                of speaker and sample is given.
            RequestTooLargeError: the maximum number of voices is reached.
        """
        self.check_upload(name)
        if not consent.strip():
            raise BadRequestError(
                "consent must state that the speaker agrees to this use of their voice",
                param="consent",
            )
        if (speaker is None) == (sample is None):
            raise BadRequestError("give a recording or a speaker string, not both", param="name")
        if name not in self._library and len(self._library.names()) >= self._most:
            raise RequestTooLargeError(
                f"{self._most} voices are already stored, which is the limit; delete one first"
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

    def check_upload(self, name: str) -> None:
        """Raise an error if no voice may be uploaded under this name.

        Raises:
            VoiceError: the name is not allowed.
            BadRequestError: the server itself gives the name to a voice, or it looks like the name
                of another voice.
        """
        key = folded(check_name(name))
        others = (*self._own, *self._targets, *map(folded, self._library.names()))
        double = next((o for o in others if o != key and _skeleton(o) == _skeleton(key)), None)
        if double is not None:
            raise BadRequestError(
                f"{name!r} looks like the voice {double!r} in letters of another script: choose "
                "another name",
                param="name",
            )
        if key in map(folded, self._adapters):
            raise BadRequestError(
                f"{name!r} is an adapter of this server: choose another name", param="name"
            )
        is_taken = key in self._own or key in self._targets or is_vendor_voice(key)
        if is_taken and not self._may_shadow:
            raise BadRequestError(
                f"{name!r} is a voice of this server that other clients use: choose another name "
                "(the operator can allow this one with API keys or --allow-shadowing)",
                param="name",
            )

    def delete(self, name: str) -> None:
        """Delete an uploaded voice.

        Raises:
            UnknownVoiceError: no voice of that name was uploaded.
            ServingError: its file cannot be deleted.
        """
        if name not in self._library:
            key = folded(name)
            known = key in self._own or key in self._targets or is_vendor_voice(key)
            reason = "belongs to the server and stays" if known else "is not known"
            raise UnknownVoiceError(f"the voice {name[:_MAX_SHOWN]!r} {reason}")
        with _hidden_file_errors(f"the voice {name!r} cannot be deleted here"):
            self._library.remove(name)


def _unknown(name: str, purpose: str = "") -> UnknownVoiceError:
    """Return the error for a name of no voice."""
    shown = name if len(name) <= _MAX_SHOWN else f"{name[:_MAX_SHOWN]}..."
    return UnknownVoiceError(
        f"there is no voice {shown!r}{purpose and ' '}{purpose}; GET /v1/audio/voices lists all "
        "voices. `chattts serve` accepts more names with --alias NAME=VOICE, and with "
        "--unknown-voice default speaks all other names with its default voice"
    )


def _skeleton(name: str) -> str:
    """Return a form that names share which look alike."""
    return unicodedata.normalize("NFKC", name).translate(_LOOKALIKES)


@contextmanager
def _hidden_file_errors(what: str) -> Iterator[None]:
    """Log a VoiceError, whose message names files, and raise a ServingError without them."""
    try:
        yield
    except VoiceError as error:
        logger.error("%s", error)
        raise full_disk(error) or ServingError(f"{what}: ask the server's operator") from error
