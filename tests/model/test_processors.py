"""Logits processors against a plain reference, one row and one token at a time."""

import numpy as np
import torch

from ChatTTS.model import processors


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
    found = processors.penalise_repetition(logits, factors)
    for row in range(3):
        expected = reference_penalty(logits[row].tolist(), history[row].tolist(), 1.3)
        np.testing.assert_allclose(found[row].numpy(), expected, rtol=1e-5)


def test_penalty_without_history_changes_nothing() -> None:
    logits = torch.randn(2, 5)
    empty = torch.empty(2, 0, dtype=torch.int64)
    factors = 2.0 ** processors.count_repetitions(empty, 5)
    assert processors.penalise_repetition(logits, factors).equal(logits)


def test_keep_top_with_settings_of_each_row() -> None:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(40, 50, generator=generator) * 3
    top_p = torch.rand(40, 1, generator=generator) * 0.98 + 0.01
    top_k = torch.randint(1, 60, (40, 1), generator=generator)
    found = processors.keep_top(logits, top_p, top_k)
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
    uniform = (torch.arange(10_000) + 0.5) / 10_000
    counts = processors.draw(logits, uniform).bincount(minlength=4)
    assert counts[1] == 0
    np.testing.assert_allclose(counts.numpy(), [1000, 0, 4000, 5000], atol=2)


def test_draw_never_takes_the_impossible() -> None:
    logits = torch.tensor([-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf])
    edge = torch.tensor([0.0, 1.0 - 2.0**-24])
    assert processors.draw(logits.expand(2, 5), edge).tolist() == [1, 3]


def test_whole_number_sums_are_exact_and_do_not_depend_on_the_other_rows() -> None:
    probabilities = torch.randn(5, 4, 2000, generator=torch.manual_seed(3)).softmax(dim=-1)
    sums = processors.whole_number_sums(probabilities)
    expected = probabilities.double().cumsum(dim=-1)
    assert (sums.double() - expected).abs().max() < 1e-7
    assert (sums.diff(dim=-1) >= 0).all()
    assert sums.dtype is torch.float32
    whole = processors.whole_number_sums(probabilities.double())
    # The order makes no difference: what stands before and after an id adds up to all.
    rest = processors.whole_number_sums(probabilities.double().flip(-1)).flip(-1)
    own = (probabilities.double() * 2.0**52).floor() / 2.0**52
    torch.testing.assert_close(whole + rest - own, whole[..., -1:].expand_as(whole), rtol=0, atol=0)
    for row in range(5):
        alone = processors.whole_number_sums(probabilities[row : row + 1])
        assert torch.equal(alone[0], sums[row])
