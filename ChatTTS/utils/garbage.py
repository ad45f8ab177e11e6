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


@contextmanager
def everything_watched() -> Iterator[None]:
    """Have the garbage collector leave out nothing within this context.

    Afterwards it leaves out all objects that there are then, if it did leave out some before.
    """
    were_left_out = gc.get_freeze_count()
    gc.unfreeze()
    try:
        yield
    finally:
        if were_left_out:
            gc.freeze()


def return_free_memory() -> None:
    """Give memory that nothing uses back to the system.

    The C library keeps freed memory for later. Only glibc can be asked to return it.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
