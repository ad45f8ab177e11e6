"""Launches, and kernels that are compiled side by side before them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ....support import kernel_tools
from ....support.places import ROOT

triton = pytest.importorskip("triton")

from ChatTTS.model.kernels.cuda.launching import compile_all, launcher  # isort: skip # noqa: E402

# Compiles three kernels, two of them twice, for a GPU that is not there.
CHILD = """\
import threading
import torch
from triton import knobs
from triton.runtime import driver
from tests.support.compile_tools import Compiler
from ChatTTS.model.kernels.cuda.launching import compile_all
from ChatTTS.model.kernels.cuda.norm import rms_norm
from ChatTTS.model.kernels.cuda.swiglu import swiglu

driver.set_active(Compiler(90))
torch.Tensor.is_cuda = True
compiled = []

def listen(src, **_):
    compiled.append((src.name, threading.current_thread().name.split("_")[0]))

knobs.compilation.listener = listen

def work():
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.ones(2, 16, dtype=dtype)
        rms_norm(x, x[0], 1e-6)
    swiglu(torch.ones(2, 16))

for _ in range(2):
    compile_all([work, work], 2)
print(sorted(compiled))
"""

# Goes through the first steps of a small model twice: what is compiled at first is all they launch.
START = """\
import torch
from triton import knobs
from triton.runtime import driver
from tests.support.compile_tools import SMALL, Compiler, _embed, _layer
from ChatTTS.model.random_numbers import Pass
from ChatTTS.model.kernels.cuda import launching, prefetch
from ChatTTS.model.velocity.backends.cuda.decode_steps import DecodeSteps
from ChatTTS.model.velocity.backends.cuda.graph_runner import StepParts, StepShape, _compile
from ChatTTS.model.velocity.backends.cuda.operations import TritonOperations
from ChatTTS.model.velocity.backends.cuda.prompt_steps import PromptSteps
from ChatTTS.model.velocity.backends.cuda.text_attention import TextAttention
from ChatTTS.model.velocity.layers import Llama

dtype, none = torch.float32, None
embed = _embed(SMALL, dtype)
operations = TritonOperations(SMALL, embed, torch.device("cpu"), batch_invariant=True)
llama = Llama([_layer(SMALL, dtype)], torch.zeros(SMALL.hidden_size), operations, 16)
pool = llama.new_pool(4)
prompts = PromptSteps(
    llama, pool, none, num_codebooks=4, hidden=96, max_rows=64, max_sequences=64, max_positions=1024
)
attention = TextAttention(operations, pool, 40, dtype)
decode = {
    kind: DecodeSteps(
        llama,
        embed,
        pool,
        none,
        max_rows=40,
        max_positions=1024,
        kind=kind,
        end=3,
        attention=attention,
    )
    for kind in Pass
}
parts = StepParts(prompts, decode)
shapes = [
    StepShape(number, rows, False)
    for number, part in enumerate(parts.all)
    for rows in (part.buckets[-1], part.buckets[0])
]
driver.set_active(Compiler(90))
torch.Tensor.is_cuda = True
prefetch.cache_bytes = lambda x: 50 << 20
compiled = []
knobs.compilation.listener = lambda src, **_: compiled.append(src.name)
with torch.inference_mode():
    _compile(parts, shapes)
    of_steps = {"_attend_text", "sample_large_vocabulary", "_sample_codes"}
    print(len(compiled) > 10, of_steps <= set(compiled))
    compiled.clear()
    launching._ONLY_COMPILES.set(True)
    for shape in shapes:
        parts.all[shape.part].compute(shape.rows)
    for steps in decode.values():
        steps.prepare_attention()
    print(compiled)
"""


# Compiles the kernels of the smallest launch, and then those that larger ones need beside them.
SHAPES = """\
import torch
from ChatTTS.model.synthesis.launch_shapes import LaunchShapes
from tests.support.compile_tools import Compiler, launch_audio_decoder

compiler = Compiler(90)
compiler.install()
with torch.inference_mode():
    launch_audio_decoder(torch.bfloat16)
    least = len(compiler.compiled)
    launch_audio_decoder(
        torch.bfloat16, LaunchShapes(sizes=(1, 3, 16), chunks=(1, 7, 24), max_frames=48)
    )
print(least > 5, len(compiler.compiled) - least)
"""


class Kernel:
    """A kernel that notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return lambda *args: self.asked.append(("launch", grid, args))

    def run(self, *args: Any, grid: tuple[int, ...], warmup: bool) -> None:
        assert warmup
        self.asked.append(("compile", grid, args))


@pytest.fixture
def executors(monkeypatch: pytest.MonkeyPatch) -> list[Executor]:
    """The executors that Triton was given; none of them is used."""
    given: list[Executor] = []

    @contextmanager
    def mode(executor: Executor) -> Iterator[None]:
        given.append(executor)
        yield

    monkeypatch.setattr(triton, "AsyncCompileMode", mode, raising=False)
    return given


def test_kernels_are_compiled_and_not_launched(executors: list[Executor]) -> None:
    kernel = Kernel()
    compile_all([lambda: launcher(kernel, (2, 3))(5)] * 2, 4)
    assert len(executors) == 1
    assert kernel.asked == [("compile", (2, 3), (5,))] * 2
    launcher(kernel, (2, 3))(5)
    assert kernel.asked[2:] == [("launch", (2, 3), (5,))]


def test_launches_are_launches_again_after_an_error(executors: list[Executor]) -> None:
    kernel = Kernel()

    def fail() -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        compile_all([fail], 1)
    launcher(kernel, (1,))()
    assert kernel.asked == [("launch", (1,), ())]


def test_an_old_triton_compiles_at_the_first_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(triton, "AsyncCompileMode", raising=False)
    compile_all([lambda: pytest.fail("done")], 1)


needs_compiler = pytest.mark.skipif(
    kernel_tools.DEVICE.type == "cuda" or not hasattr(triton, "AsyncCompileMode"),
    reason="for a machine without a GPU, and a Triton that compiles side by side",
)


def printed_by(program: str, cache: Path) -> list[str]:
    """Return the lines that a program prints, whose kernels are compiled."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment | {"TRITON_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
@needs_compiler
def test_each_kernel_is_compiled_once_in_other_threads(tmp_path: Path) -> None:
    names = ["_rms_norm", "_rms_norm", "_swiglu"]
    assert printed_by(CHILD, tmp_path) == [str([(name, "compiling") for name in names])]


@needs_compiler
@pytest.mark.slow
def test_a_start_compiles_all_that_its_steps_launch(tmp_path: Path) -> None:
    assert printed_by(START, tmp_path) == ["True True", "[]"]


@needs_compiler
@pytest.mark.slow
def test_launches_of_the_audio_decoder_share_their_kernels(tmp_path: Path) -> None:
    """A kernel for some numbers of rows alone might sum in another order."""
    assert printed_by(SHAPES, tmp_path) == ["True 0"]
