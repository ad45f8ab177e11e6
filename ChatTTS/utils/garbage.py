"""Objects that the garbage collector leaves out, and memory that is used again or goes back."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_ARENA_MAX = -8  # of glibc's malloc.h
_ARENAS = 2


def share_free_memory() -> None:
    """Have all threads allocate from two heaps; call it before threads start.

    By default glibc makes up to eight heaps for each core, and memory that a thread has freed
    serves no other heap. A server of many threads so grows for hours. The environment variable
    ``MALLOC_ARENA_MAX`` is heeded.
    """
    if sys.platform == "linux" and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_ARENA_MAX, _ARENAS)


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
    """Give memory that nothing uses back to the system, also that of objects in cycles.

    The C library keeps freed memory for later. Only glibc can be asked to return it.
    """
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
