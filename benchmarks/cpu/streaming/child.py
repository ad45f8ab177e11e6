"""A child process that runs the engine's streams."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ChatTTS.model.generation import Cancellation, Delta, GenerationRequest, Generator

from ...common.child import serve
from ...common.memory import resident_bytes
from ...common.report import FRAMES_PER_SECOND
from ..chat_child import chat, load, params, run
from ..velocity.child import generate

# Frames of a push, and seconds of audio after which memory is measured for the first time.
_FRAMES_PER_PUSH, _FIRST_MEASUREMENT = 24, 10


class CountingGenerator:
    """A generator that counts the positions and frames of another one, called by many threads.

    Attributes:
        prompts: positions of each request's prompt.
    """

    def __init__(self, inner: Generator) -> None:
        self.inner = inner
        self.prompts: list[int] = []
        self._counts: list[list[int]] = []

    @property
    def frames(self) -> list[int]:
        """The number of frames that each request has so far."""
        return [count for counts in self._counts for count in counts]

    def generate(
        self, requests: Sequence[GenerationRequest], cancelled: Cancellation
    ) -> Iterator[list[Delta]]:
        """Yield what the inner generator yields."""
        counts = [0] * len(requests)
        self.prompts.extend(len(request.prompt) for request in requests)
        self._counts.append(counts)
        for deltas in self.inner.generate(requests, cancelled):
            for delta in deltas:
                counts[delta.index] += len(delta.ids)
            yield deltas

    def close(self) -> None:
        """Close the inner generator."""
        self.inner.close()


def stream(texts: list[str], frames: int) -> dict[str, Any]:
    """Speak ``texts`` in exact mode, each in a stream of its own, all started together.

    Returns:
        For each stream its ``chunks``: seconds since the call, samples, and the frames that all
        streams had by then. ``stream_s`` is the time in seconds until the last stream ended.
    """
    return _stream(texts, frames, low_latency=False)


def low_latency(texts: list[str], frames: int) -> dict[str, Any]:
    """Speak ``texts`` as :func:`stream` does, in low-latency mode with its default settings."""
    return _stream(texts, frames, low_latency=True)


def _stream(texts: list[str], frames: int, *, low_latency: bool) -> dict[str, Any]:
    gpt = chat.gpt
    counted = CountingGenerator(gpt.engine)
    began: list[float] = []
    together = threading.Barrier(len(texts), action=lambda: began.append(time.perf_counter()))

    def listen(text: str) -> list[tuple[float, int, int]]:
        together.wait()
        pieces = chat.stream(
            text,
            low_latency=low_latency,
            skip_refine_text=True,
            do_text_normalization=False,
            do_homophone_replacement=False,
            split_text=False,
            params_infer_code=params(frames),
        )
        return [
            (time.perf_counter() - began[0], len(piece.samples), sum(counted.frames))
            for piece in pieces
        ]

    gpt.engine = counted
    try:
        with ThreadPoolExecutor(len(texts)) as pool:
            chunks = list(pool.map(listen, texts))
            seconds = time.perf_counter() - began[0]
    finally:
        gpt.engine = counted.inner
    return {
        "stream_s": seconds,
        "chunks": chunks,
        "prompts": counted.prompts,
        "frames": counted.frames,
    }


def memory(
    folder: str, threads: int, dtype: str, seconds: float, **options: Any
) -> dict[str, list[int]]:
    """Measure the memory of a stream while ``seconds`` of random hidden states are decoded.

    Returns:
        ``frames`` pushed, bytes of the ``state`` and ``resident`` bytes of the process, each after
        ten seconds of audio and before the last frames.

    Raises:
        RuntimeError: the number of samples does not match the number of frames.
    """
    import torch

    from ChatTTS.checkpoints.assets import AssetFolder
    from ChatTTS.loading import load_model
    from ChatTTS.model.devices.placement import choose_placement
    from ChatTTS.model.gpt import EngineOptions
    from ChatTTS.model.synthesis.streaming_decoder import DecoderInput

    torch.set_num_threads(threads)
    model = load_model(
        AssetFolder(Path(folder), "custom"),
        choose_placement("cpu", dtype),
        EngineOptions(num_threads=threads, **options),
    )
    try:
        synthesizer = model.synthesizer(use_decoder=True)
        state = synthesizer.begin()
        totals = [round(length * FRAMES_PER_SECOND) for length in (_FIRST_MEASUREMENT, seconds)]
        random = torch.Generator().manual_seed(0)
        found: dict[str, list[int]] = {"frames": [], "state": [], "resident": []}
        pushed = samples = 0
        for total in totals:
            while pushed < total:
                count = min(_FRAMES_PER_PUSH, total - pushed)
                hiddens = torch.randn(count, model.config.gpt.hidden_size, generator=random)
                samples += len(synthesizer.advance([DecoderInput(state, hiddens)])[0])
                pushed += count
            found["frames"].append(pushed)
            found["state"].append(state.kept_bytes)
            found["resident"].append(resident_bytes())
        samples += len(synthesizer.advance([DecoderInput(state, None, last=True)])[0])
        if samples != synthesizer.length(pushed):
            raise RuntimeError(f"{pushed} frames gave {samples} samples")
    finally:
        model.gpt.close()
    return found


if __name__ == "__main__":
    serve(
        {
            "load": load,
            "run": run,
            "generate": generate,
            "stream": stream,
            "low_latency": low_latency,
            "memory": memory,
        }
    )
