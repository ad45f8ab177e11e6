"""Copies of rows of a step's results."""

from __future__ import annotations

import pytest
import torch

from ChatTTS.model.velocity.row_copies import RowCopies


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int64])
@pytest.mark.parametrize("is_strided", [False, True])
def test_rows_are_those_of_the_matrix(dtype: torch.dtype, is_strided: bool) -> None:
    matrix = torch.arange(48).view(6, 8).to(dtype)
    matrix = matrix[:, ::2] if is_strided else matrix
    copies = RowCopies(matrix)
    for rows in ([3], [0, 5], [4, 1, 1]):
        found = copies.of(rows)
        assert found.dtype is dtype
        torch.testing.assert_close(found, matrix[rows], rtol=0, atol=0)


def test_a_copy_keeps_no_other_row_and_changes_with_none() -> None:
    matrix = torch.zeros(100, 4)
    found = RowCopies(matrix).of([1])
    matrix += 1
    assert found.tolist() == [[0.0] * 4]
    assert found.untyped_storage().nbytes() == 16
    found += 2  # a caller may write into it
    assert matrix.tolist() == [[1.0] * 4] * 100


def test_a_matrix_without_rows_is_no_error() -> None:
    RowCopies(torch.zeros(0, 4))
