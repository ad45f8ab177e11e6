"""A child process that runs the velocity engine: handlers that only this engine can answer."""

from __future__ import annotations

import time
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ChatTTS.model.generation import Cancellation, GenerationRequest
from ChatTTS.model.random_numbers import DrawKey, Pass
from ChatTTS.model.sampling_params import SamplingParams
from ChatTTS.model.speaker import decode_sample, encode_sample
from ChatTTS.model.tokenizer import code_prompt
from ChatTTS.model.velocity.generator import VelocityGenerator

from ...common.child import serve
from ...common.memory import peak_bytes
from ..chat_child import chat, load, params, prepare, run


def sizes() -> dict[str, Any]:
    """Return the loaded model's memory in bytes, its dtype and its number of KV blocks."""
    modules = (chat.decoder, chat.dvae, chat.vocos)
    tensors = chain.from_iterable((*m.parameters(), *m.buffers()) for m in modules)
    return {
        "peak": peak_bytes(),
        "audio": sum(tensor.nbytes for tensor in tensors),
        "dtype": str(chat.embed.text.weight.dtype).removeprefix("torch."),
        "blocks": _engine().engine.metrics().blocks,
    }


def generate(texts: list[str], frames: int) -> dict[str, Any]:
    """Generate as ``run`` does, but without audio; time from the call to the last frame."""
    requests = [_request(text, frames) for text in texts]
    made = [0] * len(requests)
    start = time.perf_counter()
    for deltas in chat.gpt.generate(requests, Cancellation()):
        for delta in deltas:
            made[delta.index] += len(delta.ids)
    seconds = time.perf_counter() - start
    prompts = [len(request.prompt) for request in requests]
    return {"generate_s": seconds, "prompts": prompts, "frames": made}


def repeated_prompt(text: str, transcript: str, frames: int) -> dict[str, Any]:
    """Speak one text with one sample prompt twice.

    Args:
        text: the text to speak.
        transcript: transcript of the sample. A new one makes the prompt new to the engine.
        frames: length of the sample, which has random codes.

    Returns:
        For each of the two calls ``seconds`` to the first frame and prompt positions ``computed``;
        ``prompt``: positions of the prompt.
    """
    embed = chat.config.embed
    codes = np.random.default_rng(0).integers(
        embed.num_audio_tokens - 1, size=(embed.num_vq, frames)
    )
    # The form in which a user passes a sample.
    sample = decode_sample(encode_sample(codes), embed.num_vq, embed.num_audio_tokens - 1)
    request = _request(text, 2, sample, transcript)
    metrics = _engine().engine.metrics
    seconds, computed = [], []
    for _ in range(2):
        before = metrics().prompt_positions
        seconds.append(_first_frame(request))
        computed.append(metrics().prompt_positions - before)
    return {"prompt": len(request.prompt), "seconds": seconds, "computed": computed}


def overhead(texts: list[str], frames: int) -> dict[str, Any]:
    """Return the part of a run that is spent outside the model, by the engine's own metrics."""
    requests = [_request(text, frames) for text in texts]
    metrics = _engine().engine.metrics
    before = metrics()
    start = time.perf_counter()
    for _ in chat.gpt.generate(requests, Cancellation()):
        pass
    wall = time.perf_counter() - start
    after = metrics()
    model = after.model_seconds - before.model_seconds
    engine = after.engine_seconds - before.engine_seconds
    steps = after.steps - before.steps
    return {
        "steps": steps,
        "wall_s": wall,
        "model_s": model,
        "engine_s": engine,
        # Passing results from thread to thread, and the caller's own part.
        "rest_s": wall - model - engine,
        "engine_share": engine / (model + engine),
        "outside_share": (wall - model) / wall,
    }


def _first_frame(request: GenerationRequest) -> float:
    """Run the request to its end; return the seconds until its first frame."""
    start = time.perf_counter()
    seconds = None
    for deltas in chat.gpt.generate([request], Cancellation()):
        if seconds is None and any(len(delta.ids) for delta in deltas):
            seconds = time.perf_counter() - start
    assert seconds is not None
    return seconds


def _request(
    text: str,
    frames: int,
    sample: NDArray[np.int64] | None = None,
    transcript: str | None = None,
) -> GenerationRequest:
    """Return the request that ``infer`` makes of ``text``, for exactly ``frames`` frames."""
    wanted = params(frames)
    decorated = code_prompt(text, wanted.prompt, speaker=False, transcript=transcript)
    return GenerationRequest(
        chat.tokenizer.prompt(decorated, codes=sample),
        SamplingParams.from_params(wanted, num_codebooks=chat.config.embed.num_vq),
        DrawKey(0, Pass.CODE),
    )


def _engine() -> VelocityGenerator:
    engine = chat.gpt.engine
    assert isinstance(engine, VelocityGenerator)
    return engine


if __name__ == "__main__":
    serve(
        {
            "prepare": prepare,
            "load": load,
            "sizes": sizes,
            "generate": generate,
            "run": run,
            "repeated_prompt": repeated_prompt,
            "overhead": overhead,
        }
    )
