"""Time the standard path on the GPU, on transformers' Llama.

If the published package is not installed, transformers' Llama with this package's heads and
sampling replaces it in the comparison, since its standard path consists of the same parts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ChatTTS.config import Config
from ChatTTS.model.devices.placement import choose_placement
from ChatTTS.model.embed import Embed, load_embed
from ChatTTS.model.generation import Cancellation, GenerationRequest
from ChatTTS.model.llama.config import llama_config, read_llama_shape
from ChatTTS.model.standard.engine import StandardEngine, load_llama
from ChatTTS.model.standard.kv_cache import GrowingCache
from ChatTTS.utils.fair_lock import NoLock

from .model import key, language_model, prompt, sampling
from .scale import Scale, Task
from .timing import spread, wall_seconds

# Frames of a run; few, since transformers' Llama takes long for each.
_FRAMES = 50
_RUNS = 2
# Largest number of streams; the standard path is not made for more.
_MOST_STREAMS = 8


@torch.inference_mode()
def measure(task: Task, dtype: str) -> None:
    """Record a step of the Llama alone and of the whole path, by the host's clock."""
    scale = task.scale
    task.record.put(dtype=dtype, positions=scale.positions, prompt=scale.prompt)
    embed, llama = _load(language_model(task) / "asset", scale, dtype)
    results: dict[str, Any] = {}
    for streams in (count for count in scale.streams if count <= _MOST_STREAMS):
        own = results[str(streams)] = {
            "llama_ms": spread(_llama_steps(llama, embed, streams, task))
        }
        task.record.put(streams={"transformers": results})
        own["path_ms"] = spread(_path_steps(llama, embed, streams, scale))
        task.record.put(streams={"transformers": results})


def _load(asset: Path, scale: Scale, dtype: str) -> tuple[Embed, Callable[..., Any]]:
    placement = choose_placement(scale.device, dtype)
    sizes = Config.from_file(asset / "config.json")
    shape = read_llama_shape(asset / "gpt" / "config.json", sizes.gpt)
    embed = load_embed(asset / "Embed.safetensors", sizes.embed, placement)
    file = asset / "gpt" / "model.safetensors"
    return embed, load_llama(llama_config(shape), file, placement.device, placement.dtype)


def _llama_steps(llama: Callable[..., Any], embed: Embed, streams: int, task: Task) -> list[float]:
    """Return the seconds of a step of the Llama alone, at about ``scale.positions`` positions."""
    scale, weight = task.scale, embed.code.weight
    cache = GrowingCache()
    places = torch.arange(scale.positions, device=weight.device).expand(streams, -1)
    embeds = torch.randn(streams, scale.positions, weight.shape[1], device=weight.device)
    embeds = embeds.to(weight.dtype)
    at = scale.positions - (_RUNS + 1) * scale.steps

    def run(first: int, count: int) -> None:
        llama(
            inputs_embeds=embeds[:, :count],
            attention_mask=None,
            position_ids=places[:, first : first + count],
            past_key_values=cache,
            use_cache=True,
        )

    run(0, at)
    done = iter(range(at, scale.positions))

    def steps() -> None:
        for _ in range(scale.steps):
            run(next(done), 1)

    seconds = wall_seconds(steps, weight.device, _RUNS)
    return [one / scale.steps for one in seconds]


def _path_steps(llama: Callable[..., Any], embed: Embed, streams: int, scale: Scale) -> list[float]:
    """Return the seconds of a step of the whole path, from prompts to frames on the host."""
    engine = StandardEngine(
        llama,
        embed,
        observed=llama,
        end_of_text=0,
        max_positions=scale.gpt.max_position_embeddings,
        new_cache=GrowingCache,
        compute_lock=NoLock(),
    )
    frames = min(_FRAMES, scale.frames)
    settings = sampling(scale.gpt, frames)
    seconds = []
    for run in range(_RUNS + 1):
        requests = [
            GenerationRequest(prompt(scale.gpt, scale.prompt, row), settings, key(run))
            for row in range(streams)
        ]
        began = time.perf_counter()
        made = sum(
            len(delta.ids)
            for deltas in engine.generate(requests, Cancellation())
            for delta in deltas
        )
        seconds.append((time.perf_counter() - began) / frames)
        if made != streams * frames:
            raise RuntimeError(f"{made} frames came out of {streams} requests for {frames} each")
    return seconds[1:]
