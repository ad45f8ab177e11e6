"""Import `vocos`, and the torchaudio it needs, where torchaudio's binary does not fit torch.

torchaudio's wheels are built against CUDA. With a CPU build of torch (or one for another CUDA)
their shared library does not load, and `import torchaudio` fails as a whole. The mel spectrogram,
all that this package needs of it, is pure Python. So a second attempt imports torchaudio as if it
had been built without the library, which torchaudio itself supports. It changes no installed file
and nothing of torch.
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

# Its `_load_lib` loads the binaries, and returns False for one that is not there (2.11 and later).
_UTILS = "torchaudio._extension.utils"
# Earlier releases first ask whether this module can be found.
_BINARY = "torchaudio.lib._torchaudio"

_lock = new_lock()


def import_vocos() -> ModuleType:
    """Return the module `vocos`, whatever build of torchaudio is installed.

    Raises:
        ModuleNotFoundError: vocos or torchaudio is not installed; the message has the remedy.
        Exception: any other error of their own code, unchanged.
    """
    ensure_torchaudio()
    return _import_declared("vocos")


def ensure_torchaudio() -> ModuleType:
    """Return the module `torchaudio`, without its binary where that does not load.

    May be called any number of times, from any thread; afterwards a plain `import torchaudio`
    anywhere gets the same module.

    Raises:
        ModuleNotFoundError: torchaudio is not installed; the message has the remedy.
        Exception: any other error of torchaudio's own code, unchanged. If the import without the
            binary fails too, its cause is the error of the first attempt.
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
    """Import a package that this distribution requires; an error says how to install it."""
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
    """Return whether torchaudio raised the error while it was loading its binary."""
    return any(
        Path(frame.filename).parts[-3:-1] == ("torchaudio", "_extension")
        for frame in traceback.extract_tb(error.__traceback__)
    )


def _forget_torchaudio() -> None:
    """Remove the modules that a failed import left behind, so that the next one starts afresh."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchaudio"]:
        del sys.modules[name]


@contextlib.contextmanager
def _without_binary() -> Iterator[None]:
    """Import torchaudio within this context as if its binary had not been installed."""
    finder = _UtilsFinder()
    sys.meta_path.insert(0, finder)
    absent: Any = None  # Python's own value for "there is no such module"
    sys.modules[_BINARY] = absent
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        sys.modules.pop(_BINARY, None)


class _UtilsFinder(MetaPathFinder):
    """Finds the module that loads the binaries in its usual place, and gives it another loader."""

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
    """Runs the module unchanged, then has its `_load_lib` answer "not found"."""

    def __init__(self, inner: Loader) -> None:
        self._inner = inner

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        vars(module)["_load_lib"] = _not_found


def _not_found(lib: str) -> bool:
    return False
