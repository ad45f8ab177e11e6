"""The voice that a user names: saved, of the checkpoint, in a file, as a string, or a blend."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config import Config
from ..errors import VoiceError, shown
from ..model.lora.names import DEFAULT
from ..utils import base16384
from .blends import blend_speakers, parse_blend
from .library import VoiceLibrary, read_voice, read_voice_text

# A shorter text is a name in Chinese: no model has so few values.
_LEAST_SPEAKER = 8


@dataclass(frozen=True)
class FoundVoice:
    """The result of :func:`find_voice`: a label, and fields of ``InferCodeParams``."""

    label: str
    parameters: Mapping[str, Any]


def is_speaker_string(text: str) -> bool:
    """Return whether ``text`` looks like a speaker string or a sample prompt string."""
    stripped = text.strip()
    return len(stripped) >= _LEAST_SPEAKER and base16384.TEXT.fullmatch(stripped) is not None


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


def _from_file(path: Path, width: int) -> dict[str, Any]:
    ending = path.suffix.lower()
    if ending == ".json":
        return dict(read_voice(path).parameters(width))
    if ending == ".txt":
        return {"spk_emb": read_voice_text(path).strip()}
    if ending == ".pt":
        from ..model.legacy_speaker import read_legacy_speaker

        return {"spk_emb": read_legacy_speaker(path)}
    raise VoiceError(
        f"{path} is not a voice: a voice is a .json of the library, a .txt with a speaker string "
        "or a .pt of old versions. To speak like a recording: --sample FILE --transcript TEXT"
    )
