"""The standard engine: transformers' own Llama, on left-padded batches, one step at a time.

It is what velocity is compared with, and its Llama and heads are modules that scripts may touch.
"""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...config import checked_heads
from ...errors import AssetError, GenerationError
from ...utils.fair_lock import ComputeLock
from ...utils.openmp import at_most
from ...weights.tensor_file import TensorFile
from ...weights.tensors import load_module
from ..embed import Embed
from ..generation import (
    NOT_FINITE,
    Cancellation,
    Delta,
    FinishReason,
    GenerationRequest,
    check_length,
    check_single,
)
from ..llama.config import check_rotation
from ..llama.transformers_import import importing_transformers
from ..lora.names import Adapters, check_known
from ..processors import PENALTY_WINDOW
from ..random_numbers import Pass
from ..sampling import SamplingRow, sample_rows
from .attention_capture import HeadAttention
from .lora import LlamaAdapters

logger = logging.getLogger(__name__)


def load_llama(config: Any, weights: Path, device: torch.device, dtype: torch.dtype) -> nn.Module:
    """Return a transformers ``LlamaModel`` with the weights of ``asset/gpt/model.safetensors``.

    Raises:
        AssetError: the file cannot be used.
    """
    with importing_transformers():
        from transformers import LlamaConfig, LlamaModel

    # On the meta device no time is spent on random weights. The rotary frequencies are not in the
    # file, so they come from a model without layers. (Releases before 4.48 keep them in every
    # layer.)
    try:
        with torch.device("meta"):
            model: nn.Module = LlamaModel(config).to(dtype)  # type: ignore[arg-type]
        without_layers = LlamaConfig(**{**config.to_dict(), "num_hidden_layers": 0})
        rotary = LlamaModel(without_layers).rotary_emb
        # A copy is tried, because some kinds keep the longest length that they have seen.
        positions = torch.arange(config.max_position_embeddings).unsqueeze(0)
        tables = copy.deepcopy(rotary)(torch.zeros(1), positions)
    except Exception as error:  # for example of an unknown activation or rotary embedding
        raise AssetError(
            f"{weights.with_name('config.json')} describes no Llama that this transformers can "
            f"build ({type(error).__name__}: {error}); restore the file"
        ) from error
    check_rotation(config.head_dim, *tables)
    for module in model.modules():
        if hasattr(module, "rotary_emb"):
            module.rotary_emb = rotary
    model.embed_tokens = nn.Identity()  # the input is embeddings; the file's table is unused
    load_module(model, TensorFile(weights), file=weights, unused_ok=("embed_tokens.",))
    return model.to(device).eval().requires_grad_(False)


def cache_keyword(model: Any) -> str:
    """Return the name that the model's forward method has for its KV cache.

    From transformers 5.24 on it is ``cache``; the older name ends with 5.40.
    """
    known = inspect.signature(getattr(model, "forward", model)).parameters
    return "cache" if "cache" in known else "past_key_values"


class StandardEngine:
    """Generation on transformers' Llama, with a KV cache or (slowly) without.

    Args:
        model: a ``LlamaModel``.
        embed: embeddings and heads, with the device and dtype of ``model``.
        end_of_text: the id that ends a text answer.
        max_positions: the most positions that the model can read.
        observed: the module of ``model`` that is not compiled, whose heads give attention.
        new_cache: makes the KV cache of a batch. If it returns ``None``, each step computes
            all positions again, for reference.
        compute_lock: held during a step, as by all work that needs the same cores.
        adapters: those on ``model``, if there are any.
        max_threads: threads of torch's operators in a step; ``None`` leaves them as they are.

    Attributes:
        gives_attention: whether requests may have alignment heads.
    """

    gives_attention = True

    def __init__(
        self,
        model: Callable[..., Any],
        embed: Embed,
        *,
        observed: Any,
        end_of_text: int,
        max_positions: int,
        new_cache: Callable[[], Any],
        compute_lock: ComputeLock,
        adapters: LlamaAdapters | None = None,
        max_threads: int | None = None,
    ) -> None:
        self.model = model
        self._cache_keyword = cache_keyword(observed)
        self._max_threads = max_threads
        self._adapters = adapters
        self.embed = embed
        self.observed = observed
        self.end_of_text = end_of_text
        self.max_positions = max_positions
        self.new_cache = new_cache
        self.compute_lock = compute_lock

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return self.embed.code.weight.device

    @property
    def adapters(self) -> Adapters:
        """The loaded adapters by their names."""
        return {} if self._adapters is None else self._adapters.infos

    def close(self) -> None:
        """Do nothing: no thread and no request outlives a call here."""

    def generate(
        self, requests: Sequence[GenerationRequest], cancelled: Cancellation
    ) -> Generator[list[Delta], None, None]:
        """Run ``requests`` together, see :class:`~ChatTTS.model.generation.Generator`.

        Raises:
            TextError: a prompt leaves no room for an answer.
            ConfigError: the model has no such alignment head, or no such adapter is loaded.
            GenerationError: the model's logits are not finite (with any step).
        """
        check_single(requests)
        for request in requests:
            check_length(request.prompt, self.max_positions)
            check_known(request.adapter, self.adapters)
            if request.alignment_heads:
                checked_heads(request.alignment_heads, self.observed.config)
        return self._generate(requests, cancelled)

    @torch.inference_mode()
    def _generate(
        self, requests: Sequence[GenerationRequest], cancelled: Cancellation
    ) -> Generator[list[Delta], None, None]:
        """Run checked requests, first those of one pass and then those of the other."""
        for kind in Pass:
            chosen = {i: request for i, request in enumerate(requests) if request.key.kind is kind}
            if chosen:
                yield from self._generate_pass(kind, chosen, cancelled)

    def _generate_pass(
        self, kind: Pass, requests: Mapping[int, GenerationRequest], cancelled: Cancellation
    ) -> Generator[list[Delta], None, None]:
        """Run requests of one pass, by their indices in the call, as one batch."""
        batch = PaddedBatch(requests, self.embed, self.max_positions)
        cache = self.new_cache()
        heads = self._head_attention(batch, cache)
        embeds, mask, positions = batch.embeds, batch.mask, batch.positions
        while True:
            if cancelled.is_set():
                yield batch.abort()
                return
            step = partial(self._step, batch, kind, embeds, mask, positions, cache, heads)
            ids, hidden, attention = self.compute_lock.run(step)
            keep, deltas = batch.advance(ids, hidden, self._end(kind), attention)
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
                if heads is not None:
                    heads.select(kept)
            last = self._embed_ids(ids.to(self.device), kind)
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
            if cache is None:
                embeds = torch.cat([embeds, last], dim=1)
                positions = torch.cat([positions, positions[:, -1:] + 1], dim=1)
            else:
                embeds, positions = last, positions[:, -1:] + 1

    def _step(
        self,
        batch: PaddedBatch,
        kind: Pass,
        embeds: Tensor,
        mask: Tensor,
        positions: Tensor,
        cache: Any,
        heads: HeadAttention | None,
    ) -> tuple[Tensor, Tensor, list[Tensor | None]]:
        """Draw the next ids.

        Returns:
            ids [B, num_codebooks]; their hidden states [B, hidden]; for each request its attention,
            float32 [1, heads, text ids] on the CPU, or ``None``.
        """
        attention: list[Tensor | None] = [None] * len(embeds)
        with at_most(self._max_threads):
            if heads is None:
                with self._adapted(batch):
                    hidden = self._forward(self.model, embeds, mask, positions, cache)
            else:
                with self._adapted(batch), heads.recording():
                    hidden = self._forward(heads.model, embeds, mask, positions, cache)
                attention = batch.attention(heads.step(mask, positions))
            return batch.sample(self._logits(hidden, kind), self._end(kind)), hidden, attention

    def _adapted(self, batch: PaddedBatch) -> AbstractContextManager[None]:
        """Return a context in which each row of a batch has its adapter."""
        if self._adapters is None:
            return nullcontext()
        return self._adapters.of([each.request.adapter for each in batch.running], self.device)

    def _head_attention(self, batch: PaddedBatch, cache: Any) -> HeadAttention | None:
        """Return what computes the attention that requests of a batch want, if any want it."""
        wanted = {pair for each in batch.running for pair in each.request.alignment_heads}
        if not wanted:
            return None
        return HeadAttention(self.observed, tuple(sorted(wanted)), keeps_keys=cache is not None)

    def _forward(
        self,
        model: Callable[..., Any],
        embeds: Tensor,
        mask: Tensor,
        positions: Tensor,
        cache: Any,
    ) -> Tensor:
        """Return the hidden states of the last position, [B, hidden]."""
        output = model(
            inputs_embeds=embeds,
            attention_mask=None if mask.all() else mask,
            position_ids=positions,
            use_cache=cache is not None,
            **{self._cache_keyword: cache},
        )
        hidden: Tensor = output.last_hidden_state
        return hidden[:, -1]

    def _logits(self, hidden: Tensor, kind: Pass) -> Tensor:
        heads = self.embed.code_logits if kind is Pass.CODE else self.embed.text_logits
        return heads(hidden)

    def _end(self, kind: Pass) -> int:
        return self.embed.end_of_speech if kind is Pass.CODE else self.end_of_text

    def _embed_ids(self, ids: Tensor, kind: Pass) -> Tensor:
        """Embed ids [B, num_codebooks] as the next input [B, 1, hidden]."""
        if kind is Pass.CODE:
            return self.embed.embed_codes(ids).unsqueeze(1)
        return self.embed.embed_text(ids)


@dataclass
class RunningRequest:
    """A request of a batch.

    Attributes:
        index: its index in the call.
        limit: the most tokens or frames that it gets.
        generated: how many it has so far.
        window: the last of them, int32 [at most 16, num_codebooks].
    """

    index: int
    request: GenerationRequest
    limit: int
    generated: int = 0
    window: NDArray[np.int32] = field(init=False)

    def __post_init__(self) -> None:
        # The number of temperatures is the number of ids of a position, 1 for text.
        self.window = np.zeros((0, len(self.request.sampling.temperature)), dtype=np.int32)


class PaddedBatch:
    """Requests of one pass that advance together, left-padded to one length.

    Attributes:
        running: the requests that have not ended, in the order of the rows of all tensors.
        embeds: embedded prompts, [B, L, hidden].
        mask: 1 where a position is real, int64 [B, L].
        positions: counted from the first real one, int64 [B, L].
    """

    def __init__(
        self,
        requests: Mapping[int, GenerationRequest],
        embed: Embed,
        max_positions: int,
    ) -> None:
        self.running = [
            RunningRequest(i, r, min(r.sampling.max_new, max_positions - len(r.prompt)))
            for i, r in requests.items()
        ]
        device = embed.code.weight.device
        length = self._length = max(len(request.prompt) for request in requests.values())
        hidden = embed.code.weight.shape[1]
        self.embeds = embed.code.weight.new_zeros(len(requests), length, hidden)
        self.mask = torch.zeros(len(requests), length, dtype=torch.int64, device=device)
        for row, request in enumerate(requests.values()):
            start = length - len(request.prompt)
            self.embeds[row, start:] = embed_prompt(request, embed)
            self.mask[row, start:] = 1
        self.positions = (self.mask.cumsum(dim=1) - 1).clamp_min(0)

    def sample(self, logits: Tensor, end: int) -> Tensor:
        """Draw ids [B, num_codebooks] from float32 logits [B, num_codebooks, vocabulary].

        The ids are on the CPU.

        Raises:
            GenerationError: the logits are not finite.
        """
        rows = [
            SamplingRow(each.request.sampling, each.request.key, each.generated, each.window, end)
            for each in self.running
        ]
        drawn, _, finite = sample_rows(logits, rows)
        if not finite.all():
            raise GenerationError(NOT_FINITE)
        ids = drawn.cpu()
        for each, own in zip(self.running, ids.int().numpy(), strict=True):
            each.window = np.concatenate([each.window, own[None]])[-PENALTY_WINDOW:]
        return ids

    def attention(self, found: Mapping[tuple[int, int], Tensor]) -> list[Tensor | None]:
        """Return each request's attention over its text, float32 [1, heads, text ids] or ``None``.

        Args:
            found: of the last position, [B, positions] by layer and head.
        """
        taken: list[Tensor | None] = []
        for row, each in enumerate(self.running):
            heads, prompt = each.request.alignment_heads, each.request.prompt
            if not heads:
                taken.append(None)
                continue
            start = self._length - len(prompt)
            columns = slice(start, start + len(prompt.text))
            taken.append(torch.stack([found[pair][row, columns] for pair in heads])[None].cpu())
        return taken

    def advance(
        self, ids: Tensor, hidden: Tensor, end: int, attention: Sequence[Tensor | None]
    ) -> tuple[list[int], list[Delta]]:
        """Apply drawn ids [B, num_codebooks]; remove requests that have ended from the batch.

        Args:
            hidden: the hidden states that the ids were drawn from, [B, hidden].
            end: the id that ends a request.
            attention: of each request, as :meth:`attention` returns it.

        Returns:
            The tensor rows that go on, and the delta of every request.
        """
        keep, deltas = [], []
        ended = (ids == end).any(dim=1).tolist()
        for row, each in enumerate(self.running):
            if ended[row]:
                none = slice(row, row)
                deltas.append(Delta(each.index, ids[none], hidden[none], FinishReason.STOP))
                continue
            each.generated += 1
            full = each.generated >= each.limit
            if full and each.limit < each.request.sampling.max_new:
                logger.warning("a request met the end of the model's positions and was cut there")
            own = slice(row, row + 1)
            finish = FinishReason.LENGTH if full else None
            delta = Delta(each.index, ids[own], hidden[own], finish, attention=attention[row])
            deltas.append(delta)
            if not full:
                keep.append(row)
        if len(keep) < len(self.running):
            self.running = [self.running[row] for row in keep]
        return keep, deltas

    def abort(self) -> list[Delta]:
        """Return the last delta of every running request."""
        ids = torch.empty(0, self.running[0].window.shape[1], dtype=torch.int64)
        none, abort = self.embeds[:0, 0], FinishReason.ABORT
        return [Delta(each.index, ids, none, abort) for each in self.running]


def embed_prompt(request: GenerationRequest, embed: Embed) -> Tensor:
    """Embed a prompt as vectors [positions, hidden]: text with the speaker, then sample codes."""
    prompt = request.prompt
    weight = embed.text.weight
    text = embed.embed_text(torch.from_numpy(prompt.text).to(weight.device))
    if prompt.speaker is not None:
        slots = torch.from_numpy(np.flatnonzero(prompt.speaker_slots))
        text[slots.to(weight.device)] = torch.from_numpy(prompt.speaker).to(weight)
    if not len(prompt.codes):
        return text
    return torch.cat([text, embed.embed_codes(torch.from_numpy(prompt.codes).to(weight.device))])
