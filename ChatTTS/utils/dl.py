"""Check and fetch the published checkpoint in a folder of the caller's."""

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
    """Whether a file is there with this sha256.

    Args:
        remove_incorrect: put another file aside, as ``model_name`` with ``.bak`` behind it.
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
    """Whether ``base_dir/asset`` holds the published files.

    Args:
        sha256_map: what to expect, by names such as ``sha256_asset_DVAE_safetensors``; what was
            published by default.
        update: put the first file that differs aside.
    """
    expected = published_hashes() if sha256_map is None else sha256_map
    return all(
        check_model(base_dir, name, expected[hash_key(name)], update)
        for name in published_facts()["sha256"]
    )


def download_all_assets(
    tmpdir: str | os.PathLike[str], homedir: str | os.PathLike[str], version: str = ""
) -> None:
    """Bring the published checkpoint into ``homedir/asset``.

    Args:
        tmpdir, version: of a helper program that is not used here.

    Raises:
        AssetError: it failed.
    """
    locate("local", custom_path=homedir)
