"""Objects that the garbage collector leaves out: all that a loaded model and a server keep."""

from __future__ import annotations

import gc
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
