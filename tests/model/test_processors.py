"""Logits processors against a plain reference, one row and one token at a time."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ChatTTS.model import processors
from ChatTTS.model.sampling import sample_rows

from ..support.sampling_cases import make_rows


def reference_penalty(logits: list[float], history: list[int], penalty: float) -> list[float]:
    recent = history[-16:]
    result = []
    for token, logit in enumerate(logits):
        factor = penalty ** recent.count(token)
        result.append(logit / factor if logit > 0 else logit * factor)
    return result


def reference_keep_top(logits: np.ndarray, top_p: float, top_k: int) -> set[int]:
    order = np.argsort(-logits, kind="stable")
    weights = np.exp(logits[order] - logits.max())
    probabilities = weights / weights.sum()
    kept = set()
    for rank, token in enumerate(order):
        before = probabilities[:rank].sum()
        if rank < 3 or (before < top_p and rank < top_k):
            kept.add(int(token))
    return kept


def test_penalty_counts_the_window_only() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 12, generator=generator)
    history = torch.randint(0, 12, (3, 40), generator=generator)
    factors = 1.3 ** processors.count_repetitions(history, 12)
    found = processors.apply_repetition_penalty(logits, factors)
    for row in range(3):
        expected = reference_penalty(logits[row].tolist(), history[row].tolist(), 1.3)
        np.testing.assert_allclose(found[row].numpy(), expected, rtol=1e-5)


def test_penalty_without_history_changes_nothing() -> None:
    logits = torch.randn(2, 5)
    empty = torch.empty(2, 0, dtype=torch.int64)
    factors = 2.0 ** processors.count_repetitions(empty, 5)
    assert processors.apply_repetition_penalty(logits, factors).equal(logits)


def test_keep_top_with_settings_of_each_row() -> None:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(40, 50, generator=generator) * 3
    top_p = torch.rand(40, 1, generator=generator) * 0.98 + 0.01
    top_k = torch.randint(1, 60, (40, 1), generator=generator)
    found = processors.apply_top_p_top_k(logits, top_p, top_k)
    for row in range(40):
        kept = set(torch.isfinite(found[row]).nonzero().flatten().tolist())
        assert kept == reference_keep_top(
            logits[row].double().numpy(), float(top_p[row]), int(top_k[row])
        )
        assert found[row][list(kept)].equal(logits[row][list(kept)])


def test_forbid_touches_its_rows_only() -> None:
    logits = torch.zeros(2, 4, 6)
    found = processors.forbid(logits, torch.tensor([5, -1]))
    assert torch.isinf(found[0, :, 5]).all()
    assert torch.isfinite(found[1]).all()
    assert torch.isfinite(found[0, :, :5]).all()
    assert torch.isfinite(logits).all()


def test_draw_follows_the_probabilities() -> None:
    logits = torch.tensor([0.1, 0.0, 0.4, 0.5]).log().expand(10_000, 4)
    bits = ((torch.arange(10_000) + 0.5) / 10_000 * 2**24).long()
    counts = processors.sample(logits, bits).bincount(minlength=4)
    assert counts[1] == 0
    np.testing.assert_allclose(counts.numpy(), [1000, 0, 4000, 5000], atol=2)


def test_draw_never_takes_the_impossible() -> None:
    logits = torch.tensor([-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf])
    edge = torch.tensor([0, 2**24 - 1])
    assert processors.sample(logits.expand(2, 5), edge).tolist() == [1, 3]


@pytest.mark.parametrize(("size", "top_p", "kept"), [(10, 0.3, 4), (25, 0.36, 10), (40, 0.175, 8)])
def test_ids_whose_sum_is_the_limit_are_judged_by_whole_numbers(
    size: int, top_p: float, kept: int
) -> None:
    """In float32, 1 - ``top_p`` is a little below the sum of the equal ids that it drops."""
    found = processors.apply_top_p_top_k(
        torch.zeros(2, size), torch.tensor([top_p]), torch.tensor([size])
    )
    assert found.isfinite().sum(dim=-1).tolist() == [kept] * 2
    assert found[:, -kept:].isfinite().all()


def test_shares_of_the_largest_sum_do_not_overflow() -> None:
    total = torch.tensor([2**62 + 12345])
    for bits in (0, 1, 2**23 + 1, 2**24 - 1):
        assert processors.share(total, torch.tensor([bits])).item() == int(total) * bits >> 24


def test_log_probabilities_are_those_of_the_softmax() -> None:
    logits = torch.randn(5, 4, 300, generator=torch.manual_seed(3)) * 4
    ids = logits.argmin(dim=-1)
    expected = logits.double().log_softmax(dim=-1).gather(-1, ids.unsqueeze(-1)).squeeze(-1)
    found = processors.log_probabilities(logits, ids)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=4e-6)


class _Sums(TorchDispatchMode):
    """A mode that notes the dtypes that are summed."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: set[torch.dtype] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if any(name in str(func) for name in ("sum", "softmax", "mean")):
            self.seen.add(args[0].dtype)
        return func(*args, **(kwargs or {}))


def test_only_integers_are_summed() -> None:
    """A GPU adds floating-point numbers in an order that is not always the same."""
    with _Sums() as sums:
        sample_rows(*make_rows(6, 3, (1, 400)))
    assert sums.seen == {torch.int64}
