"""Check and download the published checkpoint in a folder of the caller's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ..checkpoints.assets import hash_key, locate, published_hashes
from ..checkpoints.hashes import sha256
from ..config import published_facts
from .log import logger


def check_model(
    dir_name: str | os.PathLike[str], model_name: str, hash: str, remove_incorrect: bool = False
) -> bool:
    """Return whether the file exists and has this sha256.

    Args:
        remove_incorrect: rename a file that differs to ``model_name`` and ``.bak``.
    """
    path = Path(dir_name) / model_name
    if not path.is_file():
        logger.get_logger().info("%s is missing", path)
        return False
    found = sha256(path)
    if found == hash:
        return True
    logger.get_logger().warning("%s should have sha256 %s but has %s", path, hash, found)
    if remove_incorrect:
        path.replace(f"{path}.bak")
    return False


def check_all_assets(
    base_dir: str | os.PathLike[str],
    sha256_map: Mapping[str, str] | None = None,
    update: bool = False,
) -> bool:
    """Return whether ``base_dir/asset`` holds the published files.

    Args:
        sha256_map: the expected hashes, by names such as ``sha256_asset_DVAE_safetensors``; the
            published ones by default.
        update: rename the first file that differs, as :func:`check_model` does.
    """
    expected = published_hashes() if sha256_map is None else sha256_map
    return all(
        check_model(base_dir, name, expected[hash_key(name)], update)
        for name in published_facts()["sha256"]
    )


def download_all_assets(
    tmpdir: str | os.PathLike[str], homedir: str | os.PathLike[str], version: str = ""
) -> None:
    """Download the published checkpoint into ``homedir/asset``.

    Args:
        tmpdir, version: of a helper program of the published package; not used.

    Raises:
        AssetError: the download failed.
    """
    locate("local", custom_path=homedir)
