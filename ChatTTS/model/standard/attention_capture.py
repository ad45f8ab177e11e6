"""The attention of chosen heads of transformers' Llama, computed beside the model's own steps.

The model's fused attention gives no probabilities. So hooks read the queries and keys that it
projects, and the few wanted heads are computed again from these.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ...config import AlignmentHeads
from ..llama.rotary import rotate


class HeadAttention:
    """The attention of heads in the steps of one left-padded batch.

    Args:
        model: a ``LlamaModel`` that is not compiled; it computes the steps.
        heads: the pairs of a layer and a head that any request of the batch wants.
        keeps_keys: whether a step computes new positions only, so that the keys of earlier ones
            are kept here, as a KV cache keeps them.

    Attributes:
        model: the one given.
    """

    def __init__(self, model: nn.Module, heads: AlignmentHeads, *, keeps_keys: bool) -> None:
        self.model: Any = model
        self._heads = heads
        self._layers = sorted({layer for layer, _ in heads})
        self._keeps_keys = keeps_keys
        self._query: dict[int, Tensor] = {}  # of the last position, by layer: [B, heads * size]
        self._fresh: dict[int, Tensor] = {}  # keys of a step's positions, as they are projected
        self._keys: dict[int, Tensor] = {}  # rotated keys of all positions: [B, T, heads, size]

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Read what this thread's step in the block projects; steps of other threads pass by."""
        thread = threading.get_ident()

        def keep(into: dict[int, Tensor], layer: int, last: bool) -> Any:
            def hook(module: nn.Module, inputs: Any, output: Tensor) -> None:
                if threading.get_ident() == thread:
                    into[layer] = output[:, -1] if last else output

            return hook

        with ExitStack() as hooks:
            for layer in self._layers:
                attention = self.model.layers[layer].self_attn
                for projection, into, last in (
                    (attention.q_proj, self._query, True),
                    (attention.k_proj, self._fresh, False),
                ):
                    handle = projection.register_forward_hook(keep(into, layer, last))
                    hooks.callback(handle.remove)
            yield

    def step(self, mask: Tensor, positions: Tensor) -> dict[tuple[int, int], Tensor]:
        """Return the attention of the last position after a recorded step, by head.

        Args:
            mask: 1 where a position is real, int64 [B, T].
            positions: of the positions that the step computed, int64 [B, t].

        Returns:
            float32 [B, T] for each pair of a layer and a head, on the device of the model.
        """
        found = {}
        for layer in self._layers:
            query, keys = self._rotated(layer, positions)
            groups = query.shape[1] // keys.shape[2]
            for head in (head for number, head in self._heads if number == layer):
                own = query[:, head, :, None].float() * query.shape[-1] ** -0.5
                scores = (keys[:, :, head // groups].float() @ own).squeeze(-1)
                found[layer, head] = scores.masked_fill(mask == 0, -torch.inf).softmax(dim=-1)
        self._query.clear()
        self._fresh.clear()
        return found

    def _rotated(self, layer: int, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the query [B, heads, size] and all keys [B, T, kv heads, size] of a layer."""
        config = self.model.config
        cosines, sines = self.model.rotary_emb(self._fresh[layer], positions)
        size = cosines.shape[-1]
        query = self._query[layer].unflatten(-1, (config.num_attention_heads, size))
        query = rotate(query, cosines[:, -1, None], sines[:, -1, None])
        keys = self._fresh[layer].unflatten(-1, (config.num_key_value_heads, size))
        keys = rotate(keys, cosines.unsqueeze(2), sines.unsqueeze(2))
        if self._keeps_keys:
            if layer in self._keys:
                keys = torch.cat([self._keys[layer], keys], dim=1)
            self._keys[layer] = keys
        return query, keys

    def select(self, rows: Tensor) -> None:
        """Keep only some rows of the batch."""
        for layer, keys in self._keys.items():
            self._keys[layer] = keys.index_select(0, rows.to(keys.device))
