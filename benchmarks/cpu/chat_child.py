"""A child process that runs this package's ``Chat``; other children add handlers to it."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Sequence
from typing import Any

import ChatTTS
from ChatTTS.model.generation import Cancellation, Delta, GenerationRequest, Generator
from ChatTTS.params import InferCodeParams

from ..common.child import Stopwatch, serve
from ..common.memory import resident_bytes

chat = ChatTTS.Chat()


class TimedGenerator:
    """A generator that times another one and counts its positions and frames."""

    def __init__(self, inner: Generator) -> None:
        self.inner = inner
        self.watch = Stopwatch()
        self.prompts: list[int] = []
        self.frames: list[int] = []

    def generate(
        self, requests: Sequence[GenerationRequest], cancelled: Cancellation
    ) -> Iterator[list[Delta]]:
        """Yield what the inner generator yields."""
        self.prompts = [len(request.prompt) for request in requests]
        self.frames = [0] * len(requests)
        for deltas in self.watch.over(self.inner.generate(requests, cancelled)):
            for delta in deltas:
                self.frames[delta.index] += len(delta.ids)
            yield deltas

    def close(self) -> None:
        """Close the inner generator."""
        self.inner.close()


def prepare() -> dict[str, Any]:
    """Import all that loading needs, so that its time and memory are those of the checkpoint alone.

    Returns:
        ``resident``: bytes in memory after that, including torch's threads.
    """
    import torch
    import transformers  # noqa: F401

    torch.ones(512, 512) @ torch.ones(512, 512)
    return {"resident": resident_bytes()}


def load(folder: str, threads: int, dtype: str, **options: Any) -> dict[str, Any]:
    """Load ``folder`` with ``options`` of ``Chat.load``; imports are not timed."""
    prepare()
    import torch
    import transformers

    start = time.perf_counter()
    chat.load_or_raise(
        "custom", custom_path=folder, device="cpu", dtype=dtype, num_threads=threads, **options
    )
    seconds = time.perf_counter() - start
    return {
        "load_s": seconds,
        "versions": {
            "package": f"chattts-velocity {ChatTTS.__version__}",
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "threads": torch.get_num_threads(),
    }


def params(frames: int) -> InferCodeParams:
    """Return the package's default settings for exactly ``frames`` frames."""
    return InferCodeParams(
        max_new_token=frames, min_new_token=frames, manual_seed=0, show_tqdm=False
    )


def run(texts: list[str], frames: int) -> dict[str, Any]:
    """Speak ``texts`` in one call, each for exactly ``frames`` frames.

    Returns:
        Seconds of the whole call (``infer_s``) and of generation (``generate_s``); ``prompts``
        and ``frames``: positions and generated frames of each text.
    """
    gpt = chat.gpt
    timed = TimedGenerator(gpt.engine)
    gpt.engine = timed
    try:
        start = time.perf_counter()
        chat.infer(
            texts,
            skip_refine_text=True,
            do_text_normalization=False,
            do_homophone_replacement=False,
            split_text=False,
            params_infer_code=params(frames),
        )
        seconds = time.perf_counter() - start
    finally:
        gpt.engine = timed.inner
    return {
        "infer_s": seconds,
        "generate_s": timed.watch.seconds,
        "prompts": timed.prompts,
        "frames": timed.frames,
    }


if __name__ == "__main__":
    serve({"prepare": prepare, "load": load, "run": run})
