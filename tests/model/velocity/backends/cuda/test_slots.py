"""The slots of sequences that decode: they keep them, and changed rows alone are written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from .....support.capture_tools import EagerCapturer
from .....support.kernel_tools import DEVICE

from ChatTTS.model.velocity.backends.cuda.decode_steps import buckets  # isort: skip
from ChatTTS.model.velocity.backends.cuda.slots import SlotMap, SlotRows  # isort: skip


def test_sequences_that_go_on_keep_their_slots() -> None:
    slots = SlotMap(4)
    assert slots.assign({7: 3, 8: 9, 9: 1}) == {7: 0, 8: 1, 9: 2}
    slots.advance(2)
    assert slots.assign({7: 5, 9: 3}) == {}
    assert slots.assign({9: 3, 6: 0, 7: 5}) == {6: 3}
    assert slots.slot_of == {8: 1, 9: 2, 6: 3, 7: 0}


def test_a_sequence_that_misses_steps_keeps_its_slot_until_another_one_needs_it() -> None:
    slots = SlotMap(3)
    slots.assign({7: 3, 8: 9, 9: 1})
    slots.advance(1)
    slots.assign({9: 2})
    slots.advance(8)
    assert slots.assign({8: 10, 9: 10}) == {}  # the device has not moved 8 meanwhile
    slots.advance(1)
    assert slots.assign({5: 0, 9: 11}) == {5: 0}  # of 7, which rests longest
    slots.advance(1)
    assert slots.assign({7: 4, 8: 11}) == {7: 0}  # of 5; 8 goes on in its own


def test_a_sequence_at_another_position_enters_again() -> None:
    slots = SlotMap(2)
    slots.assign({7: 3, 8: 9})
    slots.advance(1)
    assert slots.assign({7: 3, 8: 10}) == {7: 0}


@pytest.mark.parametrize("seed", range(3))
def test_any_order_of_joins_and_leaves(seed: int) -> None:
    """No two sequences have one slot, and those that rest have theirs or enter again."""
    rng = np.random.default_rng(seed)
    slots, following, rested = SlotMap(16), 0, 0
    held: dict[int, int] = {}
    for _ in range(300):
        for seq_id in [seq_id for seq_id in held if rng.random() < 0.2]:
            del held[seq_id]
        while len(held) < 16 and rng.random() < 0.6:
            held[following], following = 0, following + 1
        batch = {seq_id: at for seq_id, at in held.items() if rng.random() < 0.7}
        before = dict(slots.slot_of)
        entered = slots.assign(batch)
        for seq_id, position in batch.items():
            rested += position > 0 and seq_id not in entered
            assert position > 0 or seq_id in entered
            if seq_id not in entered:
                assert slots.slot_of[seq_id] == before[seq_id]
        assert len(set(slots.slot_of.values())) == len(slots.slot_of)
        assert set(slots.slot_of.values()) <= set(range(16))
        slots.advance(1)
        held |= {seq_id: position + 1 for seq_id, position in batch.items()}
    assert rested > 100


@pytest.mark.parametrize("captured", [True, False])
def test_rows_are_written_together(captured: bool) -> None:
    """More rows than one write has, and tensors of all dtypes; no other row changes."""
    tensors = {
        "whole": torch.full((101, 3), 5, dtype=torch.int32, device=DEVICE),
        "real": torch.full((101,), 5.0, device=DEVICE),
        "small": torch.full((101, 2, 2), 5, dtype=torch.uint8, device=DEVICE),
    }
    rows = SlotRows(tensors)
    if captured:
        rows.capture(EagerCapturer())
    rng = np.random.default_rng(0)
    slots = rng.permutation(100)[:70].tolist()
    values: dict[str, Any] = {
        "whole": rng.integers(-(2**31), 2**31, (70, 3)),
        "real": rng.standard_normal(70).astype(np.float32),
        "small": rng.integers(0, 256, (70, 2, 2)),
    }
    rows.write(slots, values)
    others = sorted(set(range(100)) - set(slots))
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(tensor[slots].cpu().numpy(), values[name])
        assert (tensor[others] == 5).all()


def test_buckets_are_fine() -> None:
    assert buckets(256) == (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
    assert buckets(512, 16) == (16, 24, 32, 48, 64, 96, 128, 192, 256, 320, 384, 448, 512)
