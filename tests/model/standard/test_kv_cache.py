"""The growing cache holds what transformers' own holds, past its first room and after rows left."""

import torch
from transformers import DynamicCache

from ChatTTS.model.standard.kv_cache import GrowingCache


def test_the_same_as_the_librarys_own() -> None:
    generator = torch.Generator().manual_seed(0)
    ours, theirs = GrowingCache(), DynamicCache()
    rows = 3
    for step in range(400):
        if step == 300:
            rows = 2
            kept = torch.tensor([0, 2])
            ours.batch_select_indices(kept)
            theirs.batch_select_indices(kept)
        length = 7 if step == 0 else 1
        for layer in range(2):
            keys, values = (torch.randn(rows, 2, length, 4, generator=generator) for _ in range(2))
            for found, expected in zip(
                ours.update(keys, values, layer), theirs.update(keys, values, layer), strict=True
            ):
                assert found.equal(expected)
        assert ours.get_seq_length() == theirs.get_seq_length() == 7 + step
    assert ours.get_mask_sizes(1, 0) == (407, 0)


def test_an_empty_cache_has_no_positions() -> None:
    cache = GrowingCache()
    assert cache.get_seq_length() == 0
    assert cache.get_mask_sizes(torch.arange(5), 0) == (5, 0)
