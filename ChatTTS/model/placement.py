"""Where the model runs and in what precision: chosen here and nowhere else."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import torch

from ..errors import ConfigError, shown

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
        device: of the language model.
        dtype: of the language model; draws are made from float32 logits always.
        audio_device: of the convolutional parts.
        quantization: ``int8`` for weights in eight bits, on the velocity engine.
    """

    device: torch.device
    dtype: torch.dtype
    audio_device: torch.device
    quantization: str | None = None


def computed() -> torch.device:
    """Where numbers lie that are computed when a module is built.

    It is entered where all else of the module may be built under ``torch.device("meta")``.
    """
    return torch.device("cpu")


def choose_placement(
    device: str | torch.device | None = None, dtype: str | torch.dtype = "float32"
) -> Placement:
    """Pick devices and dtype.

    Args:
        device: ``None`` takes CUDA where there is one, else Apple's MPS, else the CPU.
        dtype: ``float32``, ``float16``, ``bfloat16``, ``auto`` for what the device is fast in, or
            ``int8`` for weights in eight bits and the rest in what the device is fast in.

    Raises:
        ConfigError: the device is not there, or the dtype unknown.
    """
    chosen = _device(device)
    # Vocos needs complex numbers and an inverse STFT, which MPS lacks in part.
    audio = torch.device("cpu") if chosen.type == "mps" else chosen
    if dtype == "int8":
        return Placement(chosen, fast_dtype(chosen), audio, quantization="int8")
    return Placement(chosen, _dtype(dtype, chosen), audio)


def _device(device: str | torch.device | None) -> torch.device:
    if device is None:
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
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
    """The dtype that ``device`` is fastest in."""
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    if device.type == "mps":
        return torch.float16
    # A private name, which older releases of torch lack.
    has_bf16 = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    return torch.bfloat16 if has_bf16() else torch.float32
