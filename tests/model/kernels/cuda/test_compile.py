"""Every kernel compiles, as the package launches it, and fits the supported GPUs.

No GPU is needed.
``-s`` shows the registers, the memory and the spills of each kernel.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ....support.places import ROOT

pytest.importorskip("triton")

# Bytes of shared memory that a program may use. Of the GPUs with compute capability 8.x, 8.6 and
# 8.9 have the least. A program uses equally much on all of them.
SHARED = {80: 99 << 10, 86: 99 << 10, 89: 99 << 10, 90: 227 << 10, 100: 227 << 10, 120: 99 << 10}
# Bytes that a thread may use on its stack. A few registers that are spilled once are read back from
# the nearest cache. Sizes of unpublished models only have to work.
STACK = {"little": 64, "published": 64, "sizes": 1024}
# What a tile of four rows keeps over its loops does not fit beside two programs' sums; in the loop
# it reads little of that.
STACK_OF = {"prompt_attention._attend_tile": 256}


def compile_kernels(capability: int, dtype: str, launches: str, folder: Path) -> dict[str, Any]:
    """Return the report of :mod:`tests.support.compile_tools`, which runs as a child process."""
    out = folder / "compiled.json"
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.support.compile_tools",
            str(capability),
            dtype,
            launches,
            str(out),
        ],
        cwd=ROOT,
        env=environment | {"TRITON_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return told


def check(capability: int, dtype: str, launches: str, folder: Path) -> dict[str, Any]:
    """Compile, print the report, and fail where a kernel does not compile or does not fit."""
    told = compile_kernels(capability, dtype, launches, folder)
    print(f"\ntriton {told['triton']}, compute capability {capability / 10}")
    print("registers  shared  stack  kernel")
    wrong = []
    for found in told["compiled"]:
        line = f"{found['kernel']} {found['arguments']}"
        print(f"{found['registers']:9}  {found['shared']:6}  {found['stack']:5}  {line}")
        if found["error"]:
            wrong.append(f"{line}\n{found['error']}")
        if found["stack"] > max(STACK[launches], STACK_OF.get(found["kernel"], 0)):
            wrong.append(f"{line}\nspills: {found['stack']} bytes of a thread are on its stack")
        if found["shared"] > SHARED[capability]:
            wrong.append(
                f"{line}\ntakes {found['shared']} bytes of shared memory, and a program may have "
                f"{SHARED[capability]}"
            )
    assert not wrong, "\n\n".join(wrong)
    return told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capability", "dtype", "launches"),
    [
        (90, "bfloat16", "published"),
        pytest.param(90, "float16", "little", marks=pytest.mark.thorough),
        pytest.param(80, "float32", "published", marks=pytest.mark.thorough),
        (80, "bfloat16", "published"),
        (90, "float32", "sizes"),
        pytest.param(80, "bfloat16", "sizes", marks=pytest.mark.thorough),
        (86, "bfloat16", "little"),
        (89, "bfloat16", "little"),
        (100, "bfloat16", "little"),
        (120, "bfloat16", "published"),
    ],
)
def test_everything_that_is_launched_compiles(
    capability: int, dtype: str, launches: str, tmp_path: Path
) -> None:
    told = check(capability, dtype, launches, tmp_path)
    if launches == "little":
        assert not told["missing"], f"nothing launches {', '.join(told['missing'])}"
