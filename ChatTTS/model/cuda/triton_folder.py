"""The folder in which Triton keeps the kernels that it has compiled for a GPU."""

from __future__ import annotations

import logging
import os

import torch

from ...errors import ConfigError
from ...utils.cache_files import CacheFolder

logger = logging.getLogger(__name__)

VARIABLE = "TRITON_CACHE_DIR"


def keep_triton_kernels() -> None:
    """Have Triton keep its kernels beside the packed weights, in this process and its children.

    Its own folder is in the home folder, which a container or a service may lack or lose. For
    programs of this package: other programs choose the folder of their process themselves. A folder
    that the environment names stays. Triton reads what it finds there without a check, so the
    folder must be one that no other user can write to.
    """
    if os.environ.get(VARIABLE) or not torch.cuda.is_available():
        return
    try:
        folder = CacheFolder("triton")
        folder.make()
    except (OSError, ConfigError) as error:
        logger.info("Triton keeps its kernels where it does by itself: %s", error)
        return
    os.environ[VARIABLE] = str(folder.path)
