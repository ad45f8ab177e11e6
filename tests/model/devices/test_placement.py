"""The dtype that a GPU is fast in, and the warning about a GPU that torch cannot use."""

from __future__ import annotations

import shutil

import pytest
import torch

from ChatTTS.model.devices.placement import choose_placement, fast_dtype


@pytest.mark.parametrize(
    ("capabilities", "dtype"),
    [
        ({"cuda:0": (9, 0), "cuda:1": (7, 5)}, torch.float16),
        ({"cuda:0": (7, 5), "cuda:1": (8, 0)}, torch.bfloat16),
    ],
)
def test_auto_asks_about_the_given_gpu(
    monkeypatch: pytest.MonkeyPatch,
    capabilities: dict[str, tuple[int, int]],
    dtype: torch.dtype,
) -> None:
    """Torch says of capability 7.5 that it supports bfloat16, which it emulates there."""
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda at: capabilities[str(at)])
    assert fast_dtype(torch.device("cuda:1")) is dtype


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Pretend that NVIDIA's driver is there, and that torch cannot use it."""

    def init() -> None:
        raise RuntimeError("The NVIDIA driver on your system is too old (found 11040).\nMore.")

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "init", init)
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    return monkeypatch


def test_a_driver_that_is_too_old(
    driver: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert choose_placement().device.type == "cpu"
    (message,) = caplog.messages
    assert "is too old (found 11040).): update NVIDIA's driver" in message
    assert "below 12.8" in message


def test_a_torch_for_cpus(driver: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    driver.setattr(torch.version, "cuda", None)
    assert choose_placement().device.type == "cpu"
    assert "built for CPUs" in caplog.messages[0]


def test_a_cpu_that_is_meant(driver: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    choose_placement("cpu")
    driver.setenv("CUDA_VISIBLE_DEVICES", "")
    choose_placement()
    driver.delenv("CUDA_VISIBLE_DEVICES")
    driver.setattr(shutil, "which", lambda name: None)
    choose_placement()
    assert caplog.messages == []
