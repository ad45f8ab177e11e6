"""Objects that the garbage collector leaves out, and memory that goes back to the system."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def leave_out_objects() -> None:
    """Have the garbage collector leave out all objects that there are now.

    A full collection looks at each object that it does not leave out, and stops every stream
    meanwhile.
    """
    gc.collect()
    gc.freeze()


@contextmanager
def unwatched() -> Iterator[None]:
    """Have the garbage collector leave out what was loaded until now, until the block ends."""
    leave_out_objects()
    try:
        yield
    finally:
        gc.unfreeze()


def return_free_memory() -> None:
    """Free what is in cycles, and give memory that nothing uses back to the system.

    The C library keeps freed memory for later. Only glibc can be asked to return it.
    """
    were_left_out = gc.get_freeze_count()
    gc.unfreeze()
    gc.collect()
    if were_left_out:
        gc.freeze()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
