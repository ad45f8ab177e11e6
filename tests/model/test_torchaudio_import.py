"""torchaudio beside a build of torch that its binary does not fit, with fakes and for real."""

from __future__ import annotations

import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ChatTTS.model.torchaudio_import import ensure_torchaudio, import_vocos

# Both ways in which torchaudio's releases look for their binary: the older ask whether a module
# can be found, the newer (2.11) whether a file is there.
OLDER = """
    import importlib.util
    from .utils import _load_lib
    AVAILABLE = importlib.util.find_spec("torchaudio.lib._torchaudio") is not None
    if AVAILABLE:
        _load_lib("libtorchaudio")
"""
NEWER = """
    from .utils import _load_lib
    AVAILABLE = _load_lib("_torchaudio")
"""
LOADS = "def _load_lib(lib):\n    return True\n"
DOES_NOT_LOAD = "def _load_lib(lib):\n    raise OSError('undefined symbol in ' + lib)\n"

MakeTorchaudio = Callable[..., None]


@pytest.fixture
def torchaudio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeTorchaudio]:
    """Put a torchaudio of the test's own making in the place of the installed one."""
    real = {name: sys.modules[name] for name in _loaded()}

    def make(extension: str = NEWER, utils: str = DOES_NOT_LOAD, functional: str = "") -> None:
        files = {
            "__init__.py": "from . import _extension\nfrom . import functional\n",
            "_extension/__init__.py": extension,
            "_extension/utils.py": utils,
            "functional.py": functional,
            "lib/__init__.py": "",
            "lib/_torchaudio.py": "",
        }
        for name, text in files.items():
            path = tmp_path / "torchaudio" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))

    for name in real:
        del sys.modules[name]
    monkeypatch.syspath_prepend(tmp_path)
    yield make
    for name in _loaded():
        del sys.modules[name]
    sys.modules.update(real)


def _loaded() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] == "torchaudio"]


@pytest.mark.parametrize("extension", [OLDER, NEWER], ids=["older", "newer"])
def test_a_binary_that_does_not_load_is_left_out(
    torchaudio: MakeTorchaudio, extension: str
) -> None:
    torchaudio(extension, functional="ANSWER = 42")
    finders = list(sys.meta_path)
    module = ensure_torchaudio()
    assert module.functional.ANSWER == 42
    assert module._extension.AVAILABLE is False
    assert sys.meta_path == finders
    assert "torchaudio.lib._torchaudio" not in sys.modules
    assert ensure_torchaudio() is module is sys.modules["torchaudio"]


@pytest.mark.parametrize("extension", [OLDER, NEWER], ids=["older", "newer"])
def test_a_binary_that_loads_is_kept(torchaudio: MakeTorchaudio, extension: str) -> None:
    torchaudio(extension, utils=LOADS)
    assert ensure_torchaudio()._extension.AVAILABLE is True


def test_a_second_try_starts_from_nothing(torchaudio: MakeTorchaudio) -> None:
    torchaudio("from torchaudio import functional\n" + textwrap.dedent(NEWER), functional="X = []")
    before = []

    class Spy:
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name == "torchaudio":
                before.append(_loaded())

    sys.meta_path.insert(0, Spy())
    try:
        ensure_torchaudio()
    finally:
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, Spy)]
    assert before == [[], ["torchaudio.lib._torchaudio"]]  # the mark of a module that is absent


@pytest.mark.parametrize("error", [OSError, ImportError, RuntimeError, ValueError])
def test_an_error_of_the_python_part_is_not_hidden(
    torchaudio: MakeTorchaudio, error: type[Exception]
) -> None:
    torchaudio(utils=LOADS, functional=f"raise {error.__name__}('broken by hand')")
    with pytest.raises(error, match="broken by hand") as caught:
        ensure_torchaudio()
    assert caught.value.__cause__ is None


def test_an_error_of_another_kind_in_the_extension_is_not_hidden(
    torchaudio: MakeTorchaudio,
) -> None:
    torchaudio(utils="raise KeyError('not about loading')")
    with pytest.raises(KeyError, match="not about loading") as caught:
        ensure_torchaudio()
    assert caught.value.__cause__ is None


def test_if_it_fails_without_the_binary_too_both_errors_are_told(
    torchaudio: MakeTorchaudio,
) -> None:
    torchaudio(functional="raise ValueError('broken by hand')")
    with pytest.raises(ValueError, match="broken by hand") as caught:
        ensure_torchaudio()
    assert isinstance(caught.value.__cause__, OSError)
    assert "undefined symbol" in str(caught.value.__cause__)


def test_a_missing_torchaudio_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchaudio", None)
    with pytest.raises(ModuleNotFoundError, match="pip install torchaudio"):
        ensure_torchaudio()


def test_what_torchaudio_itself_misses_is_not_called_torchaudio(
    torchaudio: MakeTorchaudio,
) -> None:
    torchaudio(utils=LOADS, functional="import surely_not_installed")
    with pytest.raises(ModuleNotFoundError, match="surely_not_installed"):
        ensure_torchaudio()


def test_threads_get_one_module(torchaudio: MakeTorchaudio) -> None:
    torchaudio(functional="import time; time.sleep(0.02)")
    found: list[ModuleType] = []
    threads = [threading.Thread(target=lambda: found.append(ensure_torchaudio())) for _ in "1234"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(map(id, found))) == 1


def test_the_installed_vocos_and_torchaudio_work() -> None:
    vocos = import_vocos()
    assert vocos is import_vocos()
    assert issubclass(vocos.Vocos, object)
    mel = ensure_torchaudio().transforms.MelSpectrogram(sample_rate=24000, n_fft=1024, n_mels=100)
    assert mel.mel_scale.fb.shape == (513, 100)
