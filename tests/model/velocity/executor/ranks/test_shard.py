"""The parts of ranks: they cover a model, and no two have the same output."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ChatTTS.errors import ConfigError
from ChatTTS.model.llama.shard import GatheredLinear, Shard

from .....support.rank_tools import Turns, all_communicators, shards, side_by_side
from .....support.velocity_models import make_shape

SHAPE = make_shape(96, 12, 6, 8, inner=100, layers=5)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("stages", [1, 2, 5])
@pytest.mark.parametrize("outputs", [96, 100, 7])
def test_parts_cover_the_model(ranks: int, stages: int, outputs: int) -> None:
    own = shards(SHAPE, ranks, stages)
    first = own[:ranks]
    assert [i for shard in first for i in shard.outputs(outputs)] == list(range(outputs))
    assert [len(shard.outputs(outputs)) for shard in first] == first[0].columns(outputs)
    assert [h for shard in first for h in shard.heads] == list(range(12))
    assert [h for shard in first for h in shard.kv_heads] == list(range(6))
    assert sum(first[0].query_columns()) == 96
    assert [layer for shard in own[::ranks] for layer in shard.layers] == list(range(5))
    assert [shard.is_first for shard in own] == [index < ranks for index in range(len(own))]
    assert [shard.is_last for shard in own] == [shard.stage == stages - 1 for shard in own]
    for shard in own:
        assert (shard.local.num_hidden_layers, shard.local.num_key_value_heads) == (
            len(shard.layers),
            len(shard.kv_heads),
        )


@pytest.mark.parametrize(
    ("sizes", "name"),
    [({"ranks": 7}, "tensor_parallel_size is 7"), ({"stages": 6}, "pipeline_parallel_size is 6")],
)
def test_sizes_that_do_not_fit(sizes: dict[str, int], name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        Shard(SHAPE, **sizes)


def test_a_head_is_computed_by_all_ranks() -> None:
    own, turns = shards(SHAPE, 3), Turns()
    whole, rows = torch.randn(50, 8), torch.randn(4, 8)

    def compute(shard: Shard, communicator: object) -> torch.Tensor:
        part = nn.Linear(8, len(shard.outputs(50)), bias=False)
        part.weight = nn.Parameter(whole[shard.outputs(50).start : shard.outputs(50).stop])
        found: torch.Tensor = GatheredLinear(part, communicator, shard.columns(50))(rows)  # type: ignore[arg-type]
        return found

    works = [
        (lambda shard=shard, communicator=communicator: compute(shard, communicator))
        for shard, communicator in zip(own, all_communicators(own, turns), strict=True)
    ]
    for found in side_by_side(works, turns):
        torch.testing.assert_close(found, rows @ whole.T)
