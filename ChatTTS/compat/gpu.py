"""Choose a device for ``Chat.load(device=...)``, as scripts of the published package do."""

from __future__ import annotations

import torch

from .log import logger


def select_device(min_memory: int = 2047, experimental: bool = False) -> torch.device:
    """Return the CUDA device with the most free memory, else the CPU.

    Args:
        min_memory: MiB that must be free on it.
        experimental: use Apple's MPS where there is no CUDA.
    """
    log = logger.get_logger()
    if torch.cuda.is_available():
        free = [torch.cuda.mem_get_info(i)[0] >> 20 for i in range(torch.cuda.device_count())]
        best = max(range(len(free)), key=free.__getitem__)
        if free[best] >= min_memory:
            return torch.device("cuda", best)
        log.warning("cuda:%d has %d MiB left: the CPU is used", best, free[best])
    elif torch.backends.mps.is_available():
        if experimental:
            return torch.device("mps")
        log.info("an Apple GPU is present; experimental=True uses it")
    return torch.device("cpu")
