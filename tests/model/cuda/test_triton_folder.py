"""Where compiled kernels of a GPU are kept."""

import os
import sys
from pathlib import Path

import pytest
import torch

from ChatTTS.model.cuda.triton_folder import VARIABLE, keep_triton_kernels


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder of this package, which is not there yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    return tmp_path / "chattts-velocity"


def test_they_lie_in_the_cache_folder(cache: Path) -> None:
    keep_triton_kernels()
    assert os.environ[VARIABLE] == str(cache / "triton")
    assert (cache / "triton").is_dir()


def test_without_a_gpu_there_is_no_folder(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    keep_triton_kernels()
    assert os.environ[VARIABLE] == ""
    assert not cache.exists()


def test_a_folder_of_the_caller_stays(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/of/the/caller")
    keep_triton_kernels()
    assert os.environ[VARIABLE] == "/of/the/caller"
    assert not cache.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_a_folder_that_others_may_fill_is_not_used(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cache / "triton").mkdir(parents=True)
    (cache / "triton").chmod(0o777)
    monkeypatch.setattr(Path, "chmod", lambda *_: None)  # as in a folder of another user
    keep_triton_kernels()
    assert os.environ[VARIABLE] == ""


def test_a_cache_that_cannot_be_made_is_no_failure(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.write_text("a file")
    keep_triton_kernels()
    assert os.environ[VARIABLE] == ""
