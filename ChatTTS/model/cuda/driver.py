"""The GPU's driver, asked from C code: a thread that waits for an event holds no lock meanwhile.

A call of CUDA that waits would hold no lock either, but nothing ends it where the device hangs.
"""

from __future__ import annotations

import ctypes
import logging
import sys
from collections.abc import Callable
from functools import cache

from ...errors import ConfigError
from ..kernels.cpu.build import BuildError
from ..kernels.cpu.library import load_wait

logger = logging.getLogger(__name__)

# CUDA_ERROR_NOT_READY: the event's work is not done.
_NOT_READY = 600

# From an event's handle to whether the driver has answered; the numbers are how long to wait, how
# long of it without sleeping, and how long to sleep, all in seconds.
DriverWait = Callable[[int, float, float, float], bool]


@cache
def driver_wait() -> DriverWait | None:
    """Return what waits for an event of CUDA; ``None`` where C code cannot ask the driver.

    It returns True as soon as the driver answers anything but "not ready", errors among it.
    """
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        return wait_by(driver.cuEventQuery, _NOT_READY)
    except (OSError, AttributeError, BuildError, ConfigError) as error:
        logger.info("Python asks the GPU whether it is done, which holds up threads: %s", error)
        return None


def wait_by(query: Callable[..., int], pending: int) -> DriverWait:
    """Return what waits until ``query``, a function of C, gives anything but ``pending``.

    Raises:
        BuildError: the function that asks it cannot be compiled here.
    """
    function, address = load_wait(), ctypes.cast(query, ctypes.c_void_p)  # type: ignore[arg-type]

    def wait(handle: int, seconds: float, awake_seconds: float, poll_seconds: float) -> bool:
        return bool(function(address, handle, pending, seconds, awake_seconds, poll_seconds))

    return wait
