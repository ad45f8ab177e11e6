"""Find a checkpoint: in a folder, in the hub's cache, on the hub, or inside the package.

A checkpoint is a folder ``asset/`` of safetensors and JSON files. Its bytes are checked against
the published hashes by ``hashes``; opening them is the task of ``checkpoint``.
"""

from __future__ import annotations

import logging
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..config import published_facts
from ..errors import AssetError, ConfigError, shown

logger = logging.getLogger(__name__)

REPOSITORY = "2Noise/ChatTTS"

Origin = Literal["local", "custom", "huggingface", "bundled"]

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
# Where the hub library keeps notes on a download into a folder of one's own.
_BEGUN = Path(".cache", "huggingface")
_BUNDLED = Path(__file__).parents[1] / "bundled"


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


def locate(
    source: str = "local",
    custom_path: str | os.PathLike[str] | None = None,
    force_redownload: bool = False,
) -> AssetFolder:
    """Find the checkpoint that ``source`` names, and make sure that it is whole.

    Args:
        source: ``local`` takes ``./asset``, else the hub's cache, else downloads; ``custom`` takes
            ``custom_path``; ``huggingface`` the hub's cache, else downloads; ``bundled`` the voice
            inside this package.
        custom_path: with ``custom`` the folder that holds ``asset/``, or that folder. With
            ``local`` the same, and the download goes there if nothing of a checkpoint is there.
            With ``huggingface`` a cache in the place of the hub's own.
        force_redownload: download again, whatever is there (``custom`` and ``bundled`` ignore it).

    Raises:
        AssetError: files are missing (all are named), or the download failed.
        ConfigError: an unknown source, or ``custom`` without a path.
    """
    path = None if custom_path is None else _absolute(custom_path)
    if source == "bundled":
        return _whole(AssetFolder(_BUNDLED, "bundled"))
    if source == "custom":
        if path is None:
            raise ConfigError("source='custom' needs custom_path, the folder that holds asset/")
        return _whole(AssetFolder(path, "custom"))
    if source == "local":
        return _local(path, force_redownload)
    if source == "huggingface":
        return (None if force_redownload else _cached(path)) or download(force_redownload, path)
    raise ConfigError(f"source must be one of local, custom, huggingface, bundled, not {source!r}")


def _absolute(custom_path: str | os.PathLike[str]) -> Path:
    try:
        return Path(custom_path).expanduser().absolute()
    except (RuntimeError, TypeError) as error:  # a ~ of a user without a home folder; no path
        raise ConfigError(f"custom_path={shown(custom_path)} is no folder ({error})") from error


def _local(path: Path | None, force_redownload: bool) -> AssetFolder:
    if path is not None:
        folder = AssetFolder(path, "local")
        # What is there in part is somebody's own, unless a download of ours was cut off.
        is_begun = (path / _BEGUN).exists() or len(folder.missing()) == len(_REQUIRED)
        if force_redownload or (is_begun and folder.missing()):
            return _download_into(path, force_redownload)
        return _whole(folder)
    if force_redownload:
        return download(force=True)
    here = Path.cwd()
    if (here / "asset").is_dir():
        folder = AssetFolder(here, "local")
        # A folder of that name with none of the files is somebody's pictures.
        if len(folder.missing()) < len(_REQUIRED):
            return _whole(folder)
    return _cached() or download()


def is_cached() -> bool:
    """Whether the published checkpoint lies whole in the hub's cache; asks nobody."""
    return _cached() is not None


def download(force: bool = False, cache: Path | None = None) -> AssetFolder:
    """Bring the published checkpoint into the hub's cache, with progress.

    Files that are there whole are kept, unless ``force``; a connection that breaks is taken up
    again where it stopped. The hub library's environment variables hold: HF_ENDPOINT (a mirror),
    HF_HOME, HF_HUB_OFFLINE and so on.

    Args:
        cache: another folder of caches than the hub's own.

    Raises:
        AssetError: it failed; the message says why, and what to do instead.
    """
    return _whole(AssetFolder(_snapshot(force, cache=cache), "huggingface"))


def _download_into(folder: Path, force: bool) -> AssetFolder:
    """Bring the published checkpoint into ``folder``, as ``folder/asset/...``."""
    return _whole(AssetFolder(_snapshot(force, folder=folder), "local"))


def _snapshot(force: bool, cache: Path | None = None, folder: Path | None = None) -> Path:
    import huggingface_hub

    try:
        if force:
            # Where the hub cannot be reached, the library would hand back what is cached, forced
            # or not. This question fails then.
            huggingface_hub.model_info(REPOSITORY)
        path = huggingface_hub.snapshot_download(
            REPOSITORY,
            cache_dir=cache,
            local_dir=folder,
            allow_patterns=_hub_files(),
            force_download=force,
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
    return Path(path)


def published_hashes() -> dict[str, str]:
    """The sha256 of each published file, by :func:`hash_key`."""
    files: dict[str, str] = published_facts()["sha256"]
    return {hash_key(name): value for name, value in files.items()}


def hash_key(name: str) -> str:
    """What scripts call the hash of a file: ``sha256_asset_DVAE_safetensors``."""
    return f"sha256_{re.sub('[./]', '_', name)}"


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


def _cached(cache: Path | None = None) -> AssetFolder | None:
    import huggingface_hub

    try:
        path = huggingface_hub.snapshot_download(
            REPOSITORY, cache_dir=cache, allow_patterns=_hub_files(), local_files_only=True
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
