"""Compare numbers in eight bits on a GPU with float32, on equal codes, without a GPU.

The engine computes as it does on a GPU, with the torch references in place of its kernels. All
dtypes are given the codes that float32 draws on the CPU kernels; see ``cpu/precision.py``.

    python -m benchmarks.gpu.precision
"""

from __future__ import annotations

import pytest
import torch

from ChatTTS.core import Chat
from ChatTTS.model.devices import placement

from ..common.command import new_parser
from ..cpu.precision import measure

# The dtype of the weights, and of keys and values.
_WAYS = (
    ("float32", "auto"),
    ("float32", "int8"),
    ("bfloat16", "auto"),
    ("bfloat16", "int8"),
    ("int8", "auto"),
    ("int8", "int8"),
)


def load(dtype: str, kv_cache_dtype: str) -> Chat:
    """Return the bundled voice on the velocity engine."""
    chat = Chat()
    chat.load_or_raise(
        "bundled", device="cpu", use_vllm=True, dtype=dtype, kv_cache_dtype=kv_cache_dtype
    )
    return chat


def main() -> None:
    new_parser("gpu.precision", __doc__).parse_args()
    from .rehearsal import take_triton  # Triton reads its settings when it is imported

    exact = load("float32", "auto")
    with pytest.MonkeyPatch.context() as patch:
        take_triton(patch)
        # What is not in eight bits then has the dtype that it has on a GPU.
        patch.setattr(placement, "fast_dtype", lambda device: torch.bfloat16)
        for dtype, kv_cache_dtype in _WAYS:
            figures = measure(exact, load(dtype, kv_cache_dtype))
            print(
                f"{dtype}, keys and values {kv_cache_dtype}: {figures['same_greedy_codes']:.2%} of "
                f"the most probable codes are the same, hidden states differ by "
                f"{figures['hidden_error']:.2%}, the sound by {figures['waveform_snr_db']:.1f} dB",
                flush=True,
            )


if __name__ == "__main__":
    main()
