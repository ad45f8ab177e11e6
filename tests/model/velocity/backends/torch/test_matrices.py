"""Matrices on torch: right products, and rows that do not depend on other rows.

The checks decide which of them are taken, and must refuse products that do depend.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import silu

from ChatTTS.model.llama.shard import Shard
from ChatTTS.model.velocity.backends.torch import linear as matrices
from ChatTTS.model.velocity.backends.torch import row_checks, tiled_attention
from ChatTTS.model.velocity.backends.torch.linear import (
    SIZES,
    Matrix,
    MatrixMaker,
    PackedMatrix,
    TiledMatrix,
    WholeMatrix,
    in_chunks,
)
from ChatTTS.model.velocity.backends.torch.row_checks import attention_agrees, packed_rows_agree
from ChatTTS.model.velocity.backends.torch.tiled_attention import TiledAttention
from ChatTTS.model.velocity.backends.torch.tiles import aligned
from ChatTTS.model.velocity.model_loader import matrix_maker, torch_attention

from .....support.velocity_models import CPU, make_shape

SHAPE = make_shape(64, 4, 4, 16, inner=100)
SHARD = Shard(SHAPE)
MAKERS: dict[str, MatrixMaker] = {
    "whole": WholeMatrix,
    "tiled": TiledMatrix,
    "packed": PackedMatrix,
}


@pytest.fixture(autouse=True)
def _own_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the answers of checks out of the folder that others read."""
    monkeypatch.setattr(row_checks, "cache_folder", lambda: tmp_path)


def skip_without_packed_rows() -> None:
    if not packed_rows_agree(SHARD, (), torch.float32):
        pytest.skip("this machine's oneDNN has other bits beside other rows")


def numbers(*size: int, seed: int = 0) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed))


# ---------------------------------------------------------------- products


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("count", [0, 1, 3, 16, 64, 65, 131])
def test_the_product_and_its_activation(name: str, count: int) -> None:
    if name == "packed":
        skip_without_packed_rows()
    weight, rows = numbers(100, 64), numbers(count, 64, seed=1)
    matrix: Matrix = MAKERS[name](weight, 25)
    expected = rows.double() @ weight.double().T
    torch.testing.assert_close(matrix(rows).double(), expected, atol=2e-5, rtol=0)
    torch.testing.assert_close(matrix.activated(rows).double(), silu(expected), atol=2e-5, rtol=0)


@pytest.mark.parametrize("name", ["tiled", "packed"])
@pytest.mark.parametrize("size", [(100, 64), (96, 768), (64, 100)], ids=str)
def test_no_bit_of_a_row_depends_on_the_others(name: str, size: tuple[int, int]) -> None:
    if name == "packed":
        skip_without_packed_rows()
    matrix: Matrix = MAKERS[name](numbers(*size), size[0])
    rows = numbers(131, size[1], seed=1)
    for function in (matrix, matrix.activated):
        alone = torch.cat([function(row[None]) for row in rows])
        for count in (2, 5, 11, 31, 64, 65, 131):
            for first in (0, 131 - count):
                own = slice(first, first + count)
                assert function(rows[own]).equal(alone[own]), count


def test_rows_that_are_part_of_others() -> None:
    skip_without_packed_rows()
    wide = numbers(9, 200)
    matrix = PackedMatrix(numbers(30, 64), 30)
    assert matrix(wide[:, 3:67]).equal(matrix(wide[:, 3:67].contiguous()))


def test_the_shard_of_a_rank_without_outputs() -> None:
    skip_without_packed_rows()
    matrix = PackedMatrix(numbers(0, 64), 0)
    assert matrix(numbers(3, 64)).shape == matrix.activated(numbers(3, 64)).shape == (3, 0)


def test_chunks_of_an_elementwise_function() -> None:
    x = numbers(3, 5000)
    found = in_chunks(torch.exp, x)
    torch.testing.assert_close(found, x.exp())
    assert found.shape == x.shape
    # On the 16 numbers of a vector and in the rest behind it.
    again = torch.stack([in_chunks(torch.exp, x[0, first : first + 3])[0] for first in range(40)])
    assert again.equal(found[0, :40])


# ---------------------------------------------------------------- checks


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The sizes of matrices that are checked from now on."""
    found: list[tuple[int, int]] = []
    original = row_checks._matrix_agrees

    def noted(size: tuple[int, int], *others: Any) -> bool:
        found.append(size)
        return original(size, *others)

    monkeypatch.setattr(row_checks, "_matrix_agrees", noted)
    return found


def changed(monkeypatch: pytest.MonkeyPatch, change: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Change what packed matrices give; ``change`` has the rows and the result."""

    def product(self: PackedMatrix, rows: Tensor) -> Tensor:
        return change(rows, rows @ self._packed.T)

    def keep(self: PackedMatrix, weight: Tensor, piece: int) -> None:
        self._packed = weight

    monkeypatch.setattr(PackedMatrix, "__init__", keep)
    monkeypatch.setattr(PackedMatrix, "__call__", product)
    monkeypatch.setattr(PackedMatrix, "activated", product)


def exact(rows: Tensor, result: Tensor) -> Tensor:
    """Columns by the inputs alone, in whole numbers: no order of sums changes them."""
    return rows.mul(2**8).round().sum(dim=1, keepdim=True).expand_as(result).clone()


def test_products_that_are_exact_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    changed(monkeypatch, exact)
    assert packed_rows_agree(SHARD, (), torch.float32)
    assert matrix_maker(SHARD, (), torch.float32, CPU, batch_invariant=True) is PackedMatrix


@pytest.mark.parametrize("count", SIZES[:-1])
def test_a_number_of_rows_with_other_bits_is_seen(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    def change(rows: Tensor, result: Tensor) -> Tensor:
        found = exact(rows, result)
        if len(rows) == count:  # one bit of one number
            found[-1, -1] = found[-1, -1].nextafter(torch.tensor(math.inf))
        return found

    changed(monkeypatch, change)
    assert not packed_rows_agree(SHARD, (), torch.float32)
    assert matrix_maker(SHARD, (), torch.float32, CPU, batch_invariant=True) is TiledMatrix
    assert matrix_maker(SHARD, (), torch.float32, CPU, batch_invariant=False) is WholeMatrix


def test_other_bits_in_the_part_of_a_rank_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(rows: Tensor, result: Tensor) -> Tensor:
        # The third of four ranks has 25 outputs of `gate`.
        return exact(rows, result) + (1 if result.shape[1] == 25 else 0)

    changed(monkeypatch, change)
    assert not packed_rows_agree(SHARD, (), torch.float32)


def test_a_torch_without_these_products(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nothing:
        pass

    monkeypatch.setattr(matrices, "_ONEDNN", Nothing())
    assert not packed_rows_agree(SHARD, (), torch.float32)


def test_every_matrix_of_the_model_is_checked(calls: list[tuple[int, int]]) -> None:
    shape = make_shape(80, 4, 2, 16, inner=72)
    packed_rows_agree(Shard(shape), (240, 50), torch.float32)
    if len(calls) < 6:
        pytest.skip("this machine's oneDNN has other bits beside other rows")
    qkv, out, gate, down = (128, 80), (80, 64), (72, 80), (80, 72)
    assert set(calls) == {qkv, out, gate, down, (240, 80), (50, 80)}


def test_answers_are_kept(
    calls: list[tuple[int, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = packed_rows_agree(SHARD, (), torch.float32)
    count = len(calls)
    assert count > 0
    assert packed_rows_agree(SHARD, (), torch.float32) == answer
    assert len(calls) == count
    (file,) = (tmp_path / "checks").iterdir()
    file.write_text("7")
    assert packed_rows_agree(SHARD, (), torch.float32) == answer
    assert len(calls) == 2 * count
    # Anything that a library may choose an algorithm by makes another question.
    for heads, dtype in (((), torch.bfloat16), ((9,), torch.float32)):
        before = len(calls)
        packed_rows_agree(SHARD, heads, dtype)
        assert len(calls) > before
    monkeypatch.setenv("ONEDNN_VERBOSE", "0")
    before = len(calls)
    packed_rows_agree(SHARD, (), torch.float32)
    assert len(calls) > before


def test_attention_that_depends_on_others_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    if attention_agrees(SHAPE):
        assert isinstance(torch_attention(SHARD, 8, CPU), TiledAttention)
    original = tiled_attention.attend

    def change(query: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor]:
        mixed, weights, tops = original(query, *others)
        return (mixed * (1 + 1e-6) if len(query) == 7 * 4 else mixed), weights, tops

    monkeypatch.setattr(row_checks, "attend", change)
    shape = make_shape(64, 4, 4, 32)
    assert not attention_agrees(shape)
    assert not isinstance(torch_attention(Shard(shape), 8, CPU), TiledAttention)


@pytest.mark.parametrize(("width", "skipped"), [(33, 0), (32, 1), (32, 0)])
def test_rows_of_weights_begin_at_aligned_addresses(width: int, skipped: int) -> None:
    weight = torch.randn(7 * width + skipped)[skipped:].view(7, width)
    found = aligned(weight)
    assert found.equal(weight)
    assert all(row.data_ptr() % 64 == 0 for row in found)
    assert aligned(found) is found
