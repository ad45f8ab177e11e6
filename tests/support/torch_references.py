"""The torch references in place of the kernels.

The code around the kernels is so tested without waiting for Triton's interpreter. Each kernel is
compared with its reference in tests of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest
from torch import Tensor

from .capture_tools import capture_anywhere
from .kernel_tools import DEVICE  # noqa: F401  before any kernel

from ChatTTS.model.kernels.cuda import (  # isort: skip
    attention,
    low_rank,
    output_product,
    prefill,
    products,
    prompt_attention,
    sampling,
    step_results,
    swiglu,
    text_attention,
)
from ChatTTS.model.kernels import torch_references  # isort: skip
from ChatTTS.model.velocity.backends.cuda import decode_steps, operations, sampler  # isort: skip

# The kernels by name, each with the module that holds its reference.
KERNELS = {
    "attend_chunks": prefill,
    "attend_new_rows": attention,
    "attend_prompts": prompt_attention,
    "attend_rows": torch_references,
    "attend_text": text_attention,
    "sample_codes": sampling,
    "embed_rows": torch_references,
    "product": products,
    "product_of_splits": output_product,
    "rms_norm": torch_references,
    "rotate_and_store": torch_references,
    "store_results": step_results,
    "swiglu": swiglu,
    "to_ranks": low_rank,
}

# The modules that launch kernels. The loader imports from `products` where it makes the heads.
USERS = (decode_steps, operations, sampler, products)


def use_torch_references(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the references in the kernels' place until the test ends, and capture on CPUs too."""
    capture_anywhere(monkeypatch)
    splits = attention.ContextSplits
    monkeypatch.setattr(splits, "merged", splits.merged_torch)
    for user in USERS:
        for name, home in KERNELS.items():
            if hasattr(user, name):
                monkeypatch.setattr(user, name, _strict(getattr(home, f"{name}_torch")))


def _strict(reference: Callable[..., Any]) -> Callable[..., Any]:
    """Return the reference with a check that its tensors are contiguous.

    Kernels take every tensor as contiguous and would read wrong addresses; torch does not.
    """

    @wraps(reference)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            if isinstance(value, Tensor) and not value.is_contiguous():
                raise AssertionError(f"{reference.__name__} got strides {value.stride()}")
        return reference(*args, **kwargs)

    return checked
