"""Find a checkpoint: in a folder, in the hub's cache, on the hub, or inside the package.

A checkpoint is a folder ``asset/`` of safetensors and JSON files. Its bytes are checked against
the published hashes by :func:`check_hashes`; opening them is the task of ``checkpoint``.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import sys
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tqdm import tqdm

from .config import published_facts
from .errors import AssetError, ConfigError

logger = logging.getLogger(__name__)

REPOSITORY = "2Noise/ChatTTS"

Origin = Literal["local", "custom", "huggingface", "bundled"]
Status = Literal["ok", "different", "missing", "unknown"]

# The other files of the published tokenizer repeat what tokenizer.json says, and checkpoints that
# were saved by newer libraries lack them.
_REQUIRED = (
    "asset/gpt/config.json",
    "asset/gpt/model.safetensors",
    "asset/Embed.safetensors",
    "asset/Decoder.safetensors",
    "asset/DVAE.safetensors",
    "asset/Vocos.safetensors",
    "asset/tokenizer/tokenizer.json",
)
_OPTIONAL = ("asset/config.json", "asset/homophones_map.json")
_BUNDLED = Path(__file__).parent / "bundled"

# Files below this size are hashed faster than anybody notices; larger ones are worth remembering.
_REMEMBERED_FROM = 32 * 2**20
_BLOCK = 2**20


@dataclass(frozen=True)
class AssetFolder:
    """A checkpoint on disk: ``path`` holds ``asset/``, or is that folder under another name."""

    path: Path
    origin: Origin

    @property
    def asset(self) -> Path:
        """The folder with the files."""
        inner = self.path / "asset"
        return inner if inner.is_dir() else self.path

    @property
    def config(self) -> Path:
        """Sizes and voice defaults; the file is optional."""
        return self.asset / "config.json"

    @property
    def gpt(self) -> Path:
        """Weights of the Llama."""
        return self.asset / "gpt" / "model.safetensors"

    @property
    def gpt_config(self) -> Path:
        """The Llama's own configuration."""
        return self.asset / "gpt" / "config.json"

    @property
    def embed(self) -> Path:
        """Weights of embeddings and heads."""
        return self.asset / "Embed.safetensors"

    @property
    def decoder(self) -> Path:
        """Weights from hidden states to mel."""
        return self.asset / "Decoder.safetensors"

    @property
    def dvae(self) -> Path:
        """Weights of the codec."""
        return self.asset / "DVAE.safetensors"

    @property
    def vocos(self) -> Path:
        """Weights of the vocoder."""
        return self.asset / "Vocos.safetensors"

    @property
    def tokenizer(self) -> Path:
        """The folder of the tokenizer's files."""
        return self.asset / "tokenizer"

    @property
    def homophones(self) -> Path:
        """Characters to replace by others that sound alike; the file is optional."""
        return self.asset / "homophones_map.json"

    def missing(self) -> list[str]:
        """Name the files without which the checkpoint cannot be loaded and that are not there."""
        return [name for name in _REQUIRED if not self.file(name).is_file()]

    def file(self, name: str) -> Path:
        """Where the file lies that is published as ``name``, ``asset/...``."""
        return self.asset / name.removeprefix("asset/")


@dataclass(frozen=True)
class FileCheck:
    """One file against its published sha256; None where there is no such hash or no such file."""

    name: str
    expected: str | None
    found: str | None

    @property
    def status(self) -> Status:
        """``unknown`` is a file that is there and that has no published hash."""
        if self.found is None:
            return "missing"
        if self.expected is None:
            return "unknown"
        return "ok" if self.found == self.expected else "different"


@dataclass(frozen=True)
class Verification:
    """What :func:`verify` found, file by file."""

    folder: AssetFolder
    files: tuple[FileCheck, ...]

    @property
    def ok(self) -> bool:
        """Whether every file that was published is there, unchanged."""
        return all(file.status not in ("different", "missing") for file in self.files)


@dataclass(frozen=True)
class CacheEntry:
    """A folder that downloads or this package fill; ``bytes`` is 0 where it does not exist."""

    name: str
    path: Path
    bytes: int


def locate(
    source: str = "local",
    custom_path: str | os.PathLike[str] | None = None,
    force_redownload: bool = False,
) -> AssetFolder:
    """Find the checkpoint that ``source`` names, and make sure that it is whole.

    Args:
        source: ``local`` takes ``./asset``, else the hub's cache, else downloads, and with a
            ``custom_path`` only looks there; ``custom`` takes ``custom_path``; ``huggingface``
            the hub's cache, else downloads; ``bundled`` the voice inside this package.
        custom_path: a folder that holds ``asset/``, or is that folder.
        force_redownload: download again, whatever is there (``custom`` and ``bundled`` ignore it).

    Raises:
        AssetError: files are missing (all are named), or the download failed.
        ConfigError: an unknown source, or ``custom`` without a path.
    """
    if source == "bundled":
        return _whole(AssetFolder(_BUNDLED, "bundled"))
    if source == "custom" and custom_path is None:
        raise ConfigError("source='custom' needs custom_path, the folder that holds asset/")
    if source in ("local", "custom") and custom_path is not None:
        path = Path(custom_path).expanduser().absolute()
        return _whole(AssetFolder(path, "custom" if source == "custom" else "local"))
    if source not in ("local", "huggingface"):
        raise ConfigError(
            f"source must be one of local, custom, huggingface, bundled, not {source!r}"
        )
    if custom_path is not None:
        logger.warning(
            "custom_path does nothing with source='huggingface'; HF_HOME says where downloads lie"
        )
    if force_redownload:
        return download(force=True)
    here = Path.cwd()
    if source == "local" and (here / "asset").is_dir():
        folder = AssetFolder(here, "local")
        # A folder of that name with none of the files is somebody's pictures.
        if len(folder.missing()) < len(_REQUIRED):
            return _whole(folder)
    return _cached() or download()


def is_cached() -> bool:
    """Whether the published checkpoint lies whole in the hub's cache; asks nobody."""
    return _cached() is not None


def download(force: bool = False) -> AssetFolder:
    """Bring the published checkpoint into the hub's cache, with progress.

    Files that are there whole are kept, unless ``force``; a connection that breaks is taken up
    again where it stopped. The hub library's environment variables hold: HF_ENDPOINT (a mirror),
    HF_HOME, HF_HUB_OFFLINE and so on.

    Raises:
        AssetError: it failed; the message says why, and what to do instead.
    """
    import huggingface_hub

    try:
        if force:
            # Where the hub cannot be reached, the library would hand back what is cached, forced
            # or not. This question fails then.
            huggingface_hub.model_info(REPOSITORY)
        path = huggingface_hub.snapshot_download(
            REPOSITORY, allow_patterns=_hub_files(), force_download=force
        )
    except Exception as error:  # whatever the library's changing transports raise
        raise AssetError(
            f"downloading {REPOSITORY} from {huggingface_hub.constants.ENDPOINT} failed "
            f"({_reason(error)}). Files that arrived are kept: run `chattts download` once the "
            "network is there, or set HF_ENDPOINT to a mirror of the hub; or pass the folder of a "
            "checkpoint with source='custom' and custom_path; or speak with the bundled voice, "
            "source='bundled'"
        ) from error
    logger.info("%s lies in %s", REPOSITORY, path)
    return _whole(AssetFolder(Path(path), "huggingface"))


def verify(folder: AssetFolder) -> Verification:
    """Hash every file of ``folder``, with a progress bar when that takes a while.

    The bundled voice has no published hashes: each of its files is ``unknown``.
    """
    hashed: dict[str, list[Any]] = {}
    checks = _check_files(folder, hashed)
    if hashed:
        _remember({**_recall(), **hashed})
    return Verification(folder, tuple(checks))


def check_hashes(folder: AssetFolder) -> None:
    """Compare ``folder`` with the published checkpoint before it is loaded.

    Files that came from the hub must be the published ones. Elsewhere a difference is one warning:
    somebody's own checkpoint is welcome. The bundled voice is not checked. A large file that was
    hashed before and has kept its size and time is not hashed again; :func:`verify` does.

    Raises:
        AssetError: a file from the hub differs; each is named with both hashes.
    """
    if folder.origin == "bundled":
        return
    remembered = _recall()
    memory = dict(remembered)
    own = folder.origin != "huggingface"
    checks = _check_files(folder, memory, stop_at_difference=own)
    if memory != remembered:
        _remember(memory)
    different = [check for check in checks if check.status == "different"]
    if not different:
        return
    if own:
        logger.warning(
            "%s is not the published checkpoint (%s differs); loading it as a custom one",
            folder.asset,
            different[0].name,
        )
        return
    named = "; ".join(
        f"{check.name} should have sha256 {check.expected} but has {check.found}"
        for check in different
    )
    raise AssetError(
        f"{folder.asset} is not the published checkpoint: {named}. Run `chattts download --force` "
        "to fetch it anew; to use these files all the same, pass "
        f"source='custom', custom_path={str(folder.path)!r}"
    )


def cache_folder() -> Path:
    """Where this package keeps what it may lose at any time."""
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        base = Path(chosen)
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path.home() / ".cache"
    return base / "chattts-velocity"


def cache_entries() -> list[CacheEntry]:
    """Say what lies where: ``huggingface`` (the downloaded checkpoint), ``own`` (known hashes)."""
    from huggingface_hub.constants import HF_HUB_CACHE

    folders = {
        "huggingface": Path(HF_HUB_CACHE) / f"models--{REPOSITORY.replace('/', '--')}",
        "own": cache_folder(),
    }
    return [CacheEntry(name, path, _bytes_below(path)) for name, path in folders.items()]


def clear_cache(names: Collection[str]) -> list[CacheEntry]:
    """Delete the entries of :func:`cache_entries` that ``names`` lists, and say what is gone.

    Raises:
        ConfigError: an unknown name; nothing is deleted then.
        AssetError: a folder cannot be deleted, or is a link that leads out of the cache.
    """
    entries = {entry.name: entry for entry in cache_entries()}
    unknown = [name for name in names if name not in entries]
    if unknown:
        raise ConfigError(
            f"no cache is called {', '.join(map(repr, unknown))}; there are {', '.join(entries)}"
        )
    chosen = [entry for name, entry in entries.items() if name in names]
    present = [entry for entry in chosen if os.path.lexists(entry.path)]
    for entry in present:
        try:
            shutil.rmtree(entry.path)  # follows no links, refuses to start at one
        except OSError as error:
            raise AssetError(
                f"{entry.path} cannot be deleted ({error}); close what uses it, or do it by hand"
            ) from error
    return present


def _hub_files() -> list[str]:
    return list(published_facts()["sha256"])


def _whole(folder: AssetFolder) -> AssetFolder:
    """Give back ``folder``, or name all the files that it lacks."""
    if not folder.path.is_dir():
        raise AssetError(
            f"there is no folder {folder.path}; name one that holds asset/, or use "
            "source='huggingface' (the published checkpoint) or source='bundled'"
        )
    missing = folder.missing()
    if missing:
        raise AssetError(
            f"the checkpoint in {folder.path} lacks {', '.join(missing)}. Put them there, or use "
            "source='huggingface' (`chattts download` fetches the published checkpoint) or "
            "source='bundled'"
        )
    logger.info("checkpoint: %s (%s)", folder.asset, folder.origin)
    return folder


def _cached() -> AssetFolder | None:
    import huggingface_hub

    try:
        path = huggingface_hub.snapshot_download(
            REPOSITORY, allow_patterns=_hub_files(), local_files_only=True
        )
    except (OSError, ValueError):  # its "not here", and "only in part"
        return None
    folder = AssetFolder(Path(path), "huggingface")
    return None if folder.missing() else folder


def _reason(error: BaseException) -> str:
    """Say in one line what lies at the bottom of a chain of errors."""
    while error.__cause__ is not None:
        error = error.__cause__
    first_line = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__


def _check_files(
    folder: AssetFolder, memory: dict[str, list[Any]], *, stop_at_difference: bool = False
) -> list[FileCheck]:
    """Hash the files of ``folder``, small ones first, and note the large ones in ``memory``.

    The order makes ``stop_at_difference`` cheap: a custom checkpoint usually shows early.
    """
    published: dict[str, str] = published_facts()["sha256"]
    own = folder.origin == "bundled"
    expected = {name: None if own else sha256 for name, sha256 in published.items()}
    expected |= {name: None for name in _OPTIONAL if folder.file(name).is_file()}

    sizes = {
        name: folder.file(name).stat().st_size for name in expected if folder.file(name).is_file()
    }
    checks = [FileCheck(name, expected[name], None) for name in expected if name not in sizes]
    with tqdm(
        desc="checking hashes",
        total=sum(sizes.values()),
        unit="B",
        unit_scale=True,
        delay=2.0,
        leave=False,
        disable=None,
    ) as bar:
        for name in sorted(sizes, key=lambda name: sizes[name]):
            check = FileCheck(name, expected[name], _sha256(folder.file(name), memory, bar))
            checks.append(check)
            if stop_at_difference and check.status == "different":
                break
    return checks


def _sha256(path: Path, memory: dict[str, list[Any]], bar: tqdm) -> str:
    stat, key = path.stat(), str(path.resolve())
    state = [stat.st_size, stat.st_mtime_ns]
    known = memory.get(key, [])
    if known[:2] == state:
        bar.update(stat.st_size)
        return str(known[2])
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
                bar.update(len(block))
    except OSError as error:
        raise AssetError(f"{path} cannot be read ({error.strerror or error})") from error
    if stat.st_size >= _REMEMBERED_FROM:
        memory[key] = [*state, digest.hexdigest()]
    return digest.hexdigest()


def _memory_file() -> Path:
    return cache_folder() / "sha256.json"


def _recall() -> dict[str, list[Any]]:
    """Read the known hashes: path to [bytes, time of change in ns, sha256]."""
    try:
        memory = json.loads(_memory_file().read_text(encoding="utf-8"))
        return {path: [size, time, str(found)] for path, (size, time, found) in memory.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}  # none yet, or none that can be read: the files are hashed again


def _remember(memory: dict[str, list[Any]]) -> None:
    """Keep the hashes of files that still exist; a cache that cannot be written is no error."""
    kept = {path: entry for path, entry in memory.items() if os.path.exists(path)}
    file = _memory_file()
    # Other processes may read meanwhile: they see the old file or the new one, never a part.
    partial = file.with_suffix(f".{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        partial.replace(file)
    except OSError as error:
        logger.info("the hashes are not remembered: %s", error)


def _bytes_below(path: Path) -> int:
    """Add up the files below ``path``, each once, however many links lead to it."""
    total = 0
    for folder, _, names in os.walk(path):
        for file in (Path(folder, name) for name in names):
            with suppress(OSError):  # a download at work moves its files
                total += 0 if file.is_symlink() else file.stat().st_size
    return total
