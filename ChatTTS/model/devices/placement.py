"""The devices and the dtype of the model. No other module chooses them."""

from __future__ import annotations

import logging
import os
import shutil
from dataclasses import dataclass

import torch

from ...errors import ConfigError, shown
from . import instruction_sets

logger = logging.getLogger(__name__)

_DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


@dataclass(frozen=True)
class Placement:
    """Devices and dtype.

    Attributes:
        device: the device of the language model.
        dtype: the dtype of the language model. Draws always use float32 logits.
        audio_device: the device of the convolutional parts.
        quantization: ``int8`` for weights in eight bits, on the velocity engine.
    """

    device: torch.device
    dtype: torch.dtype
    audio_device: torch.device
    quantization: str | None = None


def computed() -> torch.device:
    """Return the device of tensors that are computed while a module is built.

    Modules enter it for these tensors, since the rest of a module may be built under
    ``torch.device("meta")``.
    """
    return torch.device("cpu")


def choose_placement(
    device: str | torch.device | None = None, dtype: str | torch.dtype = "float32"
) -> Placement:
    """Choose devices and dtype.

    Args:
        device: ``None`` takes CUDA if there is a GPU, else Apple's MPS, else the CPU.
        dtype: ``float32``, ``float16`` or ``bfloat16``; ``auto`` for the fastest dtype of the
            device; or ``int8`` for weights in eight bits and the rest in that one.

    Raises:
        ConfigError: the device cannot be used, or the dtype is unknown.
    """
    chosen = _device(device)
    # Vocos needs complex numbers and an inverse STFT, and MPS lacks parts of these.
    audio = torch.device("cpu") if chosen.type == "mps" else chosen
    if dtype == "int8":
        return Placement(chosen, fast_dtype(chosen), audio, quantization="int8")
    return Placement(chosen, _dtype(dtype, chosen), audio)


def _device(device: str | torch.device | None) -> torch.device:
    if device is None:
        if torch.cuda.is_available():
            return torch.device("cuda")
        if torch.backends.mps.is_available():
            return torch.device("mps")
        _warn_of_unused_gpu()
        return torch.device("cpu")
    try:
        chosen = torch.device(device)
        torch.empty(1, device=chosen)
        if chosen.type == "meta":
            raise RuntimeError("it holds no values")
    except (RuntimeError, AssertionError, NotImplementedError, TypeError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConfigError(
            f"the device {shown(device)} cannot be used here ({reason}); `chattts doctor` lists "
            "those that can, and device=None picks one"
        ) from error
    return chosen


def _dtype(dtype: str | torch.dtype, device: torch.device) -> torch.dtype:
    if dtype == "auto":
        return fast_dtype(device)
    chosen = _DTYPES.get(str(dtype).removeprefix("torch."))
    if chosen is None:
        raise ConfigError(f"dtype must be auto, int8, {', '.join(_DTYPES)}, not {dtype!r}")
    if chosen is torch.float16 and device.type == "cpu":
        logger.info("float16 is slow on most CPUs; dtype='auto' takes what this one is fast in")
    return chosen


def fast_dtype(device: torch.device) -> torch.dtype:
    """Return the dtype in which ``device`` is fastest."""
    if device.type == "cuda":
        return torch.bfloat16 if _computes_bf16(device) else torch.float16
    if device.type == "mps":
        return torch.float16
    # This private function is missing in older releases of torch.
    has_bf16 = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    return (
        torch.bfloat16 if has_bf16() or instruction_sets.multiplies_bf16_on_arm() else torch.float32
    )


def _computes_bf16(device: torch.device) -> bool:
    """Return whether a CUDA device has instructions for bfloat16; torch also counts emulation."""
    if torch.version.hip is not None:
        return bool(torch.cuda.is_bf16_supported())
    return torch.cuda.get_device_capability(device) >= (8, 0)


def _warn_of_unused_gpu() -> None:
    """Log why a machine with NVIDIA's driver computes on the CPU, and the remedy."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    if hidden or torch.version.hip is not None or shutil.which("nvidia-smi") is None:
        return
    if torch.version.cuda is None:
        logger.warning(
            "the GPU is not used, because this torch is built for CPUs: install a CUDA build of "
            "torch from pytorch.org, or load with device='cpu' to say that the CPU is meant"
        )
        return
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call, unused-ignore]
    except (RuntimeError, AssertionError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        logger.warning(
            "the GPU is not used (%s): update NVIDIA's driver, or install a torch that is built "
            "for CUDA as old as the driver's, below %s",
            reason,
            torch.version.cuda,
        )
