"""Import `transformers` beside a torchaudio that does not load.

transformers imports torchaudio wherever that is installed, and neither it nor this package needs
anything of it here. torchaudio's binary fits one build of torch: beside another, say one for CPUs,
its import fails, and the import of transformers with it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType

from ...utils.locks import new_lock

logger = logging.getLogger(__name__)

_TORCHAUDIO = "torchaudio"
_lock = new_lock()


@contextlib.contextmanager
def importing_transformers() -> Iterator[None]:
    """Import transformers, or a package that does, within this context.

    An empty module stands in for a torchaudio that does not load. (It cannot be hidden instead:
    transformers remembers whether it is installed, once something has asked.) One thread at a time
    is in the context.
    """
    with _lock:
        if _loads():
            yield
            return
        sys.modules[_TORCHAUDIO] = stand_in = ModuleType(_TORCHAUDIO)
        stand_in.__spec__ = ModuleSpec(_TORCHAUDIO, loader=None)
        try:
            yield
        finally:
            sys.modules.pop(_TORCHAUDIO, None)


def _loads() -> bool:
    """Return whether torchaudio can be imported, or is not there at all."""
    if importlib.util.find_spec(_TORCHAUDIO) is None:
        return True
    try:
        importlib.import_module(_TORCHAUDIO)
    except Exception as error:  # its own code may raise anything
        logger.debug("torchaudio does not load (%s); importing transformers without it", error)
        return False
    return True
