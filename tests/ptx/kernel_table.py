"""Writes docs/cuda-kernels.md: what each kernel takes on each kind of GPU.

``python -m tests.ptx.kernel_table``
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from ..model.kernels.cuda.test_compile import SHARED, compile_kernels
from ..support.places import ROOT

_PAGE = ROOT / "docs" / "cuda-kernels.md"
_HEAD = """\
# CUDA kernels

What Triton {triton} and its ptxas make of each kernel, at the published sizes in bfloat16: for each
compute capability the instructions of the PTX, the registers of a thread, KiB of shared memory of a
program, and bytes of a thread that are spilled. A kernel with several configurations stands for the
largest, which is often that of numbers in eight bits.
`python -m tests.ptx.kernel_table` writes this page; no GPU is needed.

The tests run the PTX of 8.0, 9.0 and 12.0, and in bfloat16 that of 8.6 and 8.9, in an emulator
(`tests/ptx/`), which checks every access to memory. They found no access out of bounds, no race, no
missing wait, and no access before a launch's wait to what a launch beside it may write.

| kernel | {capabilities} |
| --- |{rule}
"""


def main() -> None:
    columns: dict[str, dict[int, str]] = defaultdict(dict)
    triton = ""
    for capability in SHARED:
        with tempfile.TemporaryDirectory() as folder:
            told = compile_kernels(capability, "bfloat16", "published", Path(folder))
        triton = told["triton"]
        of_kernel = defaultdict(list)
        for found in told["compiled"]:
            of_kernel[found["kernel"]].append(found)
        for kernel, all_found in of_kernel.items():
            columns[kernel][capability] = _cell(all_found)
    head = _HEAD.format(
        triton=triton,
        capabilities=" | ".join(f"{capability / 10}" for capability in SHARED),
        rule=" --- |" * len(SHARED),
    )
    lines = [
        f"| `{kernel}` | {' | '.join(cells.get(capability, '-') for capability in SHARED)} |\n"
        for kernel, cells in sorted(columns.items())
    ]
    _PAGE.write_text(head + "".join(lines), encoding="utf-8")


def _cell(all_found: list[dict[str, Any]]) -> str:
    most = {
        name: max(found[name] for found in all_found)
        for name in ("instructions", "registers", "shared", "stack")
    }
    return (
        f"{most['instructions']}, {most['registers']}, {most['shared'] / 1024:.0f}, {most['stack']}"
    )


if __name__ == "__main__":
    main()
