"""The user's library of named voices, a folder of small JSON files.

A voice is a speaker string, or a sample prompt with its transcript. A name is checked before it
becomes a path, so untrusted names are safe.
"""

from __future__ import annotations

import json
import logging
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from .blends import blend_speakers, parse_blend
from .config import Config
from .errors import AudioError, VoiceError, shown
from .model.lora.names import DEFAULT
from .utils import base16384
from .utils.folders import data_folder
from .utils.untrusted import parse_json, read_bytes

if TYPE_CHECKING:
    from .pipeline.loaded_chat import LoadedChat
    from .voice_learning.learning import LearnedVoice
    from .voice_learning.recordings import Recordings

logger = logging.getLogger(__name__)

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}", re.ASCII)
_MOST_CHARACTERS = 64
_MOST_NAME_BYTES = 200  # of a name in its file's name, where file systems take 255
# Beside letters, accents and digits of any script. The first character is none of them but "_".
_NAME_SIGNS = frozenset(" _-.'\u2019\u00b7")
# A shorter text is a name in Chinese: no model has so few values.
_LEAST_SPEAKER = 8
# Names of devices on Windows, with any file ending.
_DEVICES = re.compile(r"con|prn|aux|nul|(com|lpt)\d", re.IGNORECASE | re.ASCII)
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


@dataclass(frozen=True)
class FoundVoice:
    """The result of :func:`find_voice`: a label, and fields of ``InferCodeParams``."""

    label: str
    parameters: Mapping[str, Any]


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
        return sorted(name for name, stem in names if _is_name(name) and _stem(name) == stem)

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
        return _is_name(name) and self._path(name).is_file()

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
        from .audio.files import write_file

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
        return self.folder / f"{_stem(check_name(name))}.json"


def voices_folder() -> Path:
    """Return the folder of the user's voices."""
    return data_folder() / "voices"


def check_name(name: str) -> str:
    """Return ``name`` if it is a valid name of a voice.

    Raises:
        VoiceError: it is not 1 to 64 letters and digits of any script, with spaces, ``_ - . ' ·``
            between them; it is longer than 200 bytes as the name of a file, as 22 characters of
            Chinese are; or it is a device of Windows.
    """
    if not _is_name(name):
        raise VoiceError(
            f"a voice cannot be called {shown(name)}: use 1 to 64 letters, digits, _ or -, with "
            "single spaces, dots or apostrophes between them (22 at most in Chinese), as in anna_2"
        )
    return name


def folded(name: str) -> str:
    """Return a form of a name that does not depend on case, and on how accents are encoded."""
    return unicodedata.normalize("NFC", name.strip().casefold())


def is_speaker_string(text: str) -> bool:
    """Return whether ``text`` looks like a speaker string or a sample prompt string."""
    stripped = text.strip()
    return len(stripped) >= _LEAST_SPEAKER and base16384.TEXT.fullmatch(stripped) is not None


def read_voice(path: Path) -> SavedVoice:
    """Return the voice of a JSON file.

    Raises:
        VoiceError: the file cannot be read or is no voice.
    """
    return SavedVoice.from_json(_read_text(path), str(path))


def find_voice(
    wanted: str | None, config: Config, library: VoiceLibrary, adapters: Collection[str] = ()
) -> FoundVoice:
    """Find the voice that a user names, for a model with ``config``.

    Args:
        wanted: a name in ``library`` or among the checkpoint's speakers, in this order; a file
            (``.json`` of a library, ``.txt`` with a speaker string, a ``.pt`` tensor of old
            versions); a speaker string; or a blend of names, ``anna:0.7,bert:0.3``. None means the
            checkpoint's own default.
        adapters: the names of loaded adapters, each of which is a voice, too.

    Raises:
        VoiceError: there is no such voice, or it belongs to another model.
    """
    defaults, width = config.defaults, config.gpt.hidden_size
    if wanted is None and DEFAULT in adapters:
        return FoundVoice("the adapter's own", {})
    if wanted is None:
        return FoundVoice(defaults.speaker or "the model's own", {})
    if not isinstance(wanted, str):
        raise VoiceError(f"the name of a voice must be text, not {shown(wanted)}")
    if wanted in adapters:
        return FoundVoice(wanted, {"adapter": wanted})
    if wanted in library:
        return FoundVoice(wanted, library.load(wanted).parameters(width))
    if wanted in defaults.speakers:
        return FoundVoice(wanted, {"spk_emb": defaults.speakers[wanted]})
    if os.path.isfile(wanted):
        return FoundVoice(wanted, _from_file(Path(wanted), width))
    if is_speaker_string(wanted):
        return FoundVoice("as given", {"spk_emb": wanted.strip()})
    parts = parse_blend(wanted)
    if parts is not None:
        found = [(find_voice(name, config, library), name, weight) for name, weight in parts]
        blended = [(voice.parameters, name, weight) for voice, name, weight in found]
        return FoundVoice(wanted, {"spk_emb": blend_speakers(blended, width)})
    names = ", ".join([*adapters, *library.names(), *defaults.speakers]) or "there are none yet"
    raise VoiceError(
        f"there is no voice {shown(wanted)}: it is not a name ({names}), a file or a speaker "
        "string. `chattts voice new --name NAME` makes one"
    )


def learn(
    chat: LoadedChat,
    recordings: Recordings | str | os.PathLike[str],
    text: str | None = None,
    *,
    seconds: float | None = None,
    from_sample: bool = False,
    library: VoiceLibrary | None = None,
    one_speaker: bool = False,
    seed: int = 0,
    say: Callable[[str], None] | None = None,
    show_tqdm: bool = True,
) -> LearnedVoice:
    """Learn a speaker from recordings of one person.

    The recordings are checked, normalised and encoded by the checkpoint's codec. Then the speaker
    vector alone is changed, until the codes are likeliest; see ``docs/voices.md``. Adapters have no
    part in it. Nothing is saved, and the loaded model stays as it is.

    Args:
        chat: with a loaded checkpoint, on either engine. Its device is used, in float32.
        recordings: a folder (LJSpeech's ``metadata.csv``, or ``NAME.txt`` beside each sound file),
            one sound file, or what ``read_recordings`` returned. Ten seconds are few, a minute is
            enough, and more than ten minutes are refused.
        text: the transcript of one file.
        seconds: take so much speech of the folder.
        from_sample: begin at the nearest known voice, of the checkpoint or of ``library``, and not
            at random speakers.
        library: the voices that ``from_sample`` may begin at.
        one_speaker: do not look for other people in the recordings, which takes a person whose
            voice changes for several.
        seed: equal seeds give equal results on one machine.
        say: called with news, such as how long it will take; they are logged by default.
        show_tqdm: show progress bars on a terminal.

    Raises:
        VoiceError: the recordings cannot be used; the message names them and the remedy.
        ConfigError: the seed is no whole number of 0 to 2**63 - 1.
        AssetError: the checkpoint has no encoder.
        NotLoadedError: no checkpoint is loaded.
    """
    from .checkpoints.assets import AssetFolder
    from .voice_learning.learning import Learner, checked_seed, recordings_of, usable_speakers
    from .voice_learning.speaker_search import SearchSettings

    model = chat._loaded
    width = model.config.gpt.hidden_size
    saved = [] if library is None else library.readable()
    own = {v.name: v.speaker for v in saved if v.speaker and v.width == width}
    learner = Learner(
        model=model,
        folder=AssetFolder(chat._files, "custom"),
        normalizer=chat.normalizer,
        known={**model.config.defaults.speakers, **usable_speakers(own, model.speaker)},
        seed=checked_seed(seed),
        settings=SearchSettings(),
        say=say or logger.info,
        show_tqdm=show_tqdm,
        one_speaker=one_speaker,
    )
    found = recordings_of(recordings, text, seconds, show_tqdm=show_tqdm)
    return learner.learn(found, from_sample=from_sample)


def _from_file(path: Path, width: int) -> dict[str, Any]:
    ending = path.suffix.lower()
    if ending == ".json":
        return dict(read_voice(path).parameters(width))
    if ending == ".txt":
        return {"spk_emb": _read_text(path).strip()}
    if ending == ".pt":
        from .model.legacy_speaker import read_legacy_speaker

        return {"spk_emb": read_legacy_speaker(path)}
    raise VoiceError(
        f"{path} is not a voice: a voice is a .json of the library, a .txt with a speaker string "
        "or a .pt of old versions. To speak like a recording: --sample FILE --transcript TEXT"
    )


def _is_name(name: str) -> bool:
    if not isinstance(name, str) or _DEVICES.fullmatch(name):
        return False
    return _PLAIN_NAME.fullmatch(name) is not None or _is_display_name(name)


def _is_display_name(name: str) -> bool:
    """Return whether a name consists of words of any script."""
    kinds = [unicodedata.category(character)[0] for character in name]
    return (
        0 < len(name) <= _MOST_CHARACTERS
        and (kinds[0] in "LN" or name[0] == "_")
        and name == name.strip()
        and "  " not in name
        and unicodedata.is_normalized("NFC", name)
        and all(k in "LMN" or c in _NAME_SIGNS for k, c in zip(kinds, name, strict=True))
        and len(_stem(name)) <= _MOST_NAME_BYTES
    )


def _stem(name: str) -> str:
    """Return the name of a voice's file, without its ending: ASCII, and no dots."""
    return quote(name, safe="").replace(".", "%2E").replace("~", "%7E")


def _read_text(path: Path) -> str:
    try:
        return read_bytes(path, _MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise VoiceError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise VoiceError(f"{path} is not a voice: it is not UTF-8 text") from error
