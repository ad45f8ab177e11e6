"""The decoding of one utterance: the frames that are decoded, and the samples that go out."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

from ChatTTS.errors import ChatTTSError, ConfigError
from ChatTTS.model.generation import Delta, FinishReason
from ChatTTS.model.synthesis.synthesizer import Synthesizer
from ChatTTS.params import LowLatency
from ChatTTS.pipeline.decode.schedules import FixedSize, Schedule, WholeUtterance
from ChatTTS.pipeline.decode.utterance_decoder import PADDING_FRAMES, UtteranceDecoder
from ChatTTS.pipeline.decode.worker import launch_batch

from ...support.decoder_tools import modules, native_decoder, random_modules, small

SPF = 512  # samples of a frame

# ---------------------------------------------------------------- utterances


@cache
def synthesizer_of(backend: str, use_decoder: bool) -> Synthesizer:
    own = modules(use_decoder)
    return Synthesizer(*own, native_decoder(*own, threads=1) if backend == "native" else None)


@pytest.fixture(params=["torch", "native"])
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    synthesizer_of(name, True)  # skips the test where there are no kernels
    return name


@dataclass(frozen=True)
class Case:
    """An utterance of random frames."""

    synthesizer: Synthesizer
    ids: Tensor
    hiddens: Tensor

    @property
    def frames(self) -> Tensor:
        return self.synthesizer.frames(self.ids, self.hiddens)

    def until(self, count: int) -> Case:
        return replace(self, ids=self.ids[:count], hiddens=self.hiddens[:count])

    def delta(self, start: int, end: int, finish: FinishReason | None = None) -> Delta:
        return Delta(0, self.ids[start:end], self.hiddens[start:end], finish)

    def whole(self) -> np.ndarray:
        return self.synthesizer.samples(self.frames).numpy() if len(self.ids) else np.empty(0)


def case(backend: str, use_decoder: bool, count: int) -> Case:
    dice = torch.Generator().manual_seed(count)
    ids = torch.randint(0, 625, (count, 4), generator=dice)
    hiddens = torch.randn(count, small("model-a").config.gpt.hidden_size, generator=dice)
    return Case(synthesizer_of(backend, use_decoder), ids, hiddens)


def same(joined: np.ndarray, expected: np.ndarray, synthesizer: Synthesizer) -> None:
    """Check equality: to the bit where the decoder is exact, else up to rounding."""
    atol = 0 if synthesizer.is_exact else 1e-5
    np.testing.assert_allclose(joined, expected, rtol=0, atol=atol)


class Whenever(Schedule):
    """A schedule that decodes the frames that are there now or later, at random."""

    def __init__(self, dice: random.Random) -> None:
        self._dice, self._eagerness = dice, dice.choice([0.1, 0.5, 1])

    def wait(self, ready: int, fresh: int, frames: int) -> float | None:
        is_due = fresh > 0 and self._dice.random() < self._eagerness
        return 0.0 if is_due else None


def turns(decoder: UtteranceDecoder, most: Callable[[], int]) -> Iterator[np.ndarray]:
    """Decode as long as work is due; yield the samples of each turn."""
    while decoder.wait() == 0:
        work = decoder.next(most())
        [(final, flushed)] = launch_batch([(decoder, work)])()
        yield decoder.advance(work, final, flushed)


def decoded(
    own: Case,
    low_latency: LowLatency | None = None,
    *,
    seed: int | None = None,
    finish: FinishReason = FinishReason.STOP,
) -> np.ndarray:
    """The joined samples, from frames and turns at random, or one by one without a seed."""
    dice = random.Random(seed)
    eager = Whenever(dice) if seed is not None else FixedSize(1, own.synthesizer.samples_per_frame)
    decoder = UtteranceDecoder(own.synthesizer, eager, low_latency)
    largest, portion, waits = dice.choice([1, 3, 64]), dice.choice([1, 5, 40]), dice.random()
    samples: list[np.ndarray] = []
    at, count = 0, len(own.ids)
    while decoder.finish is None:
        until = min(count, at + (dice.randint(1, portion) if seed is not None else 1))
        ends = until == count and (seed is None or dice.random() < 0.7 or at == until)
        decoder.push(own.delta(at, until, finish if ends else None))
        at = until
        if seed is None or dice.random() < waits:
            samples += turns(decoder, lambda: dice.randint(1, largest) if seed is not None else 64)
    samples += turns(decoder, lambda: dice.randint(1, largest) if seed is not None else 64)
    assert decoder.is_complete
    assert decoder.wait() is None
    assert decoder.frames == count
    joined: np.ndarray = np.concatenate(samples)
    assert joined.dtype == np.float32
    assert decoder.emitted == len(joined) == own.synthesizer.length(count)
    return joined


def by_hand(own: Case, numbers: LowLatency) -> np.ndarray:
    """The expected samples of the low-latency mode: chunks that were ended early, and fades."""
    synthesizer, frames = own.synthesizer, own.frames
    joined: np.ndarray = own.whole().copy()
    chunks = [c for c in numbers.chunks(synthesizer.reach / 2) if c[0] <= len(frames)]
    begin, old = 0, np.empty(0, np.float32)
    for needed, given in [*chunks, (0, 0)]:
        if needed:
            stand_ins = frames[needed - 1 : needed].expand(PADDING_FRAMES, -1)
            early = synthesizer.samples(torch.cat([frames[:needed], stand_ins])).numpy()
            end = given * synthesizer.samples_per_frame
            joined[begin:end] = early[begin:end]
        fade = (np.arange(len(old), dtype=np.float32) + 0.5) / max(1, len(old))
        part = joined[begin : begin + len(old)]
        part[:] = old + fade * (part - old)
        if needed:
            begin, old = end, early[end : end + numbers.fade]
    return joined


@pytest.mark.parametrize("use_decoder", [True, False])
@pytest.mark.slow_for("torch-False")
@pytest.mark.slow_for("torch-True")
def test_exact_pieces_are_the_whole(backend: str, use_decoder: bool) -> None:
    for seed, count in enumerate((0, 1, 2, 3, 18, 33, 70)):
        own = case(backend, use_decoder, count)
        same(decoded(own, seed=seed), own.whole(), own.synthesizer)
        same(decoded(own), own.whole(), own.synthesizer)


EARLY = [
    LowLatency(first=2, lookahead=3, growth=1.5, largest=5),
    LowLatency(first=6, lookahead=4, growth=1.25, fade=100),
    LowLatency(first=4, lookahead=2, growth=2, largest=30, fade=0),
    LowLatency(first=1, lookahead=1, growth=1.06, largest=1),  # joins long after the end
]


@pytest.mark.parametrize("numbers", EARLY)
@pytest.mark.parametrize("use_decoder", [True, False])
@pytest.mark.slow_for("torch-*")
def test_early_samples_depend_on_the_frames_alone(
    backend: str, use_decoder: bool, numbers: LowLatency
) -> None:
    own = case(backend, use_decoder, 57 if numbers.largest > 1 else 24)
    joined = decoded(own, numbers)
    np.testing.assert_allclose(joined, by_hand(own, numbers), rtol=0, atol=1e-5)
    for seed in range(4):
        same(decoded(own, numbers, seed=seed), joined, own.synthesizer)


@pytest.mark.parametrize("numbers", EARLY)
@pytest.mark.slow_for("torch-numbers[123]")
def test_early_samples_join_the_exact_ones(backend: str, numbers: LowLatency) -> None:
    own = case(backend, True, 80)
    whole, joined = own.whole(), decoded(own, numbers)
    chunks = [c for c in numbers.chunks(own.synthesizer.reach / 2) if c[0] <= 80]
    joins = chunks[-1][1] * SPF + numbers.fade
    same(joined[joins:], whole[joins:], own.synthesizer)
    # Samples that are sent early are near those of the whole, but not equal.
    assert 0 < np.abs(joined - whole)[:joins].max() < np.abs(whole).max()


@pytest.mark.parametrize("finish", [FinishReason.STOP, FinishReason.ABORT])
@pytest.mark.slow_for("torch-*")
def test_an_utterance_may_end_at_any_frame(backend: str, finish: FinishReason) -> None:
    numbers = LowLatency(first=3, lookahead=3, growth=1.4, largest=8)
    needed = [needed for needed, _ in numbers.chunks(case(backend, True, 0).synthesizer.reach / 2)]
    for count in sorted({0, 1, *(n + d for n in needed[:3] for d in (-1, 0, 1))}):
        own = case(backend, True, 60).until(count)
        joined = decoded(own, numbers, finish=finish)
        np.testing.assert_allclose(joined, by_hand(own, numbers), rtol=0, atol=1e-5)
        if count < needed[0]:  # too few frames for an early chunk
            same(joined, own.whole(), own.synthesizer)
        for seed in range(2):
            same(decoded(own, numbers, seed=seed, finish=finish), joined, own.synthesizer)


@pytest.mark.filterwarnings("ignore:At least one mel filterbank")
def test_no_fade_is_longer_than_a_chunk() -> None:
    synthesizer = Synthesizer(*random_modules(hop=16, overlap=4, mels=8, width=24))
    dice = torch.Generator().manual_seed(7)
    own = Case(synthesizer, torch.zeros(40, 4), torch.randn(40, 46, generator=dice))
    numbers = LowLatency(first=1, lookahead=2, growth=1.2, largest=3, fade=256)
    expected = by_hand(own, replace(numbers, fade=16))
    np.testing.assert_allclose(decoded(own, numbers, seed=3), expected, rtol=0, atol=1e-5)


def test_the_first_chunk_needs_no_more_than_its_frames(backend: str) -> None:
    own = case(backend, True, 40)
    numbers = LowLatency(first=3, lookahead=2)
    decoder = UtteranceDecoder(own.synthesizer, FixedSize(1, SPF), numbers)
    for frame in range(4):
        decoder.push(own.delta(frame, frame + 1))
        assert decoder.wait() is None
    decoder.push(own.delta(4, 40))  # more frames than the first chunk may use
    [first] = [piece for piece, _ in zip(turns(decoder, lambda: 64), range(1), strict=False)]
    assert len(first) == 3 * SPF
    alone = UtteranceDecoder(own.synthesizer, FixedSize(1, SPF), numbers)
    alone.push(own.delta(0, 5))
    same(first, next(turns(alone, lambda: 64)), own.synthesizer)


@pytest.mark.parametrize("count", [0, 1, 50])
def test_an_utterance_may_be_decoded_whole(backend: str, count: int) -> None:
    own = case(backend, False, count)
    decoder = UtteranceDecoder(own.synthesizer, WholeUtterance())
    assert decoder.is_whole
    for frame in range(count):
        decoder.push(own.delta(frame, frame + 1))
        assert decoder.wait() is None
    decoder.push(own.delta(count, count, FinishReason.LENGTH))
    [samples] = turns(decoder, lambda: 1)
    np.testing.assert_array_equal(samples, own.whole())
    assert decoder.is_complete
    assert decoder.state is None


def test_a_state_lives_from_the_first_work_to_the_last(backend: str) -> None:
    own = case(backend, True, 30)
    decoder = UtteranceDecoder(own.synthesizer, FixedSize(1, SPF))
    assert decoder.state is None
    decoder.push(own.delta(0, 20))
    list(turns(decoder, lambda: 64))
    assert decoder.state is not None
    decoder.push(own.delta(20, 30, FinishReason.STOP))
    list(turns(decoder, lambda: 64))
    assert decoder.is_complete
    assert decoder.state is None


def test_an_utterance_that_has_ended_takes_nothing(backend: str) -> None:
    own = case(backend, True, 3)
    decoder = UtteranceDecoder(own.synthesizer, FixedSize(4, SPF))
    decoder.push(own.delta(0, 3, FinishReason.STOP))
    with pytest.raises(ChatTTSError, match="new decoder"):
        decoder.push(own.delta(0, 1))
    assert decoder.frames == 3


def test_what_shares_a_batch(backend: str) -> None:
    own, other = synthesizer_of(backend, True), synthesizer_of(backend, False)
    first = UtteranceDecoder(own, FixedSize(4, SPF))
    assert first.is_like(UtteranceDecoder(own, FixedSize(7, SPF), LowLatency()))
    assert not first.is_like(UtteranceDecoder(other, FixedSize(4, SPF)))
    assert not first.is_like(UtteranceDecoder(own, WholeUtterance()))


@pytest.mark.slow_for("torch")
def test_a_batch_of_all_sorts_of_work(backend: str) -> None:
    numbers = LowLatency(first=2, lookahead=3, growth=1.5, largest=5)
    cases = [case(backend, True, count) for count in (70, 5, 0, 33, 64)]
    modes = [None, numbers, None, numbers, None]
    decoders = [
        UtteranceDecoder(own.synthesizer, FixedSize(3, SPF), mode)
        for own, mode in zip(cases, modes, strict=True)
    ]
    for own, decoder in zip(cases, decoders, strict=True):
        decoder.push(own.delta(0, len(own.ids), FinishReason.STOP))
    samples: list[list[np.ndarray]] = [[] for _ in decoders]
    while work := [(d, d.next(9)) for d in decoders if d.wait() == 0]:
        for (decoder, piece), (final, flushed) in zip(work, launch_batch(work)(), strict=True):
            assert (flushed is None) == (piece.early is None)
            samples[decoders.index(decoder)].append(decoder.advance(piece, final, flushed))
    for own, mode, parts in zip(cases, modes, samples, strict=True):
        same(np.concatenate(parts), decoded(own, mode), own.synthesizer)


def test_a_vocoder_that_knows_no_pieces_is_refused_at_once() -> None:
    mel_decoder, vocoder = copy.deepcopy(modules(True))
    vocoder.head.istft.padding = "same"
    synthesizer = Synthesizer(mel_decoder, vocoder)
    with pytest.raises(ConfigError, match="centre padding"):
        UtteranceDecoder(synthesizer, FixedSize(1, SPF))
    UtteranceDecoder(synthesizer, WholeUtterance())
