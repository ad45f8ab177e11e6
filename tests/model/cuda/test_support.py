"""The check for kernels: whether they can run, and the reason that is given where they cannot."""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ChatTTS.errors import ConfigError
from ChatTTS.model.cuda import support
from ChatTTS.model.cuda.support import why_no_kernels
from ChatTTS.model.velocity import model_loader
from ChatTTS.model.velocity.configs import EngineArgs
from ChatTTS.model.velocity.model_loader import ModelLoader

from ...support.places import DATA

CUDA = torch.device("cuda")
ARGS = EngineArgs(DATA / "model-a", device="cpu")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Pretend that the least GPU that the kernels need is there; yield the monkeypatch."""
    support._why_none_is_launched.cache_clear()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    # The probe may not wait for the whole device, on which another thread may be capturing.
    monkeypatch.delattr(torch.cuda, "synchronize")
    stream = SimpleNamespace(synchronize=lambda: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    yield monkeypatch
    support._why_none_is_launched.cache_clear()


def launch(monkeypatch: pytest.MonkeyPatch, error: Exception | None) -> None:
    pytest.importorskip("triton")
    from ChatTTS.model.kernels.cuda import norm

    def rms_norm(*_: object) -> None:
        if error is not None:
            raise error

    monkeypatch.setattr(norm, "rms_norm", rms_norm)
    ones = torch.ones
    monkeypatch.setattr(torch, "ones", lambda *sizes, device: ones(*sizes))
    monkeypatch.setattr(support, "on_device", lambda device: nullcontext())


def test_a_good_gpu(gpu: pytest.MonkeyPatch) -> None:
    launch(gpu, None)
    assert why_no_kernels(CUDA) is why_no_kernels(CUDA, 128) is None
    assert "heads of 128 numbers at most, not 129" in str(why_no_kernels(CUDA, 129))


@pytest.mark.parametrize(
    ("where", "name", "value", "reason"),
    [
        (torch.cuda, "is_available", lambda: False, "no CUDA device is there"),
        (torch.version, "hip", "6.2", "for ROCm"),
        (importlib.util, "find_spec", lambda name: None, "pip install triton"),
        (support, "_triton_version", lambda: (3, 2), "triton 3.2 aborts the process"),
        (torch.cuda, "get_device_capability", lambda device: (7, 5), "capability 8.0"),
    ],
)
def test_what_is_missing_is_said(
    gpu: pytest.MonkeyPatch, where: Any, name: str, value: Any, reason: str
) -> None:
    launch(gpu, None)
    gpu.setattr(where, name, value)
    found = why_no_kernels(CUDA)
    assert found is not None
    assert reason in found


def header(gpu: pytest.MonkeyPatch, folder: Path) -> Path:
    """Return the place of ``Python.h``, where no file is yet."""
    gpu.setattr(sysconfig, "get_paths", lambda: {"include": str(folder)})
    return folder / "Python.h"


def test_a_python_without_its_headers(gpu: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wanted = header(gpu, tmp_path)
    launch(gpu, RuntimeError("Command gcc returned 1"))
    assert why_no_kernels(CUDA) == (
        f"Triton cannot launch a kernel (Command gcc returned 1); it needs {wanted}, which a "
        "package such as python3-dev has, or another build of Python"
    )


def test_advice_on_windows(gpu: pytest.MonkeyPatch, tmp_path: Path) -> None:
    header(gpu, tmp_path).touch()
    gpu.setattr(sys, "platform", "win32")
    launch(gpu, RuntimeError("Failed to find C compiler."))
    assert "triton-windows brings one" in str(why_no_kernels(CUDA))
    gpu.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install triton-windows" in str(why_no_kernels(CUDA))


def test_a_kernel_that_cannot_be_launched(gpu: pytest.MonkeyPatch, tmp_path: Path) -> None:
    header(gpu, tmp_path).touch()
    launch(gpu, RuntimeError("Failed to find C compiler.\nMore."))
    assert why_no_kernels(CUDA) == (
        "Triton cannot launch a kernel (Failed to find C compiler.); it needs a C compiler such "
        "as gcc"
    )


def test_a_model_that_does_not_fit_says_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(*_: object) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate everything")

    monkeypatch.setattr(model_loader, "load_embed", too_large)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (100 << 20, 8000 << 20))
    with pytest.raises(ConfigError, match=r"100 MB free of 8000 MB: .* dtype='bfloat16'"):
        ModelLoader(ARGS.create_engine_config()).load()


def test_limits_follow_the_device() -> None:
    def limits(**changes: Any) -> tuple[int, int]:
        scheduler = EngineArgs(DATA, **changes).create_engine_config().scheduler
        return scheduler.max_num_batched_tokens, scheduler.max_num_seqs

    assert limits(device="cpu") == limits() == (128, 64)
    assert limits(device="cuda:1") == (512, 256)
    assert limits(device="cuda", max_num_seqs=3) == (512, 3)
