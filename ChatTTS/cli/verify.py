"""``chattts verify``: compare a model with the published one, or tell what a sound file says."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import AudioError
from .assets_commands import verify_model
from .console import Console, UsageError
from .options import Commands, add_command

if TYPE_CHECKING:
    from ..audio.content_credentials import Manifest
    from ..audio.mark_detection import FoundMark

_SAYS_NOTHING, _BROKEN = 1, 3
_MODELS = ("bundled", "huggingface")
# A name with one of these endings means a sound file, also where there is none.
_ENDINGS = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".m4b", ".aac")
_DETAILS = """\
Compare a model's files with the published ChatTTS model. The command fails if a file is missing or
different. Files of a fine-tuned model are different; that is not an error of the model.

  chattts verify               the model that `chattts say` uses by default
  chattts verify huggingface
  chattts verify my-model/

Or tell whether a sound file says that its sound is synthetic, by what it was made and when. Files
of other programs are read as well: wav, flac, mp3, ogg, opus, m4a, m4b and aac.

  chattts verify speech.wav
  chattts verify speech.wav --json

Of a sound file the exit status is 0 if it says so, 1 if it says nothing, 2 if it cannot be read,
and 3 if its C2PA manifest is not valid. Manifests need the extra `c2pa`:
pip install 'chattts-velocity[c2pa]'.

A file that says nothing may be synthetic all the same: any program can remove tags, or write them.
"""


def add_to(commands: Commands) -> None:
    summary = "check a model's files, or tell whether a sound file says that it is synthetic"
    parser = add_command(commands, "verify", run, summary, _DETAILS)
    parser.add_argument(
        "target",
        nargs="?",
        metavar="MODEL|FILE",
        help="bundled, huggingface or a folder; or a sound file",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one object of JSON, for a sound file"
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Check the model or the file; return the exit status."""
    target: str | None = args.target
    if target is not None and _is_sound_file(target):
        return _tell(target, as_json=args.json)
    if args.json:
        raise UsageError("--json is for sound files: name one")
    return verify_model(target, console)


def _is_sound_file(target: str) -> bool:
    """Return whether a file is meant; models are folders and names without an ending."""
    path = Path(target)
    is_named = path.suffix.lower() in _ENDINGS and not path.is_dir()
    return is_named or (target not in _MODELS and path.is_file())


def _tell(file: str, *, as_json: bool) -> int:
    """Print what a sound file says; return the exit status."""
    from ..audio.content_credentials import find_manifest, has_reader
    from ..audio.mark_detection import find_mark

    can_read = has_reader()
    try:
        mark = find_mark(file)
        manifest = find_manifest(file, mark.format) if can_read else None
    except AudioError as error:
        raise UsageError(str(error)) from error
    if as_json:
        print(json.dumps(_as_json(file, mark, manifest, can_read=can_read), indent=1))
    else:
        for line in _lines(mark, manifest, can_read=can_read):
            print(line)
    return _status(mark, manifest)


def _status(mark: FoundMark, manifest: Manifest | None) -> int:
    if manifest is not None and not manifest.is_intact:
        return _BROKEN
    return 0 if _is_synthetic(mark, manifest) else _SAYS_NOTHING


def _is_synthetic(mark: FoundMark, manifest: Manifest | None) -> bool:
    signed = manifest is not None and manifest.is_intact and manifest.is_synthetic
    return mark.is_synthetic or signed


def _lines(mark: FoundMark, manifest: Manifest | None, *, can_read: bool) -> list[str]:
    """Return what the file says, for people."""
    if _is_synthetic(mark, manifest):
        lines = ["it says that its sound is synthetic"]
    elif mark.format is None:
        lines = ["it says nothing: it is no sound file of a known format"]
    else:
        lines = ["it says nothing of being synthetic"]
    label = mark.label
    about = {
        "format": mark.format,
        "made by": mark.software,
        "on": mark.day,
        "source type": mark.source_type,
        "producer": label.get("ContentProducer"),
        "number": label.get("ProduceID"),
        "said in": ", ".join(mark.places),
        "C2PA": _of_manifest(manifest, can_read=can_read),
    }
    return lines + [f"  {name + ':':<13}{value}" for name, value in about.items() if value]


def _of_manifest(manifest: Manifest | None, *, can_read: bool) -> str:
    if not can_read:
        return "not looked for (pip install 'chattts-velocity[c2pa]')"
    if manifest is None:
        return "no manifest"
    faults = f" ({', '.join(manifest.faults)})" if manifest.faults else ""
    if not manifest.is_intact:
        return f"a manifest that is not valid{faults}"
    says = "synthetic" if manifest.is_synthetic else "nothing of being synthetic"
    return (
        f"a manifest, intact{faults}; it says {says}; signed by {manifest.signer or 'an unknown'}, "
        "whose trust is not checked"
    )


def _as_json(
    file: str, mark: FoundMark, manifest: Manifest | None, *, can_read: bool
) -> dict[str, object]:
    from ..config.mark import SOURCE_TYPES

    signed = None
    if manifest is not None:
        signed = {
            "intact": manifest.is_intact,
            "synthetic": manifest.is_synthetic,
            "signer": manifest.signer,
            "software": manifest.software,
            "faults": list(manifest.faults),
        }
    return {
        "file": file,
        "format": mark.format,
        "synthetic": _is_synthetic(mark, manifest),
        "software": mark.software,
        "day": mark.day,
        "digital_source_type": mark.source_type and f"{SOURCE_TYPES}{mark.source_type}",
        "label": dict(mark.label),
        "places": list(mark.places),
        "c2pa_read": can_read,
        "c2pa": signed,
    }
