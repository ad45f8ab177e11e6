"""What launches of few rows fetch into the GPU's cache, and that it changes no bit."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from ....support.kernel_tools import DEVICE, EMULATED

from ChatTTS.model.kernels.cuda import attention, prefetch  # isort: skip


def matrices(*outputs: int) -> tuple[Tensor, ...]:
    return tuple(torch.zeros(n, 70, dtype=torch.bfloat16, device=DEVICE) for n in outputs)


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of 4000 bytes, and the default setting."""
    monkeypatch.setattr(prefetch, "cache_bytes", lambda x: 4000)
    monkeypatch.delenv(prefetch.FETCH_VARIABLE, raising=False)


def test_each_matrix_has_its_lines(cache: None) -> None:
    weights = matrices(3, 1, 4, 2)
    found = prefetch.Prefetch.of(torch.zeros(prefetch.MAX_ROWS, 8), weights)
    assert found.matrices == weights
    assert found.ends == (4, 6, 11, 14)  # of 420, 140, 560 and 280 bytes
    assert found.line == 128


@pytest.mark.parametrize(
    ("rows", "outputs", "setting"),
    [
        (prefetch.MAX_ROWS + 1, (3, 1, 4, 2), None),  # many rows
        (0, (3, 1, 4, 2), None),
        (1, (3, 1, 4, 7), None),  # 2100 bytes, over half of the cache
        (1, (), None),
        (1, (3, 1, 4, 2), "0"),
    ],
)
def test_nothing_is_fetched(
    cache: None,
    monkeypatch: pytest.MonkeyPatch,
    rows: int,
    outputs: Sequence[int],
    setting: str | None,
) -> None:
    if setting is not None:
        monkeypatch.setenv(prefetch.FETCH_VARIABLE, setting)
    x = torch.zeros(rows, 8)
    found = prefetch.Prefetch.of(x, matrices(*outputs))
    assert found.ends == (0, 0, 0, 0)
    assert all(each is x for each in found.matrices)


def test_the_interpreter_fetches_nothing() -> None:
    if DEVICE.type == "cuda" or EMULATED:
        pytest.skip("there is a cache")
    assert prefetch.Prefetch.of(torch.zeros(1, 8), matrices(3, 1, 4, 2)).ends == (0, 0, 0, 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("positions", [(0,), (300,), (600, -1, 20, 255, 256), (699,)])
def test_no_bit_depends_on_what_is_fetched(dtype: torch.dtype, positions: tuple[int, ...]) -> None:
    if DEVICE.type == "cpu" and not EMULATED:
        pytest.skip("the interpreter fetches nothing")
    heads, size, block_size, max_positions = 2, 64, 16, 700
    rows, blocks = len(positions), -(-max_positions // block_size)
    random = torch.Generator().manual_seed(rows)

    def normal(*sizes: int) -> Tensor:
        return torch.randn(*sizes, generator=random)

    places = torch.randperm(rows * blocks, generator=random)
    tables = places.int().reshape(rows, blocks).to(DEVICE)
    own = torch.tensor(positions, dtype=torch.int32)
    table_of = torch.where(own < 0, -1, torch.arange(rows)).int().to(DEVICE)
    qkv = normal(rows, 3 * heads * size).to(DEVICE, dtype)
    angles = 6 * normal(max_positions, size)
    rotary = angles.cos().to(DEVICE), angles.sin().to(DEVICE)
    pool = normal(rows * blocks, 1, 2, heads, block_size, size).to(DEVICE, dtype)
    weights = tuple(normal(n, 70).to(DEVICE, dtype) for n in (640, 3, 50, 7))

    def attended(fetched: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        keys = pool.clone()
        where = tables, table_of, own.clamp_min(0).to(DEVICE)
        splits = attention.attend_new_rows(
            qkv, rotary, keys, 0, *where, heads=heads, max_positions=max_positions, ahead=fetched
        )
        return splits.merged(dtype), keys

    assert any(prefetch.Prefetch.of(qkv, weights).ends)
    for found, expected in zip(attended(weights), attended(()), strict=True):
        assert torch.equal(found, expected)
