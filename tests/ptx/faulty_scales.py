"""Changes what kernels do with the scales of weights, keys and values in eight bits.

``python -m tests.ptx.faulty_scales CAPABILITY`` prints, for each change, which scenarios notice it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

from triton.runtime.jit import JITFunction

from ChatTTS.model.kernels.cuda import (
    attention,
    int8,
    output_product,
    prefill,
    product_kernels,
    prompt_attention,
    rotary,
)

from .launches import Emulation
from .scenarios import EIGHT_BITS

_MODULES = (
    int8,
    attention,
    output_product,
    prefill,
    product_kernels,
    prompt_attention,
    rotary,
)


@dataclass(frozen=True)
class Fault:
    """A change of a function that kernels are compiled from.

    Attributes:
        right, wrong: a piece of its source, and what takes its place.
    """

    module: ModuleType
    function: str
    right: str
    wrong: str

    @contextmanager
    def made(self) -> Iterator[None]:
        """Compile with the fault in this block."""
        function = getattr(self.module, self.function)
        whole = function.src
        assert self.right in whole, f"{self.function} has no {self.right!r}"
        _rewrite(function, whole.replace(self.right, self.wrong))
        try:
            yield
        finally:
            _rewrite(function, whole)


def _rewrite(function: JITFunction, source: str) -> None:
    """Change a function, and have all compiled anew that may call it."""
    function._unsafe_update_src(source)
    for module in _MODULES:
        for each in vars(module).values():
            if isinstance(each, JITFunction):
                each.hash = None
                each.device_caches.clear()


_PLACE = "(tl.pointer_type(tl.float32)) + slot"
_AREA = "head + block_size * size"
_BLOCK = "(block_size * (2 * half + 4 * scaled))"
_PEAK = "tl.maximum(absmax(first, 1), absmax(second, 1))"
_OUTPUTS, _OTHERS = "scales + column", "scales + outputs + column"
_SUM = "tl.fma(found, own[0], 0.0)"
_KEY = "score = score * key_scale", "score = score"
_SHARE, _WEIGHT = " * value_scale", "weight = weight * value_scale[None, :]"

FAULTS: Mapping[str, Fault] = {
    "the next output's scale": Fault(product_kernels, "scales_of", _OUTPUTS, f"{_OUTPUTS} + 1"),
    "the gate's scale": Fault(product_kernels, "scales_of", _OTHERS, _OUTPUTS),
    "unscaled sums": Fault(product_kernels, "with_scales", _SUM, "found"),
    "the next position's scale": Fault(int8, "scale_address", _PLACE, f"{_PLACE} + 1"),
    "an area that begins early": Fault(int8, "scale_address", _AREA, f"{_AREA} - 4"),
    "no area": Fault(rotary, "_rotate_and_store", _BLOCK, "(block_size * (2 * half))"),
    "a scale of 128": Fault(int8, "scale_of", "127.0", "128.0"),
    "a peak with its sign": Fault(int8, "absmax", "tl.abs", ""),
    "numbers cut off": Fault(int8, "quantize", "nearest, 0.0", "product, 0.0"),
    "half a peak": Fault(rotary, "_rotate_and_store", _PEAK, "absmax(first, 1)"),
    "no new scale": Fault(attention, "_attend_splits", "scale_of(key_peak)", "1.0"),
    "the key's scale": Fault(
        attention, "_attend_splits", "scale_of(value_peak)", "scale_of(key_peak)"
    ),
    "unscaled keys": Fault(attention, "_attend_splits", *_KEY),
    "unscaled values": Fault(attention, "_attend_splits", _SHARE, ""),
    "unscaled keys of rows": Fault(prompt_attention, "_attend_split", *_KEY),
    "unscaled values of rows": Fault(prompt_attention, "_attend_split", _SHARE, ""),
    "unscaled keys of chunks": Fault(prefill, "_attend_tiles", f"{_KEY[0]}[None, :]", _KEY[1]),
    "unscaled values of chunks": Fault(prefill, "_attend_tiles", _WEIGHT, "weight = weight"),
}


def main(capability: str) -> None:
    Emulation(int(capability), order=None).install()
    for name, fault in FAULTS.items():
        with fault.made():
            print(f"{name}: {', '.join(filter(_notices, EIGHT_BITS)) or 'missed'}")
    print(f"no fault: {', '.join(filter(_notices, EIGHT_BITS)) or 'right'}")


def _notices(scenario: str) -> bool:
    try:
        EIGHT_BITS[scenario]()
    except (AssertionError, RuntimeError):
        return True
    return False


if __name__ == "__main__":
    main(*sys.argv[1:])
