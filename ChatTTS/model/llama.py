"""The standard path: transformers' own Llama, batched and left-padded, one step at a time.

It is the reference that the engine is held against, so it does the plain thing.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..checkpoints.tensor_file import TensorFile
from ..checkpoints.tensors import load_module
from ..errors import AssetError, GenerationError, TextError
from ..utils.fair_lock import ComputeLock
from . import processors
from .draws import Pass, uniforms
from .embed import Embed
from .generation import Cancellation, Delta, FinishReason, GenerationRequest
from .llama_config import LlamaShape, check_rotation
from .torchaudio_import import ensure_torchaudio

logger = logging.getLogger(__name__)


def llama_config(shape: LlamaShape, attention: str = "sdpa") -> Any:
    """A transformers ``LlamaConfig``.

    Raises:
        AssetError: transformers refuses it.
    """
    from transformers import LlamaConfig

    values = asdict(shape)
    scaling = values.pop("rope_scaling")
    if scaling:
        values["rope_scaling"] = {**scaling, "rope_theta": shape.rope_theta}
    try:
        return LlamaConfig(
            **values,
            vocab_size=1,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=None,
            attn_implementation=attention,
        )
    except Exception as error:  # transformers has many kinds
        raise AssetError(
            f"asset/gpt/config.json describes no Llama ({error}); restore the file"
        ) from error


def load_llama(config: Any, weights: Path, device: torch.device, dtype: torch.dtype) -> nn.Module:
    """A transformers ``LlamaModel`` with the weights of ``asset/gpt/model.safetensors``.

    Raises:
        AssetError: the file cannot be used.
    """
    ensure_torchaudio()  # transformers imports it wherever it is installed, binary and all
    from transformers import LlamaConfig, LlamaModel

    # On the meta device no time goes into random weights. What is computed and not loaded (the
    # rotary frequencies, which releases before 4.48 keep in every layer) comes from a model
    # without layers.
    try:
        with torch.device("meta"):
            model = LlamaModel(config).to(dtype)
        without_layers = LlamaConfig(**{**config.to_dict(), "num_hidden_layers": 0})
        rotary = LlamaModel(without_layers).rotary_emb
        # A copy is tried: some kinds remember the longest text that they have seen.
        positions = torch.arange(config.max_position_embeddings).unsqueeze(0)
        tables = copy.deepcopy(rotary)(torch.zeros(1), positions)
    except Exception as error:  # of an activation or a rope that it does not know
        raise AssetError(
            f"{weights.with_name('config.json')} describes no Llama that this transformers can "
            f"build ({type(error).__name__}: {error}); restore the file"
        ) from error
    check_rotation(config.head_dim, *tables)
    for module in model.modules():
        if hasattr(module, "rotary_emb"):
            module.rotary_emb = rotary
    model.embed_tokens = nn.Identity()  # embeddings are given; the file's, if any, is unused
    load_module(model, TensorFile(weights), file=weights, unused_ok=("embed_tokens.",))
    return model.to(device).eval().requires_grad_(False)


class StandardEngine:
    """Generation on transformers' Llama, with a key-value cache or (slowly) without.

    Args:
        model: a ``LlamaModel``.
        embed: embeddings and heads, on the same device and in the same dtype.
        end_of_text: the id that ends a text answer.
        max_positions: the model's positions.
        new_cache: makes the key-value cache of a batch; ``None`` instead of one computes
            everything again at each step, for reference.
        compute_lock: held during a step, as by all work that needs the same cores.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        embed: Embed,
        *,
        end_of_text: int,
        max_positions: int,
        new_cache: Callable[[], Any],
        compute_lock: ComputeLock,
    ) -> None:
        self.model = model
        self.embed = embed
        self.end_of_text = end_of_text
        self.max_positions = max_positions
        self.new_cache = new_cache
        self.compute_lock = compute_lock

    @property
    def device(self) -> torch.device:
        return self.embed.code.weight.device

    def close(self) -> None:
        """Nothing outlives a call here."""

    @torch.inference_mode()
    def generate(
        self, requests: Sequence[GenerationRequest], cancelled: Cancellation
    ) -> Iterator[list[Delta]]:
        """See :class:`~ChatTTS.model.generation.Generator`.

        Raises:
            TextError: a prompt leaves no room for an answer.
        """
        for kind in Pass:
            rows = [i for i, request in enumerate(requests) if request.kind is kind]
            if rows:
                yield from self._generate_alike(requests, rows, kind, cancelled)

    def _generate_alike(
        self,
        requests: Sequence[GenerationRequest],
        rows: list[int],
        kind: Pass,
        cancelled: Cancellation,
    ) -> Iterator[list[Delta]]:
        """Run those of the requests that are of one kind as one batch."""
        batch = _Batch([requests[i] for i in rows], rows, self.embed, self.max_positions)
        cache = self.new_cache()
        embeds, mask, positions = batch.embeds, batch.mask, batch.positions
        while True:
            if cancelled.is_set():
                yield batch.abort()
                return
            step = partial(self._step, batch, kind, embeds, mask, positions, cache)
            ids, hidden = self.compute_lock.run(step)
            keep, deltas = batch.advance(ids, hidden, self._end(kind))
            yield deltas
            if not keep:
                return
            if len(keep) < len(ids):
                kept = torch.tensor(keep, device=self.device)
                ids, embeds, mask, positions = (
                    t.index_select(0, kept.to(t.device)) for t in (ids, embeds, mask, positions)
                )
                if cache is not None:
                    cache.batch_select_indices(kept)
            last = self._embed_ids(ids.to(self.device), kind)
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
            if cache is None:
                embeds = torch.cat([embeds, last], dim=1)
                positions = torch.cat([positions, positions[:, -1:] + 1], dim=1)
            else:
                embeds, positions = last, positions[:, -1:] + 1

    def _step(
        self,
        batch: _Batch,
        kind: Pass,
        embeds: Tensor,
        mask: Tensor,
        positions: Tensor,
        cache: Any,
    ) -> tuple[Tensor, Tensor]:
        """Draw the next ids [B, num_codebooks]; return them and their hidden states [B, hidden]."""
        hidden = self._forward(embeds, mask, positions, cache)
        return batch.draw(self._logits(hidden, kind), self._end(kind)), hidden

    def _forward(self, embeds: Tensor, mask: Tensor, positions: Tensor, cache: Any) -> Tensor:
        """The last position's hidden states [B, hidden]."""
        output = self.model(
            inputs_embeds=embeds,
            attention_mask=None if mask.all() else mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=cache is not None,
        )
        return output.last_hidden_state[:, -1]

    def _logits(self, hidden: Tensor, kind: Pass) -> Tensor:
        heads = self.embed.code_logits if kind is Pass.CODE else self.embed.text_logits
        return heads(hidden)

    def _end(self, kind: Pass) -> int:
        return self.embed.num_audio_tokens - 1 if kind is Pass.CODE else self.end_of_text

    def _embed_ids(self, ids: Tensor, kind: Pass) -> Tensor:
        """Ids [B, num_codebooks] to the next input [B, 1, hidden]."""
        if kind is Pass.CODE:
            return self.embed.embed_codes(ids).unsqueeze(1)
        return self.embed.embed_text(ids)


@dataclass
class _Row:
    """The state of one request, which moves with it when others leave the batch."""

    index: int
    request: GenerationRequest
    limit: int
    generated: int = 0


class _Batch:
    """Requests of one kind that advance together, left-padded to one length.

    Attributes:
        rows: the requests that still run, in the order of the tensors' rows.
        embeds: prompts, [B, L, hidden].
        mask: 1 where a position is real, int64 [B, L].
        positions: counted from the first real one, int64 [B, L].
    """

    def __init__(
        self,
        requests: Sequence[GenerationRequest],
        indices: Sequence[int],
        embed: Embed,
        max_positions: int,
    ) -> None:
        for request in requests:
            if len(request.prompt) >= max_positions:
                raise TextError(
                    f"the prompt has {len(request.prompt)} positions and the model "
                    f"{max_positions}: shorten the text or the sample prompt"
                )
        self.rows = [
            _Row(index, request, min(request.sampling.max_new, max_positions - len(request.prompt)))
            for index, request in zip(indices, requests, strict=True)
        ]
        device = embed.code.weight.device
        length = max(len(request.prompt) for request in requests)
        hidden = embed.code.weight.shape[1]
        self.embeds = embed.code.weight.new_zeros(len(requests), length, hidden)
        self.mask = torch.zeros(len(requests), length, dtype=torch.int64, device=device)
        for row, request in enumerate(requests):
            start = length - len(request.prompt)
            self.embeds[row, start:] = embed_prompt(request, embed)
            self.mask[row, start:] = 1
        self.positions = (self.mask.cumsum(dim=1) - 1).clamp_min(0)
        self._lanes = len(requests[0].sampling.temperature)
        self._history = torch.empty(len(requests), self._lanes, 0, dtype=torch.int64, device=device)
        self._settle()

    def _settle(self) -> None:
        """Lay the rows' sampling settings out as tensors, [B, 1 or num_codebooks, 1]."""

        def column(values: list[Any], dtype: torch.dtype) -> Tensor:
            return torch.tensor(values, dtype=dtype, device=self.mask.device).unsqueeze(-1)

        settings = [row.request.sampling for row in self.rows]
        temperature = column([s.temperature for s in settings], torch.float32)
        self._greedy = temperature.squeeze(-1) == 0
        self._temperature = torch.where(temperature == 0, torch.ones_like(temperature), temperature)
        self._top_p = column([[s.top_p] for s in settings], torch.float32)
        self._top_k = column([[s.top_k] for s in settings], torch.int64)
        self._penalty = column([[s.repetition_penalty] for s in settings], torch.float32)

    def draw(self, logits: Tensor, end: int) -> Tensor:
        """Ids [B, num_codebooks] on the CPU from float32 logits [B, num_codebooks, vocabulary]."""
        if not torch.isfinite(logits).all():
            raise GenerationError(
                "the model gave logits that are not finite: its weights are damaged (check them "
                "with `chattts verify`) or too large for this dtype (load with dtype='float32')"
            )
        logits = processors.apply_temperature(logits, self._temperature)
        logits = processors.penalise_repetition(logits, self._history, self._penalty)
        logits = logits.nan_to_num()  # an extreme penalty overflows, and must not reach the draw
        logits = processors.keep_top(logits, self._top_p, self._top_k)
        early = [row.generated < row.request.sampling.min_new for row in self.rows]
        if any(early):
            logits = processors.forbid(logits, end, torch.tensor(early, device=logits.device))
        numbers = uniforms(
            [row.request.key for row in self.rows],
            [row.generated for row in self.rows],
            self._lanes,
        )
        drawn = processors.draw(logits, torch.from_numpy(numbers).to(logits.device))
        ids = torch.where(self._greedy, logits.argmax(dim=-1), drawn)
        self._history = torch.cat(
            [self._history[..., -(processors.PENALTY_WINDOW - 1) :], ids.unsqueeze(-1)], dim=-1
        )
        return ids.cpu()

    def advance(self, ids: Tensor, hidden: Tensor, end: int) -> tuple[list[int], list[Delta]]:
        """Account for a step; returns the tensor rows that go on, and everybody's delta."""
        keep, deltas = [], []
        ended = (ids == end).any(dim=1).tolist()
        for place, row in enumerate(self.rows):
            if ended[place]:
                nothing = slice(place, place)
                deltas.append(Delta(row.index, ids[nothing], hidden[nothing], FinishReason.STOP))
                continue
            row.generated += 1
            full = row.generated >= row.limit
            if full and row.limit < row.request.sampling.max_new:
                logger.warning("a row met the end of the model's positions and was cut there")
            own = slice(place, place + 1)
            finish = FinishReason.LENGTH if full else None
            deltas.append(Delta(row.index, ids[own], hidden[own], finish))
            if not full:
                keep.append(place)
        if len(keep) < len(self.rows):
            self.rows = [self.rows[place] for place in keep]
            self._history = self._history[keep]
            self._settle()
        return keep, deltas

    def abort(self) -> list[Delta]:
        """End every row that still runs."""
        ids = torch.empty(0, self._lanes, dtype=torch.int64)
        return [Delta(row.index, ids, self.embeds[:0, 0], FinishReason.ABORT) for row in self.rows]


def embed_prompt(request: GenerationRequest, embed: Embed) -> Tensor:
    """A prompt's vectors [positions, hidden]: text, the speaker in its place, sample codes."""
    prompt = request.prompt
    weight = embed.text.weight
    text = embed.embed_text(torch.from_numpy(prompt.text).to(weight.device))
    if prompt.speaker is not None:
        slots = torch.from_numpy(np.flatnonzero(prompt.speaker_slots))
        text[slots.to(weight.device)] = torch.from_numpy(prompt.speaker).to(weight)
    if not len(prompt.codes):
        return text
    return torch.cat([text, embed.embed_codes(torch.from_numpy(prompt.codes).to(weight.device))])
