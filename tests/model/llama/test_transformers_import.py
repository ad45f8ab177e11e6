"""Importing transformers beside a torchaudio that works, that does not load, and without one."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ChatTTS.model.llama.transformers_import import importing_transformers

BROKEN = "raise OSError('undefined symbol in _torchaudio.so')\n"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Put a torchaudio of the test's own making before the installed one; give its file."""
    real = {name: sys.modules[name] for name in _loaded()}
    for name in real:
        del sys.modules[name]
    file = tmp_path / "torchaudio" / "__init__.py"
    file.parent.mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    yield file
    for name in _loaded():
        del sys.modules[name]
    sys.modules.update(real)


def _loaded() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] == "torchaudio"]


def is_stand_in() -> bool:
    """Return whether torchaudio can be imported, is known to be there, and is empty."""
    module = sys.modules.get("torchaudio")
    return module is not None and not hasattr(module, "__file__") and _spec() is not None


def _spec() -> object:
    return importlib.util.find_spec("torchaudio")


@pytest.mark.parametrize("code", [BROKEN, "raise ValueError", "import surely_not_installed"])
def test_an_empty_module_stands_in_for_one_that_does_not_load(installed: Path, code: str) -> None:
    installed.write_text(code)
    for _ in range(2):
        with importing_transformers():
            importlib.import_module("torchaudio")
            assert is_stand_in()
        assert "torchaudio" not in sys.modules


def test_it_is_gone_after_an_error(installed: Path) -> None:
    installed.write_text(BROKEN)
    with pytest.raises(KeyError), importing_transformers():
        raise KeyError
    assert "torchaudio" not in sys.modules


def test_one_that_loads_is_kept(installed: Path) -> None:
    installed.write_text("answer = 42\n")
    with importing_transformers():
        assert importlib.import_module("torchaudio").answer == 42
    assert importlib.import_module("torchaudio").answer == 42


def test_without_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    before = dict.fromkeys(_loaded())
    with importing_transformers():
        assert dict.fromkeys(_loaded()) == before


def test_one_thread_at_a_time(installed: Path) -> None:
    installed.write_text(BROKEN)
    inside, wrong = [0], []

    def enter() -> None:
        for _ in range(20):
            with importing_transformers():
                inside[0] += 1
                wrong.append(inside[0] != 1 or not is_stand_in())
                inside[0] -= 1

    threads = [threading.Thread(target=enter) for _ in "1234"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrong) == 80
    assert not any(wrong)


def test_transformers_is_imported_beside_the_installed_one() -> None:
    with importing_transformers():
        module = importlib.import_module("transformers.models.llama.modeling_llama")
    assert issubclass(module.LlamaModel, object)
