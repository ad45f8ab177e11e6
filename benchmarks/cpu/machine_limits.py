"""A child process that measures the machine's rates of reading memory and of matrix products.

Each rate is the best of several passes, with torch and with this package's kernels. The limit of
one of them must not depend on the other, slower one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ChatTTS.model.kernels.cpu.build import BuildError
from ChatTTS.model.kernels.cpu.library import Team
from ChatTTS.model.velocity.backends.cpu.packing import PackedLinear

from ..common.child import serve

# Rows, inputs and outputs of torch's product, and rows of the kernels' product. A step gives the
# kernels no more rows than that.
_ROWS, _INPUTS, _OUTPUTS = 1024, 768, 3072
_KERNEL_ROWS = 128
# Outputs of a matrix that is multiplied by one row; large enough that the call costs nothing.
_READ_OUTPUTS = 16384


def measure(threads: int, megabytes: int, passes: int) -> dict[str, Any]:
    """Measure the rates on ``threads`` threads.

    Args:
        megabytes: memory that a pass reads; has to exceed all caches.
        passes: number of passes, of which the best counts.

    Returns:
        ``read_gb_s`` by method, ``product_gflop_s`` by type of weights and method.
    """
    torch.set_num_threads(threads)
    size = megabytes << 20
    reads = {"torch float32 sum": size / best(passes, _summing(size)) / 1e9}
    products = {
        name: {"torch": _torch_rate(dtype, passes)}
        for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16))
    }
    products["int8"] = {}
    try:
        team = Team(threads)
    except BuildError as error:
        return {"read_gb_s": reads, "product_gflop_s": products, "no_kernels": str(error)}
    for kind in products:
        products[kind]["kernels"] = _kernel_rate(team, kind, passes)
    for kind in ("float32", "bfloat16"):
        reads[f"kernels {kind} row"] = _kernel_read(team, kind, size, passes)
    return {"read_gb_s": reads, "product_gflop_s": products, "kernels": team.about}


@torch.inference_mode()
def best(passes: int, work: Callable[[], Any]) -> float:
    """Return the seconds of the fastest of ``passes`` runs, after a warm-up."""
    seconds = []
    for _ in range(passes + 1):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])


def _summing(size: int) -> Callable[[], Any]:
    numbers = torch.ones(size // 4)
    return numbers.sum


def _torch_rate(dtype: torch.dtype, passes: int) -> float:
    """Return the rate of torch's product in GFLOP/s."""
    left = torch.randn(_ROWS, _INPUTS).to(dtype)
    right = torch.randn(_INPUTS, _OUTPUTS).to(dtype)
    operations = 2 * _ROWS * _INPUTS * _OUTPUTS
    return operations / best(passes, lambda: left @ right) / 1e9


def _kernel_rate(team: Team, kind: str, passes: int) -> float:
    """Return the rate of the kernels' product in GFLOP/s."""
    layer = PackedLinear(team, torch.randn(_OUTPUTS, _INPUTS), kind)
    rows = torch.randn(_KERNEL_ROWS, _INPUTS)
    operations = 2 * _KERNEL_ROWS * _INPUTS * _OUTPUTS
    return operations / best(passes, lambda: layer(rows)) / 1e9


def _kernel_read(team: Team, kind: str, size: int, passes: int) -> float:
    """Return the rate in GB/s at which weights are read that are multiplied by a single row."""
    one = team.packed_bytes(kind, _READ_OUTPUTS, _INPUTS)
    weight = torch.randn(_READ_OUTPUTS, _INPUTS)
    layers = [PackedLinear(team, weight, kind) for _ in range(-(-size // one))]
    row = torch.randn(1, _INPUTS)

    def read() -> None:
        apply(layers, row)

    return one * len(layers) / best(passes, read) / 1e9


def apply(layers: Iterable[Callable[[torch.Tensor], Any]], rows: torch.Tensor) -> None:
    """Apply each of ``layers`` to ``rows``, and drop the results."""
    for layer in layers:
        layer(rows)


if __name__ == "__main__":
    serve({"measure": measure})
