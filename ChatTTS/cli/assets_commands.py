"""``chattts download``, ``cache`` and ``verify`` of a model: the checkpoints on this machine."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import AssetError
from ..voices import voices_folder
from .console import Console, confirm, size, table
from .model import ModelChoice, choose_model
from .options import Commands, add_command

if TYPE_CHECKING:
    from ..checkpoints.assets import AssetFolder

_DOWNLOAD = """\
Download the full ChatTTS model (2Noise/ChatTTS) into the Hugging Face cache. Files that are
already there are kept. An interrupted download continues where it stopped.

  chattts download
  HF_ENDPOINT=https://my-mirror.example chattts download
"""
_CACHE = """\
Show where models, caches and voices are stored and how big they are, or delete caches.

  chattts cache
  chattts cache clear huggingface     delete the full model; `chattts download` fetches it again
  chattts cache clear                 delete all caches, but not voices or the bundled model
"""
_STATUS = {
    "ok": "ok",
    "different": "different from the published file",
    "missing": "missing",
    "unknown": "there (no published hash)",
}


def add_to(commands: Commands) -> None:
    download = add_command(commands, "download", run_download, "fetch the full model", _DOWNLOAD)
    download.add_argument("--force", action="store_true", help="fetch every file again")

    summary = "show caches with their sizes, or delete them"
    cache = add_command(commands, "cache", run_cache_list, summary, _CACHE)
    actions = cache.add_subparsers(title="commands", metavar="COMMAND")
    add_command(actions, "list", run_cache_list, "show caches with their sizes", _CACHE)
    clear = add_command(actions, "clear", run_cache_clear, "delete caches", _CACHE)
    clear.add_argument(
        "names", nargs="*", metavar="NAME", help="a cache that `chattts cache` lists; default: all"
    )
    clear.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")


def run_download(args: argparse.Namespace, console: Console) -> int:
    """Fetch the published checkpoint and check its hashes."""
    from ..checkpoints import assets
    from ..checkpoints.hashes import check_hashes

    if assets.is_cached() and not args.force:
        console.note("the full model is already downloaded; --force downloads it again")
    folder = assets.locate("huggingface", force_redownload=args.force)
    check_hashes(folder)
    print(folder.path)
    console.note("speak with it: chattts say Hello --model huggingface")
    return 0


def verify_model(name: str | None, console: Console) -> int:
    """Print a table of a model's files; fail if one is missing or different."""
    from ..checkpoints.hashes import verify

    verification = verify(_folder(choose_model(name)))
    console.note(str(verification.folder.asset))
    print(table(*((check.name, _STATUS[check.status]) for check in verification.files)))
    different = [check for check in verification.files if check.status == "different"]
    for check in different:
        console.note(f"{check.name}: expected {check.expected}, found {check.found}")
    if verification.ok:
        return 0
    mend = (
        "`chattts download --force` fetches the published files again"
        if verification.folder.origin == "huggingface"
        else "this is not the published model; it may be a fine-tuned one"
    )
    console.note(mend)
    return 1


def _folder(choice: ModelChoice) -> AssetFolder:
    """Return the model's folder, even if it is incomplete: the check reports missing files."""
    from ..checkpoints.assets import AssetFolder

    if choice.path is None:
        return choice.find(download=False)
    if not choice.path.is_dir():
        raise AssetError(f"there is no folder {choice.path}; give one that contains asset/")
    return AssetFolder(choice.path.absolute(), "custom")


def run_cache_list(args: argparse.Namespace, console: Console) -> int:
    """Print where models, caches and voices are stored."""
    from ..checkpoints import assets
    from ..checkpoints.caches import cache_entries

    kept = [
        ("bundled", assets.locate("bundled").path, "part of the package"),
        ("voices", voices_folder(), "yours; `chattts voice list`"),
    ]
    caches = {
        "huggingface": "the full model; `chattts download`",
        "own": "remembered hashes, compiled kernels, packed weights",
    }
    lines = [
        (entry.name, size(entry.bytes), str(entry.path), caches[entry.name])
        for entry in cache_entries()
    ]
    lines += [(name, size(_bytes(path)), str(path), what) for name, path, what in kept]
    print(table(("NAME", "SIZE", "WHERE", "WHAT"), *lines))
    return 0


def run_cache_clear(args: argparse.Namespace, console: Console) -> int:
    """Delete caches after a confirmation."""
    from ..checkpoints.caches import cache_entries, clear_cache

    entries = cache_entries()
    names = args.names or [entry.name for entry in entries]
    chosen = [entry for entry in entries if entry.name in names]
    what = ", ".join(f"{entry.name} ({size(entry.bytes)})" for entry in chosen)
    if chosen and not confirm(f"Delete {what}?", args.yes):
        console.note("nothing was changed")
        return 1
    for entry in clear_cache(names):
        console.note(f"deleted {entry.path} ({size(entry.bytes)})")
    return 0


def _bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
