"""The parts of ranks: they cover a model, and no two have the same output."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ChatTTS.errors import ConfigError
from ChatTTS.model.share import GatheredLinear, Share

from ....support.rank_tools import Turns, all_peers, shares, side_by_side
from ....support.velocity_models import make_shape

SHAPE = make_shape(96, 12, 6, 8, inner=100, layers=5)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("stages", [1, 2, 5])
@pytest.mark.parametrize("outputs", [96, 100, 7])
def test_parts_cover_the_model(ranks: int, stages: int, outputs: int) -> None:
    own = shares(SHAPE, ranks, stages)
    first = own[:ranks]
    assert [i for share in first for i in share.own(outputs)] == list(range(outputs))
    assert [len(share.own(outputs)) for share in first] == first[0].columns(outputs)
    assert [h for share in first for h in share.heads] == list(range(12))
    assert [h for share in first for h in share.kv_heads] == list(range(6))
    assert sum(first[0].query_columns()) == 96
    assert [layer for share in own[::ranks] for layer in share.layers] == list(range(5))
    assert [share.is_first for share in own] == [index < ranks for index in range(len(own))]
    assert [share.is_last for share in own] == [share.stage == stages - 1 for share in own]
    for share in own:
        assert (share.local.num_hidden_layers, share.local.num_key_value_heads) == (
            len(share.layers),
            len(share.kv_heads),
        )


@pytest.mark.parametrize(
    ("sizes", "name"),
    [({"ranks": 7}, "tensor_parallel_size is 7"), ({"stages": 6}, "pipeline_parallel_size is 6")],
)
def test_sizes_that_do_not_fit(sizes: dict[str, int], name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        Share(SHAPE, **sizes)


def test_a_head_is_computed_by_all_ranks() -> None:
    own, turns = shares(SHAPE, 3), Turns()
    whole, rows = torch.randn(50, 8), torch.randn(4, 8)

    def compute(share: Share, peers: object) -> torch.Tensor:
        part = nn.Linear(8, len(share.own(50)), bias=False)
        part.weight = nn.Parameter(whole[share.own(50).start : share.own(50).stop])
        found: torch.Tensor = GatheredLinear(part, peers, share.columns(50))(rows)  # type: ignore[arg-type]
        return found

    works = [
        (lambda share=share, peers=peers: compute(share, peers))
        for share, peers in zip(own, all_peers(own, turns), strict=True)
    ]
    for found in side_by_side(works, turns):
        torch.testing.assert_close(found, rows @ whole.T)
