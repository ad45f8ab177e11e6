"""The Python calls of a decode step: `python -m tests.support.step_trace [cpu|torch|cuda]`.

It prints the package's own functions in the order of the calls, indented by their depth. ``cuda``
is the step runner of a GPU with torch references for kernels; a captured step counts as its replay
alone, since a GPU carries it out without Python.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

from ChatTTS.model.generation import GenerationRequest
from ChatTTS.model.random_numbers import DrawKey, Pass
from ChatTTS.model.sampling_params import SamplingParams
from ChatTTS.model.tokenizer import Prompt
from ChatTTS.model.velocity.configs import EngineArgs
from ChatTTS.model.velocity.llm_engine import LLMEngine

from .capture_tools import EagerGraph, capture_anywhere
from .places import DATA, ROOT
from .torch_references import use_torch_references
from .velocity_models import make_team

from ChatTTS.model.velocity.model_loader import ModelLoader  # isort: skip

BACKENDS = ("cpu", "torch", "cuda")
PACKAGE = f"{ROOT / 'ChatTTS'}/"


@dataclass
class Trace:
    """The calls of functions of the package, with their files and depths."""

    calls: list[tuple[str, str, int]] = field(default_factory=list)

    @property
    def files(self) -> set[str]:
        return {file for file, _, _ in self.calls}

    @property
    def functions(self) -> set[tuple[str, str]]:
        """Those with a name: comprehensions are no functions to a reader, or from Python 3.12."""
        return {(file, name) for file, name, _ in self.calls if name[0] != "<"}

    @property
    def depth(self) -> int:
        return max(depth for _, _, depth in self.calls)


def trace_of(work: Callable[[], object]) -> Trace:
    trace, depth, replays = Trace(), 0, 0
    replay = inspect.unwrap(EagerGraph.replay).__code__

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal depth, replays
        code = frame.f_code
        if code is replay:
            replays += {"call": 1, "return": -1}.get(event, 0)
        if replays or not code.co_filename.startswith(PACKAGE):
            return
        if event == "call":
            depth += 1
            trace.calls.append((code.co_filename.removeprefix(PACKAGE), code.co_name, depth))
        elif event == "return":
            depth -= 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return trace


def decode_step(backend: str, monkeypatch: pytest.MonkeyPatch) -> Trace:
    """Return the trace of a step in which one stream gains frames; skip without kernels.

    Args:
        backend: one of ``BACKENDS``.
    """
    if backend == "cpu":
        make_team(1)
    else:
        monkeypatch.setattr(ModelLoader, "_team", lambda loader: None)
    if backend == "cuda":
        monkeypatch.setattr(ModelLoader, "_has_triton", lambda *_: True)
        capture_anywhere(monkeypatch)
        use_torch_references(monkeypatch)
    args = EngineArgs(
        DATA / "model-a",
        device="cpu",
        kv_memory="4MB",
        num_threads=1,
        max_num_seqs=2,
        max_num_batched_tokens=16,
    )
    engine = LLMEngine.from_engine_args(args)
    try:
        none = np.zeros((0, 0), dtype=np.int64)
        prompt = Prompt(np.arange(20, 30), none, None, np.zeros(10, dtype=np.bool_))
        sampling = SamplingParams((0.3,) * 4, 0.7, 20, 1.05, 60, 60)
        engine.add([GenerationRequest(prompt, sampling, DrawKey(1, Pass.CODE), request_id="a")])
        for _ in range(4):
            engine.step()
        return trace_of(engine.step)
    finally:
        engine.close()


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as context:
        found = decode_step((*sys.argv[1:], "cpu")[0], context)
    for file, name, depth in found.calls:
        print(f"{'  ' * depth}{name}  {Path(file).as_posix()}")
    print(
        f"{len(found.calls)} calls of {len(found.functions)} functions in {len(found.files)} "
        f"files, {found.depth} deep"
    )
