"""Draws: the kernels' equal the reference's and the standard path's, id for id, and every row is
drawn as if it were alone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from ChatTTS.config import EmbedConfig
from ChatTTS.model.draws import DrawKey, Pass, uniforms
from ChatTTS.model.embed import Embed
from ChatTTS.model.generation import GenerationRequest, Sampling
from ChatTTS.model.llama import _Batch
from ChatTTS.model.sampling import Draw
from ChatTTS.model.tokenizer import Prompt
from ChatTTS.model.velocity.native.sampler import NativeSampler
from ChatTTS.model.velocity.sampler import Drawn, TorchSampler

from ...support.velocity_models import make_team

CODE, TEXT = (4, 626), (1, 400)
TEMPERATURES = (0.0, 1e-12, 0.3, 0.7, 1.0, 5.0)
TOP_PS = (1e-6, 0.1, 0.5, 0.7, 0.95, 1.0)
TOP_KS = (1, 2, 3, 4, 20, 10_000)
PENALTIES = (0.5, 1.0, 1.05, 2.0, 1e30)
# The third codebook's number is 0 exactly: the least probable id must not come of it.
ZERO_SEED = 1_343_428


@pytest.fixture(scope="module")
def native() -> NativeSampler:
    return NativeSampler(make_team(2))


def make_rows(
    seed: int, count: int, form: tuple[int, int], history: int | None = None
) -> tuple[Tensor, list[Draw]]:
    """Logits [count, num_codebooks, vocabulary] and rows, each with settings of its own."""
    rng = np.random.default_rng(seed)
    num_codebooks, size = form
    spread = rng.choice([0.3, 2.0, 8.0], (count, 1, 1))
    logits = (rng.standard_normal((count, num_codebooks, size)) * spread).astype(np.float32)
    best = logits.argsort(axis=-1)[:, :, ::-1]
    rows = []
    for row in range(count):
        length = int(rng.integers(0, 17)) if history is None else history
        # Histories repeat themselves, and hold what is probable.
        few = np.concatenate([best[row, :, :4], rng.integers(0, size, (num_codebooks, 3))], axis=1)
        places = rng.integers(0, few.shape[1], (length, num_codebooks))
        window = np.zeros((length, num_codebooks + 1), dtype=np.int32)
        window[:, :num_codebooks] = few[np.arange(num_codebooks), places]
        hot = (
            rng.choice(TEMPERATURES, num_codebooks)
            if row % 2
            else [rng.choice(TEMPERATURES)] * num_codebooks
        )
        sampling = Sampling(
            temperature=tuple(float(value) for value in hot),
            top_p=float(rng.choice(TOP_PS)),
            top_k=int(rng.choice(TOP_KS)),
            repetition_penalty=float(rng.choice(PENALTIES)),
            min_new=int(rng.integers(0, 40)),
            max_new=100,
        )
        key = DrawKey(
            seed=int(rng.integers(-(2**62), 2**62)),
            kind=Pass.CODE if num_codebooks > 1 else Pass.REFINE,
            utterance=int(rng.integers(0, 2**32)),
            sample=int(rng.integers(0, 2**16)),
            attempt=int(rng.integers(0, 2**16)),
        )
        # An end that is probable, so that forbidding it makes a difference.
        end = int(best[row, 0, rng.integers(0, 3)])
        rows.append(Draw(sampling, key, int(rng.integers(0, 60)), window, end))
    return torch.from_numpy(logits), rows


def assert_same(found: Drawn, expected: Drawn) -> None:
    assert found.ids.dtype == np.int64
    assert found.finite.tolist() == expected.finite.tolist()
    sound = expected.finite
    np.testing.assert_array_equal(found.ids[sound], expected.ids[sound])
    np.testing.assert_allclose(found.logprobs[sound], expected.logprobs[sound], atol=1e-4)


@pytest.mark.parametrize(("form", "batches"), [(CODE, 40), (TEXT, 40), ((5, 7), 20), ((2, 3), 20)])
def test_the_kernels_draw_what_the_reference_draws(
    native: NativeSampler, form: tuple[int, int], batches: int
) -> None:
    for seed in range(batches):
        logits, rows = make_rows(seed, 64, form)
        expected = TorchSampler()(logits, rows)
        assert expected.finite.all()
        assert_same(native(logits, rows), expected)


@pytest.mark.parametrize("form", [CODE, TEXT])
def test_draws_of_the_standard_path(native: NativeSampler, form: tuple[int, int]) -> None:
    num_codebooks, size = form
    nothing = np.zeros(1, dtype=np.int64)
    prompt = Prompt(nothing, np.zeros((0, 0), dtype=np.int64), None, nothing > 0)
    embed = Embed(EmbedConfig(4, size, size, 4))
    for history in range(17):
        logits, rows = make_rows(100 + history, 32, form, history)
        rows = [replace(row, end=size - 1) for row in rows]
        logits[:, :, -1] += 4
        requests = [GenerationRequest(prompt, row.sampling, row.key) for row in rows]
        batch = _Batch(requests, range(32), embed, 10_000)
        batch._history = torch.from_numpy(
            np.stack([row.window[:, :num_codebooks].T for row in rows]).astype(np.int64)
        )
        for state, row in zip(batch.rows, rows, strict=True):
            state.generated = row.position
        expected = batch.draw(logits, size - 1).numpy()
        assert native(logits, rows).ids.tolist() == expected.tolist()
        assert TorchSampler()(logits, rows).ids.tolist() == expected.tolist()


@pytest.mark.parametrize("form", [CODE, TEXT])
def test_a_row_is_drawn_as_if_it_were_alone(native: NativeSampler, form: tuple[int, int]) -> None:
    logits, rows = make_rows(7, 48, form)
    single = NativeSampler(make_team(1))
    for sampler in (native, TorchSampler()):
        whole = sampler(logits, rows)
        for row in range(48):
            alone = (single if sampler is native else sampler)(logits[row : row + 1], [rows[row]])
            assert alone.ids[0].tolist() == whole.ids[row].tolist()
            if sampler is native:
                assert alone.logprobs[0] == whole.logprobs[row]


def test_ids_that_are_equally_probable(native: NativeSampler) -> None:
    """Of equals the last ones are kept, and of those the first is the best."""
    for seed in range(10):
        logits, rows = make_rows(seed, 64, CODE)
        assert_same(native(logits.round(), rows), TorchSampler()(logits.round(), rows))
        level = torch.zeros_like(logits)
        assert_same(native(level, rows), TorchSampler()(level, rows))


def test_logits_near_the_end_of_float32(native: NativeSampler) -> None:
    """A low temperature drives many of them over it, and there they are equal."""
    logits, rows = make_rows(11, 64, CODE)
    for scale in (1e19, 1e36):
        found, expected = (sampler(logits * scale, rows) for sampler in (native, TorchSampler()))
        assert expected.finite.all()
        np.testing.assert_array_equal(found.ids, expected.ids)
        np.testing.assert_allclose(found.logprobs, expected.logprobs, rtol=1e-5)


@pytest.mark.parametrize("temperature", [1e-12, 0.01, 1.0])
def test_the_number_zero_takes_no_impossible_id(native: NativeSampler, temperature: float) -> None:
    key = DrawKey(ZERO_SEED, Pass.CODE)
    assert uniforms([key], [0], 4)[0, 3] == 0
    logits = torch.linspace(0, 300, 626).expand(1, 4, 626)
    sampling = Sampling((temperature,) * 4, 1.0, 10_000, 1.0, 0, 10)
    rows = [Draw(sampling, key, 0, np.zeros((0, 4), dtype=np.int32), 625)]
    # What single precision can tell from nothing lies within e^-104.
    least = 625 - 104 * temperature / (300 / 625) - 1
    for sampler in (native, TorchSampler()):
        assert sampler(logits, rows).ids[0, 3] >= least


@pytest.mark.parametrize("damage", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("form", [CODE, TEXT])
def test_a_row_that_is_not_finite_is_flagged_alone(
    native: NativeSampler, form: tuple[int, int], damage: float
) -> None:
    logits, rows = make_rows(3, 24, form)
    for sampler in (native, TorchSampler()):
        sound = sampler(logits, rows)
        damaged = logits.clone()
        damaged[5, -1, 17] = damage
        damaged[20, 0, 0] = damage
        found = sampler(damaged, rows)
        assert np.flatnonzero(~found.finite).tolist() == [5, 20]
        others = found.finite
        assert (found.ids[others] == sound.ids[others]).all()
        assert (found.logprobs[others] == sound.logprobs[others]).all()
        # Whoever uses them as ids all the same finds something.
        assert (found.ids >= 0).all()


def test_the_settings_are_left_alone(native: NativeSampler) -> None:
    logits, rows = make_rows(5, 16, CODE)
    before = logits.clone(), [row.window.copy() for row in rows]
    for sampler in (native, TorchSampler()):
        sampler(logits, rows)
    assert logits.equal(before[0])
    for row, window in zip(rows, before[1], strict=True):
        assert np.array_equal(row.window, window)


def test_logits_that_do_not_lie_in_one_stretch(native: NativeSampler) -> None:
    logits, rows = make_rows(6, 16, CODE)
    strided = logits.transpose(0, 2).contiguous().transpose(0, 2)
    assert_same(native(strided, rows), native(logits, rows))


def test_exponentials_are_right_to_single_precision(native: NativeSampler) -> None:
    """With two ids, the log-probability of the better one is -log(1 + e^-d)."""
    distances = torch.linspace(0, 30, 4000)
    logits = torch.stack([torch.zeros(4000), -distances], dim=-1).unsqueeze(1)
    sampling = Sampling((0.0,), 1.0, 1, 1.0, 0, 10)
    row = Draw(sampling, DrawKey(0, Pass.REFINE), 0, np.zeros((0, 1), dtype=np.int32), 0)
    found = native(logits, [row] * 4000).logprobs.astype(np.float64)
    expected = -np.log1p(np.exp(-distances.double().numpy()))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1.5e-7)


def test_every_lane_of_a_vector_counts(native: NativeSampler) -> None:
    """Vocabularies of all sizes about whole vectors."""
    sampling = Sampling((0.0,), 1.0, 1, 1.0, 0, 10)
    row = Draw(sampling, DrawKey(0, Pass.REFINE), 0, np.zeros((0, 1), dtype=np.int32), 0)
    generator = torch.Generator().manual_seed(0)
    for size in range(3, 70):
        logits = torch.randn(1, 1, size, generator=generator) * 3
        found = native(logits, [row])
        assert found.ids[0, 0] == logits.argmax()
        assert found.logprobs[0] == pytest.approx(float(logits.log_softmax(-1).max()), abs=1e-6)
