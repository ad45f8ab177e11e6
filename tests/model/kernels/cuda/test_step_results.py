"""The end of a step: what the host gets, and the inputs of the next step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from ....support.kernel_tools import DEVICE

from ChatTTS.model.kernels.cuda.step_results import (  # isort: skip
    result_width,
    store_results,
    store_results_torch,
)

ROWS, ROOM, TURNS, CODEBOOKS = 3, 5, 4, 4


def ended(
    store: Callable[..., None],
    dtype: torch.dtype,
    hidden: int,
    drawn: int,
    turn: int,
    slots: list[int] | None = None,
) -> dict[str, Tensor]:
    """Return all tensors after the end of a step of three rows; there is room for five."""
    random = torch.Generator().manual_seed(hidden)

    def whole(*size: int, most: int = 600) -> Tensor:
        return torch.randint(most, size, generator=random, dtype=torch.int32).to(DEVICE)

    ids = whole(ROOM, CODEBOOKS)
    given = {
        "hiddens": torch.randn(ROWS, hidden, generator=random).to(DEVICE, dtype),
        "drawn": ids if drawn == CODEBOOKS else whole(ROOM, drawn),
        "logprobs": -torch.rand(ROOM, drawn, generator=random).to(DEVICE),
        "finite": whole(ROOM, most=2).to(torch.uint8),
        "active": torch.tensor([1, 0, 1, 1, 1], dtype=torch.int32, device=DEVICE),
        "kinds": whole(ROOM).to(torch.uint8),
        "ids": ids,
        "positions": whole(ROOM),
        "generated": whole(ROOM),
        "turn": torch.tensor([turn], dtype=torch.int32, device=DEVICE),
        "results": torch.zeros(
            TURNS,
            ROOM,
            result_width(hidden, drawn),
            dtype=torch.int32,
            pin_memory=DEVICE.type == "cuda",
        ),
    }
    if slots is not None:
        given["slots"] = torch.tensor(slots, dtype=torch.int32, device=DEVICE)
    store(**given, kind=7)
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    return given


@pytest.mark.parametrize(
    ("dtype", "hidden", "drawn", "turn"),
    [
        (torch.float32, 48, 4, 0),
        (torch.bfloat16, 33, 4, 6),
        (torch.float16, 64, 1, 3),
        (torch.float32, 16, 1, -1),  # the count of steps has overflowed
    ],
)
@pytest.mark.parametrize("slots", [None, [4, 0, 2]])
def test_the_end_of_a_step_equals_the_twin(
    dtype: torch.dtype, hidden: int, drawn: int, turn: int, slots: list[int] | None
) -> None:
    found = ended(store_results, dtype, hidden, drawn, turn, slots)
    expected = ended(store_results_torch, dtype, hidden, drawn, turn, slots)
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name
    assert found["results"][turn % TURNS, :ROWS].any()
    assert not found["results"][turn % TURNS, ROWS:].any()
    assert found["kinds"][slots or slice(ROWS)].tolist() == [7] * ROWS


def test_a_result_has_the_bits_of_the_hidden_states() -> None:
    found = ended(store_results, torch.bfloat16, 48, 4, 2)
    states = found["results"][2, :ROWS, :48].numpy().view(np.float32)
    assert np.array_equal(states, found["hiddens"].float().cpu().numpy())
