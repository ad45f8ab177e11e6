"""A random language model of any size for the GPU benchmark, and requests to it.

Only the part of a checkpoint that the engine reads is written. So the packages of the audio decoder
and the vocoder are not needed.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

import ChatTTS
from ChatTTS.config import EmbedConfig, GPTConfig
from ChatTTS.model.generation import GenerationRequest
from ChatTTS.model.random_numbers import DrawKey, Pass
from ChatTTS.model.sampling_params import SamplingParams
from ChatTTS.model.tokenizer import Prompt
from ChatTTS.model.velocity.configs import EngineArgs
from ChatTTS.params import InferCodeParams

from .scale import Scale, Task

# Any tokenizer with the control tokens works.
_TOKENIZER = Path(ChatTTS.__file__).parent / "bundled" / "asset" / "tokenizer"
# Standard deviation of random weights.
_SPREAD = 0.02
# Of the traffic: one request in so many refines its text; positions of a prompt, from and below;
# the most frames of a request, and the most ids of a refined text.
_REFINING = 8
_PROMPTS = (20, 60)
_LONGEST, _LONGEST_TEXT = 600, 60


def language_model(task: Task) -> Path:
    """Return the folder that holds ``asset/``; the first part that needs it writes it."""
    folder = task.folder / "language-model"
    if not folder.exists():
        partial = task.folder / "language-model.partial"
        shutil.rmtree(partial, ignore_errors=True)
        _write(partial / "asset", task.scale.gpt)
        partial.rename(folder)
    return folder


def engine_args(
    task: Task,
    dtype: str,
    *,
    batch_invariant: bool = True,
    adapters: Mapping[str, Path] | None = None,
    kv_cache_dtype: str = "auto",
    quantization: str | None = None,
) -> EngineArgs:
    """Return an engine's settings for that model and the most streams, otherwise the defaults."""
    return EngineArgs(
        language_model(task),
        dtype=dtype,
        batch_invariant=batch_invariant,
        device=task.scale.device,
        kv_memory=task.scale.kv_memory,
        max_num_seqs=max(task.scale.streams),
        max_num_batched_tokens=task.scale.batched_tokens,
        adapters=adapters,
        kv_cache_dtype=kv_cache_dtype,
        quantization=quantization,
    )


def sampling(gpt: GPTConfig, frames: int) -> SamplingParams:
    """Return the package's default settings for exactly ``frames`` frames."""
    params = InferCodeParams(max_new_token=frames, min_new_token=frames)
    return SamplingParams.from_params(params, num_codebooks=gpt.num_vq)


def prompt(gpt: GPTConfig, positions: int, number: int) -> Prompt:
    """Return a prompt of random text ids, which depend on ``number``."""
    ids = np.random.default_rng(number).integers(0, gpt.num_text_tokens, positions)
    return Prompt(ids, np.zeros((0, 0), dtype=np.int64), None, np.zeros(positions, dtype=np.bool_))


def requests_of(scale: Scale, count: int, frames: int) -> list[GenerationRequest]:
    """Return requests for exactly ``frames`` frames each, with the package's default settings."""
    settings = sampling(scale.gpt, frames)
    return [
        GenerationRequest(prompt(scale.gpt, scale.prompt, n), settings, key(n), request_id=f"r{n}")
        for n in range(count)
    ]


def key(number: int) -> DrawKey:
    """Return the key of the random numbers of a request for speech."""
    return DrawKey(number, Pass.CODE)


def traffic(gpt: GPTConfig) -> Iterator[GenerationRequest]:
    """Yield requests of random lengths without end; a few of them refine texts.

    A request ends after the number of frames, or of text ids, that was drawn for it.
    """
    random = np.random.default_rng(0)
    for number in itertools.count():
        refines = number % _REFINING == _REFINING - 1
        positions = int(random.integers(*_PROMPTS))
        longest = _LONGEST_TEXT if refines else _LONGEST
        most = int(random.integers(1, min(longest, gpt.max_position_embeddings - _PROMPTS[1])))
        temperature = (1.0,) * (1 if refines else gpt.num_vq)
        settings = SamplingParams(temperature, 0.7, 20, 1.05, most, most)
        draws = DrawKey(number, Pass.REFINE if refines else Pass.CODE)
        yield GenerationRequest(
            prompt(gpt, positions, number), settings, draws, request_id=f"r{number}"
        )


def _write(asset: Path, gpt: GPTConfig) -> None:
    (asset / "gpt").mkdir(parents=True)
    shutil.copytree(_TOKENIZER, asset / "tokenizer")
    random = torch.Generator().manual_seed(0)
    save_file(dict(_llama(gpt, random)), asset / "gpt" / "model.safetensors")
    save_file(dict(_embed(gpt, random)), asset / "Embed.safetensors")
    sizes = asdict(gpt)
    (asset / "gpt" / "config.json").write_text(json.dumps(sizes), encoding="utf-8")
    if gpt != GPTConfig():
        names = ("hidden_size", "num_audio_tokens", "num_text_tokens", "num_vq")
        embed = asdict(EmbedConfig(**{name: sizes[name] for name in names}))
        values = json.dumps({"gpt": sizes, "embed": embed})
        (asset / "config.json").write_text(values, encoding="utf-8")


def _llama(gpt: GPTConfig, random: torch.Generator) -> Iterator[tuple[str, Tensor]]:
    hidden, inner = gpt.hidden_size, gpt.intermediate_size
    matrices = {f"self_attn.{part}_proj": (hidden, hidden) for part in "qkvo"}
    matrices |= {f"mlp.{part}_proj": (inner, hidden) for part in ("gate", "up")}
    matrices["mlp.down_proj"] = (hidden, inner)
    for layer in range(gpt.num_hidden_layers):
        for name, size in matrices.items():
            weight = torch.randn(*size, generator=random) * _SPREAD
            yield f"layers.{layer}.{name}.weight", weight
        for name in ("input", "post_attention"):
            yield f"layers.{layer}.{name}_layernorm.weight", torch.ones(hidden)
    yield "norm.weight", torch.ones(hidden)


def _embed(gpt: GPTConfig, random: torch.Generator) -> Iterator[tuple[str, Tensor]]:
    """Yield embeddings and weight-normed heads, by their published names."""
    tables = {"text": gpt.num_text_tokens}
    tables |= {f"code.{i}": gpt.num_audio_tokens for i in range(gpt.num_vq)}
    for name, rows in tables.items():
        head = f"head_{name}.parametrizations.weight"
        direction = torch.randn(rows, gpt.hidden_size, generator=random) * _SPREAD
        table = torch.randn(rows, gpt.hidden_size, generator=random) * _SPREAD
        yield f"emb_{name}.weight", table
        yield f"{head}.original0", direction.norm(dim=1, keepdim=True)
        yield f"{head}.original1", direction
