"""The contract of the samplers.

Ids equal those of the reference and of the standard engine, and a row is drawn as if it were alone.
"""

from __future__ import annotations

# Before anything that imports Triton, whose own functions read its setting as they are declared.
from .....support.kernel_tools import DEVICE  # isort: skip

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ChatTTS.config import EmbedConfig
from ChatTTS.model.embed import Embed
from ChatTTS.model.generation import GenerationRequest
from ChatTTS.model.random_numbers import DrawKey, Pass, random_bits
from ChatTTS.model.sampling import SamplingRow
from ChatTTS.model.sampling_params import SamplingParams
from ChatTTS.model.standard.engine import PaddedBatch
from ChatTTS.model.tokenizer import Prompt
from ChatTTS.model.velocity.backends.cpu.sampler import NativeSampler
from ChatTTS.model.velocity.backends.torch.sampler import TorchSampler
from ChatTTS.model.velocity.loaded_model import Sampler, SamplerOutput

from .....support.sampling_cases import PLAIN, ZERO_SEED, make_rows
from .....support.velocity_models import make_team

CODE, TEXT = (4, 626), (1, 400)


@dataclass(frozen=True)
class Subject:
    """A sampler under test.

    Attributes:
        sampler: the sampler.
        alone: a sampler that draws single rows.
        is_slow: whether Triton's interpreter computes, which takes long for a row.
    """

    sampler: Sampler
    alone: Sampler
    is_slow: bool = False

    def few(self, count: int, slow_count: int) -> int:
        """Return a number of rows or batches that this sampler draws quickly."""
        return slow_count if self.is_slow else count


class TritonOnDevice:
    """The CUDA sampler, for logits on the CPU."""

    def __init__(self) -> None:
        from ChatTTS.model.velocity.backends.cuda.sampler import TritonSampler

        self._sampler = TritonSampler()

    def __call__(self, logits: Tensor, rows: Sequence[SamplingRow]) -> SamplerOutput:
        with warnings.catch_warnings():
            # NumPy, on which the interpreter computes, warns of every overflow and NaN.
            warnings.simplefilter("ignore", RuntimeWarning)
            return self._sampler(logits.to(DEVICE), rows)


def make_subject(name: str) -> Subject:
    if name == "torch":
        return Subject(TorchSampler(), TorchSampler())
    if name == "native":
        return Subject(NativeSampler(make_team(2)), NativeSampler(make_team(1)))
    pytest.importorskip("triton")
    triton = TritonOnDevice()
    return Subject(triton, triton, is_slow=DEVICE.type == "cpu")


@pytest.fixture(scope="module", params=["torch", "native", "triton"])
def subject(request: pytest.FixtureRequest) -> Subject:
    """Every sampler."""
    return make_subject(request.param)


@pytest.fixture(scope="module", params=["native", "triton"])
def kernel(request: pytest.FixtureRequest) -> Subject:
    """Every sampler that is compared with the reference."""
    return make_subject(request.param)


@pytest.fixture(scope="module")
def native() -> Sampler:
    return make_subject("native").sampler


def with_settings(rows: list[SamplingRow], **settings: Any) -> list[SamplingRow]:
    """Return rows with plain settings, except their first ids and the settings that are given."""
    return [
        replace(row, sampling=replace(PLAIN, min_new=row.sampling.min_new, **settings))
        for row in rows
    ]


def assert_same(found: SamplerOutput, expected: SamplerOutput, rtol: float = 0) -> None:
    assert found.ids.dtype == np.int64
    assert found.finite.tolist() == expected.finite.tolist()
    sound = expected.finite
    np.testing.assert_array_equal(found.ids[sound], expected.ids[sound])
    np.testing.assert_allclose(found.logprobs[sound], expected.logprobs[sound], rtol, atol=1e-4)


def assert_like_the_reference(
    subject: Subject, logits: Tensor, rows: list[SamplingRow], rtol: float = 0
) -> SamplerOutput:
    """Draw, check the draws against the reference, and return them."""
    found, expected = subject.sampler(logits, rows), TorchSampler()(logits, rows)
    assert expected.finite.all()
    assert_same(found, expected, rtol)
    return found


# ---------------------------------------------------------------- the reference's ids


@pytest.mark.parametrize(
    ("form", "batches", "few"),
    [
        (CODE, 40, 2),
        (TEXT, 40, 4),
        ((5, 7), 20, 4),
        ((2, 3), 20, 4),
        ((2, 626), 4, 17),
        ((1, 626), 4, 4),
        ((1, 512), 4, 4),
        ((1, 3000), 4, 4),
    ],
)
@pytest.mark.slow_for("triton-form4-*", "triton-form2-*", "native-form0-*")
def test_the_kernels_draw_what_the_reference_draws(
    kernel: Subject, form: tuple[int, int], batches: int, few: int
) -> None:
    for seed in range(kernel.few(batches, 1)):
        assert_like_the_reference(kernel, *make_rows(seed, kernel.few(64, few), form))


def test_one_row_of_codes(kernel: Subject) -> None:
    for seed in range(kernel.few(32, 1)):
        assert_like_the_reference(kernel, *make_rows(seed, 1, CODE))


@pytest.mark.slow
@pytest.mark.parametrize("form", [CODE, TEXT])
def test_rows_with_ends_of_their_own(native: Sampler, form: tuple[int, int]) -> None:
    """The CUDA kernel knows one end for all rows of a step."""
    for seed in range(20):
        logits, rows = make_rows(seed, 64, form)
        ends = logits[:, 0].topk(3).indices[torch.arange(64), torch.arange(64) % 3].tolist()
        rows = [replace(row, end=end) for row, end in zip(rows, ends, strict=True)]
        assert_same(native(logits, rows), TorchSampler()(logits, rows))


@pytest.mark.slow
@pytest.mark.parametrize("form", [CODE, TEXT])
def test_draws_of_the_standard_path(subject: Subject, form: tuple[int, int]) -> None:
    num_codebooks, size = form
    count = subject.few(32, 1)
    nothing = np.zeros(1, dtype=np.int64)
    prompt = Prompt(nothing, np.zeros((0, 0), dtype=np.int64), None, nothing > 0)
    embed = Embed(EmbedConfig(4, size, size, 4))
    for history in range(0, 17, subject.few(1, 8)):
        logits, rows = make_rows(100 + history, count, form, history)
        rows = [replace(row, end=size - 1) for row in rows]
        logits[:, :, -1] += 4
        requests = [GenerationRequest(prompt, row.sampling, row.key) for row in rows]
        batch = PaddedBatch(dict(enumerate(requests)), embed, 10_000)
        for state, row in zip(batch.running, rows, strict=True):
            state.generated, state.window = row.position, row.window[:, :num_codebooks]
        expected = batch.sample(logits, size - 1).numpy()
        assert subject.sampler(logits, rows).ids.tolist() == expected.tolist()


@pytest.mark.slow_for("triton")
def test_of_equal_ids_the_later_is_kept_and_the_first_is_best(kernel: Subject) -> None:
    for seed in range(kernel.few(10, 1)):
        logits, rows = make_rows(seed, kernel.few(64, 2), CODE)
        assert_like_the_reference(kernel, logits.round(), rows)
        assert_like_the_reference(kernel, torch.zeros_like(logits), rows)
        # The two zeros are equal too.
        signs = torch.where(torch.arange(CODE[1]) % 3 == 0, -0.0, 0.0).expand_as(logits)
        rows = [replace(row, sampling=replace(row.sampling, top_p=0.703)) for row in rows]
        assert_like_the_reference(kernel, signs.contiguous(), rows)


@pytest.mark.slow
def test_equal_ids_whose_sum_is_the_limit_are_kept_alike(kernel: Subject) -> None:
    """The last bit of a sum of floating-point numbers would decide."""
    none = np.zeros((0, 1), dtype=np.int32)
    for size, top_p in ((10, 0.3), (25, 0.36), (40, 0.175)):
        sampling = replace(PLAIN, temperature=(1.0,), top_p=top_p)
        keys = [DrawKey(seed, Pass.REFINE) for seed in range(kernel.few(40, 6))]
        rows = [SamplingRow(sampling, key, 0, none, size) for key in keys]
        assert_like_the_reference(kernel, torch.zeros(len(rows), 1, size), rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    "extreme",
    [
        {"temperature": (0.0,) * 4, "top_k": 1},
        {"temperature": (1e-20,) * 4},
        {"temperature": (1e-12, 0.0, 1.0, 1e30)},
        {"top_p": 1e-6},
        {"top_p": 1 - 2**-24},
        {"top_k": 1},
        {"top_k": 2**40},
        {"repetition_penalty": 1e30},
        {"repetition_penalty": 1e-30},
    ],
    ids=str,
)
def test_extreme_settings(kernel: Subject, extreme: dict[str, Any]) -> None:
    logits, rows = make_rows(4, kernel.few(32, 1), CODE)
    assert_like_the_reference(kernel, logits, with_settings(rows, **extreme))


@pytest.mark.slow_for("triton")
def test_logits_near_the_end_of_float32(kernel: Subject) -> None:
    """A low temperature makes many logits infinite, and there they are equal."""
    logits, rows = make_rows(11, kernel.few(64, 2), CODE)
    for scale in (1e19, 1e36):
        assert_like_the_reference(kernel, logits * scale, rows, rtol=1e-5)


def test_logits_below_zero(kernel: Subject) -> None:
    """The bits of negative floats are in the opposite order of their values."""
    logits, rows = make_rows(12, kernel.few(32, 1), CODE)
    assert_like_the_reference(kernel, logits - 100, with_settings(rows, top_k=4))


@pytest.mark.slow_for("triton")
def test_a_forbidden_end_that_was_nearly_certain(kernel: Subject) -> None:
    """The other ids had next to no probability; they are drawn as if there were no end."""
    logits, rows = make_rows(6, kernel.few(64, 2), CODE)
    logits[..., 5] += 60
    rows = [replace(row, end=5) for row in rows]
    for top_p, top_k in ((1.0, 10_000), (1.0, 20), (0.7, 20)):
        sampling = replace(PLAIN, top_p=top_p, top_k=top_k, min_new=100)
        forbidden = [replace(row, sampling=sampling) for row in rows]
        found = assert_like_the_reference(kernel, logits, forbidden)
        assert not (found.ids == 5).any()


# ---------------------------------------------------------------- what each sampler promises


@pytest.mark.parametrize("form", [CODE, TEXT])
@pytest.mark.slow_for("triton-form0")
def test_a_row_is_drawn_as_if_it_were_alone(subject: Subject, form: tuple[int, int]) -> None:
    count = subject.few(48, 3)
    logits, rows = make_rows(7, count, form)
    whole = subject.sampler(logits, rows)
    for row in range(count):
        alone = subject.alone(logits[row : row + 1], [rows[row]])
        assert alone.ids[0].tolist() == whole.ids[row].tolist()
        assert alone.finite[0] == whole.finite[row]
        if not isinstance(subject.sampler, TorchSampler):
            assert alone.logprobs[0] == whole.logprobs[row]


@pytest.mark.slow_for("triton*")
@pytest.mark.parametrize("temperature", [1e-12, 0.01, 1.0])
def test_the_number_zero_takes_no_impossible_id(subject: Subject, temperature: float) -> None:
    key = DrawKey(ZERO_SEED, Pass.CODE)
    assert random_bits([key], [0], 4)[0, 3] == 0
    logits = torch.linspace(0, 300, 626).expand(1, 4, 626)
    sampling = replace(PLAIN, temperature=(temperature,) * 4)
    rows = [SamplingRow(sampling, key, 0, np.zeros((0, 4), dtype=np.int32), 625)]
    # What single precision can tell from nothing lies within e^-104.
    least = 625 - 104 * temperature / (300 / 625) - 1
    assert subject.sampler(logits, rows).ids[0, 3] >= least


@pytest.mark.parametrize("damage", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("form", [CODE, TEXT])
@pytest.mark.slow_for("triton-form0-*inf", "triton-form1-nan", "triton-form1-inf")
def test_a_row_that_is_not_finite_is_flagged_alone(
    subject: Subject, form: tuple[int, int], damage: float
) -> None:
    count = subject.few(24, 3)
    form = subject.few(form[0], min(form[0], 2)), form[1]
    first, last = count // 4, count - 1
    logits, rows = make_rows(3, count, form)
    sound = subject.sampler(logits, rows)
    damaged = logits.clone()
    damaged[first, -1, 17] = damage
    damaged[last, 0, form[1] - 1] = damage
    found = subject.sampler(damaged, rows)
    assert np.flatnonzero(~found.finite).tolist() == [first, last]
    others = found.finite
    assert (found.ids[others] == sound.ids[others]).all()
    assert (found.logprobs[others] == sound.logprobs[others]).all()
    # The ids stay within the vocabulary, even for a caller that ignores the flag.
    assert (found.ids >= 0).all()
    assert (found.ids < form[1]).all()


def test_the_arguments_are_left_alone(subject: Subject) -> None:
    logits, rows = make_rows(5, subject.few(16, 2), CODE)
    before = logits.clone(), [row.window.copy() for row in rows]
    subject.sampler(logits, rows)
    assert logits.equal(before[0])
    for row, window in zip(rows, before[1], strict=True):
        assert np.array_equal(row.window, window)


@pytest.mark.slow_for("triton")
def test_logits_that_are_not_contiguous(subject: Subject) -> None:
    logits, rows = make_rows(6, subject.few(16, 2), CODE)
    strided = logits.transpose(0, 2).contiguous().transpose(0, 2)
    assert_same(subject.sampler(strided, rows), subject.sampler(logits, rows))


# ---------------------------------------------------------------- the CPU kernels' arithmetic


def test_exponentials_are_right_to_single_precision(native: Sampler) -> None:
    """With two ids, the log-probability of the better one is -log(1 + e^-d)."""
    distances = torch.linspace(0, 30, 4000)
    logits = torch.stack([torch.zeros(4000), -distances], dim=-1).unsqueeze(1)
    sampling = SamplingParams((0.0,), 1.0, 1, 1.0, 0, 10)
    row = SamplingRow(sampling, DrawKey(0, Pass.REFINE), 0, np.zeros((0, 1), dtype=np.int32), 0)
    found = native(logits, [row] * 4000).logprobs.astype(np.float64)
    expected = -np.log1p(np.exp(-distances.double().numpy()))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1.5e-7)


def test_every_lane_of_a_vector_counts(native: Sampler) -> None:
    """Vocabulary sizes around whole vectors."""
    sampling = SamplingParams((0.0,), 1.0, 1, 1.0, 0, 10)
    row = SamplingRow(sampling, DrawKey(0, Pass.REFINE), 0, np.zeros((0, 1), dtype=np.int32), 0)
    generator = torch.Generator().manual_seed(0)
    for size in range(3, 70):
        logits = torch.randn(1, 1, size, generator=generator) * 3
        found = native(logits, [row])
        assert found.ids[0, 0] == logits.argmax()
        assert found.logprobs[0] == pytest.approx(float(logits.log_softmax(-1).max()), abs=1e-6)
