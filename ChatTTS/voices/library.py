"""The user's library of named voices, a folder of small JSON files.

A voice is a speaker string, or a sample prompt with its transcript. A name is checked before it
becomes a path, so untrusted names are safe.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ..errors import AudioError, VoiceError
from ..utils.folders import data_folder
from ..utils.untrusted import parse_json, read_bytes
from .names import check_name, file_stem, is_voice_name

logger = logging.getLogger(__name__)

_FORMAT = {"format": "chattts-voice", "version": 1}
_MOST_BYTES = 1 << 20  # the longest sample prompt is a few kB


@dataclass(frozen=True)
class SavedVoice:
    """A voice of the library.

    Attributes:
        name: see :func:`check_name`.
        width: hidden size of the model that it was made with; it fits no model of another size.
        model: name of that model.
        speaker: a speaker string, or None for a sample prompt.
        sample: a sample prompt string, or None for a speaker.
        transcript: the words of the sample.
        seed: the seed of a random speaker, if known.
        consent: a note on what the speaker of a recording agreed to, if there is one.
    """

    name: str
    width: int
    model: str
    speaker: str | None = None
    sample: str | None = None
    transcript: str | None = None
    seed: int | None = None
    consent: str | None = None

    @property
    def kind(self) -> str:
        """``speaker`` or ``sample``."""
        return "speaker" if self.speaker is not None else "sample"

    @property
    def string(self) -> str:
        """The speaker string or the sample prompt."""
        return self.speaker or self.sample or ""

    def parameters(self, width: int) -> dict[str, str]:
        """Return the fields of ``InferCodeParams`` for a model of this hidden size.

        Raises:
            VoiceError: the voice belongs to another model.
        """
        if self.width != width:
            raise VoiceError(
                f"the voice {self.name!r} was made with the model {self.model}, whose voices "
                f"have {self.width} values; this model's have {width}: choose that model, or "
                "make the voice again"
            )
        named = {"spk_emb": self.speaker, "spk_smp": self.sample, "txt_smp": self.transcript}
        return {field: value for field, value in named.items() if value is not None}

    def to_json(self) -> str:
        """Return the text of its file."""
        return json.dumps(_FORMAT | asdict(self), ensure_ascii=False, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str) -> SavedVoice:
        """Return the voice that :meth:`to_json` wrote.

        Raises:
            VoiceError: the text is no such voice; the message names it ``where``.
        """
        try:
            values = parse_json(text)
        except ValueError as error:
            raise VoiceError(
                f"{where} is not valid JSON ({error}); make the voice again"
            ) from error
        if not isinstance(values, dict) or any(values.get(k) != v for k, v in _FORMAT.items()):
            raise VoiceError(f"{where} is not a voice that this version of ChatTTS can read")
        given: dict[str, Any] = {key: values.get(key) for key in cls.__dataclass_fields__}
        texts = [given[key] for key in ("speaker", "sample", "transcript", "consent")]
        sound = (
            isinstance(given["name"], str)
            and isinstance(given["model"], str)
            and type(given["width"]) is int
            and (given["seed"] is None or type(given["seed"]) is int)
            and all(value is None or isinstance(value, str) for value in texts)
            and (bool(given["speaker"]) != bool(given["sample"]))
        )
        if not sound:
            raise VoiceError(f"{where} is damaged; make the voice again")
        return cls(**given)


class VoiceLibrary:
    """The saved voices of a user.

    Args:
        folder: of the voices, by default :func:`voices_folder`; created with the first voice.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = voices_folder() if folder is None else folder

    def names(self) -> list[str]:
        """Return the sorted names of all voices."""
        if not self.folder.is_dir():
            return []
        stems = (path.stem for path in self.folder.glob("*.json"))
        names = ((unquote(stem), stem) for stem in stems)
        valid = (name for name, stem in names if is_voice_name(name) and file_stem(name) == stem)
        return sorted(valid)

    def __iter__(self) -> Iterator[SavedVoice]:
        """Iterate over all voices; errors as :meth:`load`."""
        return map(self.load, self.names())

    def readable(self) -> list[SavedVoice]:
        """Return all voices but the damaged ones, with a warning for each of these."""
        voices = []
        for name in self.names():
            try:
                voices.append(self.load(name))
            except VoiceError as error:
                logger.warning("%s", error)
        return voices

    def __contains__(self, name: str) -> bool:
        return is_voice_name(name) and self._path(name).is_file()

    def load(self, name: str) -> SavedVoice:
        """Return the voice called ``name``.

        Raises:
            VoiceError: there is no such voice, or its file is damaged.
        """
        # A copied file has the name of the copy.
        return replace(read_voice(self._existing(name)), name=name)

    def check_free(self, name: str, *, overwrite: bool = False) -> None:
        """Raise VoiceError if no voice can be saved as ``name``."""
        if check_name(name) in self and not overwrite:
            raise VoiceError(
                f"a voice named {name!r} already exists: choose another name, or replace it "
                "(--force)"
            )

    def save(self, voice: SavedVoice, *, overwrite: bool = False) -> Path:
        """Save a voice and return its file.

        Raises:
            VoiceError: a voice of that name exists and ``overwrite`` is off, or the file cannot be
                written.
        """
        self.check_free(voice.name, overwrite=overwrite)
        path = self._path(voice.name)
        try:
            data = voice.to_json().encode("utf-8")
        except UnicodeEncodeError as error:
            raise VoiceError(
                f"the voice {voice.name!r} has a text with an unpaired surrogate "
                f"({error.reason}); remove it"
            ) from error
        from ..audio.files import write_file

        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_file(path, data)
        except (OSError, AudioError) as error:
            raise VoiceError(f"the voice {voice.name!r} cannot be saved: {error}") from error
        return path

    def remove(self, name: str) -> None:
        """Delete a voice, also one with a damaged file.

        Raises:
            VoiceError: there is no such voice, or its file cannot be deleted.
        """
        path = self._existing(name)
        try:
            path.unlink()
        except OSError as error:
            raise VoiceError(f"{path} cannot be deleted: {error.strerror or error}") from error

    def _existing(self, name: str) -> Path:
        path = self._path(name)
        if not path.is_file():
            raise VoiceError(f"there is no voice named {name!r}; `chattts voice list` shows all")
        return path

    def _path(self, name: str) -> Path:
        return self.folder / f"{file_stem(check_name(name))}.json"


def voices_folder() -> Path:
    """Return the folder of the user's voices."""
    return data_folder() / "voices"


def read_voice(path: Path) -> SavedVoice:
    """Return the voice of a JSON file.

    Raises:
        VoiceError: the file cannot be read or is no voice.
    """
    return SavedVoice.from_json(read_voice_text(path), str(path))


def read_voice_text(path: Path) -> str:
    """Return the text of a voice's file.

    Raises:
        VoiceError: it cannot be read, or is no text.
    """
    try:
        return read_bytes(path, _MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise VoiceError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise VoiceError(f"{path} is not a voice: it is not UTF-8 text") from error
