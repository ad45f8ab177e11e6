"""Import `vocos`, and the torchaudio it needs, where torchaudio's binary does not fit torch.

torchaudio's wheels are built against CUDA; beside a CPU build of torch (or one for another CUDA)
their shared library does not load, and `import torchaudio` fails as a whole. The mel spectrogram
that is wanted from it is pure Python, so a second try imports it as if it had been built without
the library, which torchaudio itself knows how to be. No installed file and nothing of torch is
changed.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import sys
import traceback
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from ..utils.locks import new_lock

logger = logging.getLogger(__name__)

# Its `_load_lib` loads the binaries, and answers False for one that is not there (2.11 and later).
_UTILS = "torchaudio._extension.utils"
# Earlier releases first ask whether this module can be found.
_BINARY = "torchaudio.lib._torchaudio"

_lock = new_lock()


def import_vocos() -> ModuleType:
    """The module `vocos`, on whatever build of torchaudio is installed.

    Raises:
        ModuleNotFoundError: vocos or torchaudio is not installed; the message has the remedy.
        Exception: whatever else their own code raises, unchanged.
    """
    ensure_torchaudio()
    return _import_declared("vocos")


def ensure_torchaudio() -> ModuleType:
    """The module `torchaudio`, without its binary where that does not load.

    May be called any number of times, from any thread; afterwards a plain `import torchaudio`
    anywhere gets the same module.

    Raises:
        ModuleNotFoundError: torchaudio is not installed; the message has the remedy.
        Exception: whatever else torchaudio's own code raises, unchanged. If it fails without
            the binary too, the error that came with the binary is its cause.
    """
    with _lock:
        try:
            return _import_declared("torchaudio")
        except (ImportError, OSError, RuntimeError) as error:
            if not _from_extension(error):
                raise
            logger.debug("torchaudio's binary does not load (%s); importing it without", error)
            _forget_torchaudio()
            try:
                with _without_binary():
                    return importlib.import_module("torchaudio")
            except Exception as second:
                raise second from error


def _import_declared(name: str) -> ModuleType:
    """Import a package that this distribution declares, and say how to get it if it is missing."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ModuleNotFoundError(
            f"the package {name!r}, which decodes speech, is not installed: pip install {name}",
            name=name,
        ) from error


def _from_extension(error: BaseException) -> bool:
    """Whether the error came up while torchaudio was setting up its binary."""
    return any(
        Path(frame.filename).parts[-3:-1] == ("torchaudio", "_extension")
        for frame in traceback.extract_tb(error.__traceback__)
    )


def _forget_torchaudio() -> None:
    """Drop the parts that a failed import left behind, for the next one to start from nothing."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchaudio"]:
        del sys.modules[name]


@contextlib.contextmanager
def _without_binary() -> Iterator[None]:
    """Within this context torchaudio is imported as if its binary had not been installed."""
    finder = _UtilsFinder()
    sys.meta_path.insert(0, finder)
    absent: Any = None  # Python's own mark for "there is no such module"
    sys.modules[_BINARY] = absent
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        sys.modules.pop(_BINARY, None)


class _UtilsFinder(MetaPathFinder):
    """Finds the module that loads the binaries where it always is, with a loader of ours."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _UTILS:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _UtilsLoader(spec.loader)
        return spec


class _UtilsLoader(Loader):
    """Runs the module as it is, then lets its `_load_lib` answer "not found"."""

    def __init__(self, inner: Loader) -> None:
        self._inner = inner

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        vars(module)["_load_lib"] = _not_found


def _not_found(lib: str) -> bool:
    return False
