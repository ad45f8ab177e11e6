"""The shard of a model that one rank computes, and what it needs of the other ranks.

Ranks of one stage divide each layer (tensor parallelism), and stages follow one another (pipeline
parallelism). Every product is split by its outputs, and its inputs are gathered. So no sum is ever
split: each number has one accumulator, and the bits are those of a single rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from torch import Tensor, nn

from ...errors import ConfigError
from .config import LlamaShape


class Communicator(Protocol):
    """The exchange of a rank with other ranks. All of them call alike."""

    def all_gather(self, part: Tensor, columns: Sequence[int]) -> Tensor:
        """Return the columns of all ranks of the stage side by side.

        Args:
            part: [rows, columns of this rank].
            columns: how many columns each rank has.
        """
        ...

    def receive(self, rows: Tensor) -> Tensor:
        """Fill ``rows`` with what the stage before computed, and return it."""
        ...

    def send(self, rows: Tensor) -> None:
        """Give ``rows`` to the next stage."""
        ...


@dataclass(frozen=True)
class Shard:
    """The part of a model that one rank has.

    A layer has as many pieces as heads of keys and values. A rank has adjacent pieces: these heads
    with their queries, and of every other product as many of its outputs.

    Attributes:
        shape: of the whole model.
        rank, ranks: of the stage.
        stage, stages: of the pipeline.
    """

    shape: LlamaShape
    rank: int = 0
    ranks: int = 1
    stage: int = 0
    stages: int = 1

    def __post_init__(self) -> None:
        shape = self.shape
        if self.ranks > shape.num_key_value_heads:
            raise ConfigError(
                f"tensor_parallel_size is {self.ranks}, and the model has "
                f"{shape.num_key_value_heads} heads of keys and values, which stay whole: use "
                f"at most {shape.num_key_value_heads}"
            )
        if self.stages > shape.num_hidden_layers:
            raise ConfigError(
                f"pipeline_parallel_size is {self.stages}, and the model has "
                f"{shape.num_hidden_layers} layers: use at most {shape.num_hidden_layers}"
            )

    @property
    def is_first(self) -> bool:
        """Return whether this is a rank of the first stage, which embeds the inputs."""
        return self.stage == 0

    @property
    def is_last(self) -> bool:
        """Return whether this is a rank of the last stage, which draws."""
        return self.stage == self.stages - 1

    @property
    def layers(self) -> range:
        """The layers of the stage."""
        return _part(self.shape.num_hidden_layers, self.stages, self.stage)

    @property
    def kv_heads(self) -> range:
        """The heads of keys and values of the rank."""
        return _part(self.shape.num_key_value_heads, self.ranks, self.rank)

    @property
    def heads(self) -> range:
        """The heads of queries of the rank."""
        group = self.shape.num_attention_heads // self.shape.num_key_value_heads
        kv_heads = self.kv_heads
        return range(kv_heads.start * group, kv_heads.stop * group)

    @property
    def local(self) -> LlamaShape:
        """The shape of the model with no other layers and heads than the rank's."""
        return replace(
            self.shape,
            num_hidden_layers=len(self.layers),
            num_attention_heads=len(self.heads),
            num_key_value_heads=len(self.kv_heads),
        )

    def piece(self, outputs: int) -> int:
        """Return how many of a product's outputs a piece has; the last one may have fewer."""
        return -(-outputs // self.shape.num_key_value_heads)

    def outputs(self, count: int) -> range:
        """Return the rank's part of the outputs of a product."""
        return self._of(self.rank, count)

    def columns(self, outputs: int) -> list[int]:
        """Return how many of a product's outputs each rank of the stage has."""
        return [len(self._of(rank, outputs)) for rank in range(self.ranks)]

    def query_columns(self) -> list[int]:
        """Return how many outputs of the attention each rank of the stage has."""
        return [
            len(replace(self, rank=rank).heads) * self.shape.head_dim for rank in range(self.ranks)
        ]

    def _of(self, rank: int, outputs: int) -> range:
        pieces = _part(self.shape.num_key_value_heads, self.ranks, rank)
        size = self.piece(outputs)
        return range(min(pieces.start * size, outputs), min(pieces.stop * size, outputs))


def _part(count: int, parts: int, index: int) -> range:
    """Return one of nearly equal parts of ``range(count)``; the first ones are the larger."""
    ends = [-(-count * (i + 1) // parts) for i in range(-1, parts)]
    return range(ends[index], ends[index + 1])


class GatheredLinear(nn.Module):
    """A linear layer whose outputs are computed by all ranks of a stage.

    Args:
        linear: computes the rank's outputs.
        communicator: the other ranks.
        columns: how many outputs each rank has.
    """

    def __init__(
        self, linear: nn.Module, communicator: Communicator, columns: Sequence[int]
    ) -> None:
        super().__init__()
        self.linear, self._communicator, self._columns = linear, communicator, columns

    def forward(self, rows: Tensor) -> Tensor:
        return self._communicator.all_gather(self.linear(rows), self._columns)
