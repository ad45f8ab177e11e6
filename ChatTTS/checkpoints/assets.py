"""Find a checkpoint: in a folder, in the hub's cache, on the hub, or inside the package.

A checkpoint is a folder ``asset/`` of safetensors and JSON files. The module ``hashes`` compares
them with the published hashes, and ``tensor_file`` opens them.
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

# The other files of the published tokenizer repeat tokenizer.json, and checkpoints that were saved
# by newer libraries lack them.
_REQUIRED = (
    "asset/gpt/config.json",
    "asset/gpt/model.safetensors",
    "asset/Embed.safetensors",
    "asset/Decoder.safetensors",
    "asset/DVAE.safetensors",
    "asset/Vocos.safetensors",
    "asset/tokenizer/tokenizer.json",
)
# Where the hub library keeps the state of a download into a custom folder.
_DOWNLOAD_STATE = Path(".cache", "huggingface")
_BUNDLED = Path(__file__).parents[1] / "bundled"


@dataclass(frozen=True)
class AssetFolder:
    """A checkpoint on disk; ``path`` holds ``asset/``, or is that folder under another name."""

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
        """Weights of the Decoder, from hidden states to mel frames."""
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

    @property
    def alignment_heads(self) -> Path:
        """Attention heads that a search chose for the times of words; the file is optional."""
        return self.asset / "alignment_heads.json"

    @property
    def speech_lengths(self) -> Path:
        """The lengths of its speech, learned from what it spoke; the file is optional."""
        return self.asset / "speech_lengths.json"

    def missing(self) -> list[str]:
        """Return the names of required files that are not there."""
        return [name for name in _REQUIRED if not self.file(name).is_file()]

    def file(self, name: str) -> Path:
        """Return the path of the file that is published as ``name``, ``asset/...``."""
        return self.asset / name.removeprefix("asset/")


def locate(
    source: str = "local",
    custom_path: str | os.PathLike[str] | None = None,
    force_redownload: bool = False,
) -> AssetFolder:
    """Find the checkpoint that ``source`` names, and check that no file is missing.

    Args:
        source: ``local`` takes ``./asset``, else the hub's cache, else downloads; ``custom`` takes
            ``custom_path``; ``huggingface`` the hub's cache, else downloads; ``bundled`` the voice
            inside this package.
        custom_path: with ``custom`` or ``local``, the folder that holds ``asset/``, or that folder.
            With ``local``, the download goes there if the folder has no file of a checkpoint. With
            ``huggingface``, a cache that replaces the hub's own.
        force_redownload: download again in any case (``custom`` and ``bundled`` ignore it).

    Raises:
        AssetError: files are missing (all are named), or the download failed.
        ConfigError: the source is unknown, or ``custom`` has no path.
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
    except (RuntimeError, TypeError) as error:  # ~ of a user without a home folder, or no path
        raise ConfigError(f"custom_path={shown(custom_path)} is not a folder ({error})") from error


def _local(path: Path | None, force_redownload: bool) -> AssetFolder:
    if path is not None:
        folder = AssetFolder(path, "local")
        # An incomplete checkpoint is the user's own, unless our download of it was interrupted.
        is_begun = (path / _DOWNLOAD_STATE).exists() or len(folder.missing()) == len(_REQUIRED)
        if force_redownload or (is_begun and folder.missing()):
            return _whole(AssetFolder(_snapshot(force_redownload, folder=path), "local"))
        return _whole(folder)
    if force_redownload:
        return download(force=True)
    here = Path.cwd()
    if (here / "asset").is_dir():
        folder = AssetFolder(here, "local")
        # A folder of that name with none of the files is something else, such as pictures.
        if len(folder.missing()) < len(_REQUIRED):
            return _whole(folder)
    return _cached() or download()


def is_cached() -> bool:
    """Return whether the hub's cache has the whole published checkpoint; uses no network."""
    return _cached() is not None


def download(force: bool = False, cache: Path | None = None) -> AssetFolder:
    """Download the published checkpoint into the hub's cache, with a progress bar.

    Complete files are kept, unless ``force``. A download that was interrupted continues where it
    stopped. The hub library's environment variables apply: HF_ENDPOINT (a mirror), HF_HOME,
    HF_HUB_OFFLINE and so on.

    Args:
        cache: a folder that replaces the hub's own cache.

    Raises:
        AssetError: the download failed; the message has the reason and the remedy.
    """
    return _whole(AssetFolder(_snapshot(force, cache=cache), "huggingface"))


def _snapshot(force: bool, cache: Path | None = None, folder: Path | None = None) -> Path:
    import huggingface_hub

    try:
        if force:
            # Without a connection the library returns the cached files even if forced. This call
            # raises instead.
            huggingface_hub.model_info(REPOSITORY)
        path = huggingface_hub.snapshot_download(
            REPOSITORY,
            cache_dir=cache,
            local_dir=folder,
            allow_patterns=_hub_files(),
            force_download=force,
        )
    except Exception as error:  # the library's transports raise many kinds
        raise AssetError(
            f"downloading {REPOSITORY} from {huggingface_hub.constants.ENDPOINT} failed "
            f"({_reason(error)}). Downloaded files are kept: run `chattts download` again when the "
            "network works, or set HF_ENDPOINT to a mirror of the hub; or pass the folder of a "
            "checkpoint with source='custom' and custom_path; or use the bundled voice, "
            "source='bundled'"
        ) from error
    logger.info("%s is in %s", REPOSITORY, path)
    return Path(path)


def published_hashes() -> dict[str, str]:
    """Return the sha256 of each published file, by :func:`hash_key`."""
    files: dict[str, str] = published_facts()["sha256"]
    return {hash_key(name): value for name, value in files.items()}


def hash_key(name: str) -> str:
    """Return the key of a file's hash in scripts, such as ``sha256_asset_DVAE_safetensors``."""
    return f"sha256_{re.sub('[./]', '_', name)}"


def _hub_files() -> list[str]:
    return list(published_facts()["sha256"])


def _whole(folder: AssetFolder) -> AssetFolder:
    """Return ``folder``, or raise with the names of all missing files."""
    if not folder.path.is_dir():
        raise AssetError(
            f"there is no folder {folder.path}; give one that contains asset/, or use "
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
    from huggingface_hub import constants

    # Downloads are imported with a client of HTTP, which takes long where nothing is stored.
    stored = cache or Path(constants.HF_HUB_CACHE)
    if not (stored / f"models--{REPOSITORY.replace('/', '--')}").is_dir():
        return None
    import huggingface_hub

    try:
        path = huggingface_hub.snapshot_download(
            REPOSITORY, cache_dir=cache, allow_patterns=_hub_files(), local_files_only=True
        )
    except (OSError, ValueError):  # its errors for "not here" and "incomplete"
        return None
    folder = AssetFolder(Path(path), "huggingface")
    return None if folder.missing() else folder


def _reason(error: BaseException) -> str:
    """Return the first error of a chain as one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    first_line = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__
