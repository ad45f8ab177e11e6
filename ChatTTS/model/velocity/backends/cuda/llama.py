"""The Llama on Triton kernels, with what recorded steps ask of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

from ....embed import Embed
from ....kernels.cuda.text_attention import attend_text
from ....llama.config import LlamaShape
from ....llama.shard import Peers, Shard
from ....llama.weights import LayerWeights
from ....lora.adapter import Adapter
from ...layers import LayeredLlama
from .operations import AttentionMetadata, TritonOperations

__all__ = ["AttentionMetadata", "TritonLlama"]


class TritonLlama(LayeredLlama):
    """The layers over :class:`TritonOperations`, which has some of the arguments.

    Args:
        shape: sizes and constants; ``why_no_kernels`` tells which ones the kernels take.

    Attributes:
        has_adapters: whether rows may have any.
        takes_tiles: whether prompts need ``AttentionMetadata.tiles``.
    """

    def __init__(
        self,
        shape: LlamaShape,
        layers: Iterable[LayerWeights],
        final_norm: Tensor,
        embed: Embed | None,
        rotary: tuple[Tensor, Tensor],
        block_size: int,
        *,
        batch_invariant: bool,
        shard: Shard | None = None,
        peers: Peers | None = None,
        adapters: Sequence[Adapter] = (),
    ) -> None:
        cosines, sines = (table.to(final_norm.device).contiguous() for table in rotary)
        self._rotary, shard = (cosines, sines), shard or Shard(shape)
        operations = TritonOperations(
            shape,
            embed,
            self._rotary,
            batch_invariant=batch_invariant,
            shard=shard,
            adapters=adapters,
        )
        super().__init__(
            shape, layers, final_norm, operations, block_size, shard=shard, peers=peers
        )
        self.embedded = operations.embed
        self.has_adapters, self.takes_tiles = bool(adapters), operations.takes_tiles

    def hiddens(
        self,
        x: Tensor,
        rows: AttentionMetadata,
        pool: Tensor,
        kept: Tensor | None = None,
        adapter_of: Tensor | None = None,
    ) -> Tensor:
        """Return the hidden states of rows after the final norm; see :meth:`apply_layers`."""
        return self._normed(self.apply_layers(x, rows, pool, kept, adapter_of))

    def new_kept(self, rows: int) -> Tensor:
        """Return memory for the queries, keys and values of a step's rows, before the rotation.

        It is [layers, rows, (heads + 2 * kv heads) * head size].
        """
        layers, pairs, kv_heads, _, size = self._block_shape
        width = (self._shape.num_attention_heads + pairs * kv_heads) * size
        return self._final_norm.new_zeros(layers, rows, width)

    def attend_text(
        self, entries: Tensor, kept: Tensor, rows: AttentionMetadata, pool: Tensor, found: Tensor
    ) -> None:
        """Compute the attention of some heads in the last step.

        Args:
            entries, found: see :func:`~ChatTTS.model.kernels.cuda.text_attention.attend_text`.
            kept: what that step kept.
            rows: of that step; their positions are now one further.
            pool: the KV cache's blocks.
        """
        where = rows.tables, rows.table_of, rows.positions
        attend_text(entries, kept, self._rotary, pool, *where, found)
