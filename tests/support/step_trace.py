"""The Python calls of a decode step on the CPU kernels: `python -m tests.support.step_trace`.

It prints the package's own functions in the order of the calls, indented by their depth.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import numpy as np

from ChatTTS.model.draws import DrawKey, Pass
from ChatTTS.model.generation import GenerationRequest
from ChatTTS.model.sampling_params import SamplingParams
from ChatTTS.model.tokenizer import Prompt
from ChatTTS.model.velocity.configs import EngineArgs
from ChatTTS.model.velocity.llm_engine import LLMEngine

from .places import DATA, ROOT
from .velocity_models import make_team

PACKAGE = f"{ROOT / 'ChatTTS'}/"


@dataclass
class Trace:
    """The calls of functions of the package, with their files and depths."""

    calls: list[tuple[str, str, int]] = field(default_factory=list)

    @property
    def files(self) -> set[str]:
        return {file for file, _, _ in self.calls}

    @property
    def depth(self) -> int:
        return max(depth for _, _, depth in self.calls)


def trace_of(work: Callable[[], object]) -> Trace:
    trace, depth = Trace(), 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal depth
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE):
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


def decode_step() -> Trace:
    """Return the trace of a step in which one stream gains one frame; skip without kernels."""
    make_team(1)
    args = EngineArgs(DATA / "model-a", device="cpu", kv_memory="4MB", num_threads=1)
    engine = LLMEngine.from_engine_args(args)
    try:
        none = np.zeros((0, 0), dtype=np.int64)
        prompt = Prompt(np.arange(20, 30), none, None, np.zeros(10, dtype=np.bool_))
        sampling = SamplingParams((0.3,) * 4, 0.7, 20, 1.05, 60, 60)
        engine.add([GenerationRequest(prompt, sampling, DrawKey(1, Pass.CODE), request_id="a")])
        for _ in range(20):
            engine.step()
        return trace_of(engine.step)
    finally:
        engine.close()


if __name__ == "__main__":
    found = decode_step()
    for file, name, depth in found.calls:
        print(f"{'  ' * depth}{name}  {Path(file).as_posix()}")
    functions = {call[:2] for call in found.calls}
    print(
        f"{len(found.calls)} calls of {len(functions)} functions in {len(found.files)} files, "
        f"{found.depth} deep"
    )
