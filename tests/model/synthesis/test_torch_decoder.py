"""Decoding in pieces gives the samples of decoding the whole, and computes no frame twice."""

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ChatTTS.core import Chat
from ChatTTS.errors import ConfigError
from ChatTTS.model.synthesis.streaming_decoder import DecoderInput
from ChatTTS.model.synthesis.synthesizer import Synthesizer

from ...support.decoder_tools import small, spoken_frames

MOST_FRAMES = 110
# For each of 6 synthesizers: 60 lengths and chunkings in the quick tests, 204 in all.
SEEDS, MORE_SEEDS = range(4), range(4, 34)

# Products round differently beside another number of frames. The random models hide that; the
# trained voice turns it into single samples that are off by up to 1.5e-4, as two lengths in torch
# differ by up to 1e-4. The test in float64 shows that all of the difference is rounding.
TOLERANCES = {"model-a": 1e-5, "model-b": 1e-5, "bundled": 4e-4}


@dataclass(frozen=True)
class Case:
    """A synthesizer, and frames that it accepts."""

    synthesizer: Synthesizer
    frames: Tensor
    tolerance: float


@pytest.fixture(scope="module")
def trained(bundled: Chat) -> dict[str, Tensor]:
    """The frames that the bundled voice generates for a text."""
    return {name: spoken_frames(bundled, name, MOST_FRAMES) for name in ("ids", "hiddens")}


@pytest.fixture(scope="module")
def make(bundled: Chat, trained: dict[str, Tensor]) -> Callable[..., Case]:
    @cache
    def case(name: str, use_decoder: bool = True) -> Case:
        model = bundled if name == "bundled" else small(name)
        generator = torch.Generator().manual_seed(5)
        if name == "bundled":
            frames = trained["hiddens" if use_decoder else "ids"]
        elif use_decoder:
            width = model.config.gpt.hidden_size
            frames = torch.randn(MOST_FRAMES, width, generator=generator)
        else:
            frames = torch.randint(0, 625, (MOST_FRAMES, 4), generator=generator)
        mel_decoder = model.decoder if use_decoder else model.dvae
        return Case(Synthesizer(mel_decoder, model.vocos), frames, TOLERANCES[name])

    return case


def pieces(frames: Tensor, sizes: Iterator[int]) -> Iterator[Tensor]:
    at = 0
    while at < len(frames):
        piece = frames[at : at + next(sizes)]
        at += len(piece)
        yield piece


def push(
    synthesizer: Synthesizer, state: Any, frames: Tensor | None, *, last: bool = False
) -> Tensor:
    return synthesizer.advance([DecoderInput(state, frames, last)])[0]


def streamed(synthesizer: Synthesizer, parts: Sequence[Tensor]) -> Tensor:
    """Return the joined samples; check that no sample with its whole context is held back."""
    state, samples, seen, given = synthesizer.begin(), [], 0, 0
    for number, part in enumerate(parts, 1):
        samples.append(push(synthesizer, state, part, last=number == len(parts)))
        seen, given = seen + len(part), given + len(samples[-1])
        if number < len(parts):
            assert given == synthesizer.final(seen)
    assert given == synthesizer.length(seen)
    return torch.cat(samples)


def dice(seed: int, most: int) -> Iterator[int]:
    generator = random.Random(seed)
    while True:
        yield generator.randint(1, most)


@pytest.mark.parametrize("use_decoder", [True, False])
@pytest.mark.parametrize("name", TOLERANCES)
@pytest.mark.parametrize("seeds", [SEEDS, pytest.param(MORE_SEEDS, marks=pytest.mark.slow)])
@pytest.mark.slow_for("*-bundled-True")
def test_pieces_are_the_whole(
    make: Callable[..., Case], name: str, use_decoder: bool, seeds: range
) -> None:
    case = make(name, use_decoder)
    generator = random.Random(f"{name} {use_decoder} {seeds}")
    for seed in seeds:
        frames = case.frames[: generator.randint(1, MOST_FRAMES)]
        whole = case.synthesizer.samples(frames)
        parts = list(pieces(frames, dice(seed, generator.choice([3, 12, 60]))))
        joined = streamed(case.synthesizer, parts)
        assert joined.dtype == torch.float32
        torch.testing.assert_close(joined, whole, rtol=0, atol=case.tolerance)
        assert len(frames) < 60 or whole.abs().max() > 1e-2


@pytest.mark.parametrize("use_decoder", [True, False])
@pytest.mark.parametrize("name", TOLERANCES)
def test_utterances_of_any_age_share_a_batch(
    make: Callable[..., Case], name: str, use_decoder: bool
) -> None:
    case, generator = make(name, use_decoder), random.Random(f"{name} {use_decoder}")
    synthesizer = case.synthesizer
    wholes = [case.frames[: generator.randint(1, MOST_FRAMES)] for _ in range(9)]
    states = [synthesizer.begin() for _ in wholes]
    samples: list[list[Tensor]] = [[] for _ in wholes]
    left = [list(pieces(frames, dice(i, 25))) for i, frames in enumerate(wholes)]
    while running := [i for i, parts in enumerate(left) if parts]:
        chosen = [i for i in running if generator.random() < 0.7]
        pushes = [DecoderInput(states[i], left[i].pop(0), last=not left[i]) for i in chosen]
        for i, out in zip(chosen, synthesizer.advance(pushes), strict=True):
            samples[i].append(out)
    for frames, parts in zip(wholes, samples, strict=True):
        whole = synthesizer.samples(frames)
        torch.testing.assert_close(torch.cat(parts), whole, rtol=0, atol=case.tolerance)


@pytest.mark.parametrize("use_decoder", [True, False])
@pytest.mark.parametrize("count", [1, 2, 3, 70])
def test_pieces_of_one_frame(make: Callable[..., Case], count: int, use_decoder: bool) -> None:
    case = make("model-a", use_decoder)
    frames = case.frames[:count]
    whole = case.synthesizer.samples(frames)
    assert len(whole) == (2 * count - 1) * 256
    for parts in (list(frames.split(1)), [frames], [frames, frames[:0]]):
        joined = streamed(case.synthesizer, parts)
        torch.testing.assert_close(joined, whole, rtol=0, atol=1e-5)


@pytest.mark.parametrize("use_decoder", [True, False])
@pytest.mark.parametrize("name", TOLERANCES)
def test_only_rounding_is_left(make: Callable[..., Case], name: str, use_decoder: bool) -> None:
    """In float64, pieces and the whole differ only by the rounding of the samples."""
    case = make(name, use_decoder)
    synthesizer = Synthesizer(
        copy.deepcopy(case.synthesizer.mel_decoder).double(),
        copy.deepcopy(case.synthesizer.vocoder).double(),
    )
    frames = case.frames[:75]
    whole, joined = synthesizer.samples(frames), streamed(synthesizer, frames.split(8))
    torch.testing.assert_close(joined, whole, rtol=0, atol=1e-7)


@contextmanager
def counted() -> Iterator[dict[str, int]]:
    """Count the frames that each kind of layer gives."""
    counts: dict[str, int] = {}

    def add(kind: str, frames: int) -> None:
        counts[kind] = counts.get(kind, 0) + frames

    class Counter(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            name = getattr(func, "__name__", "")
            if name == "conv1d":
                add("depthwise" if args[1].shape[1] == 1 else "product", result.shape[-1])
            elif name == "linear":
                add("product", result.numel() // result.shape[-1])
            elif name == "layer_norm":
                add("norm", result.numel() // result.shape[-1])
            return result

    with Counter():
        yield counts


@pytest.mark.parametrize("use_decoder", [True, False])
@pytest.mark.parametrize("size", [1, 7, 24])
def test_no_frame_is_computed_twice(
    make: Callable[..., Case], size: int, use_decoder: bool
) -> None:
    case = make("model-a", use_decoder)
    for count in (20, 100):
        frames = case.frames[:count]
        with counted() as offline:
            case.synthesizer.samples(frames)
        with counted() as online:
            streamed(case.synthesizer, frames.split(size))
        assert online == offline
        # Linear in the length: every layer gives two frames for each.
        assert all(frames_of % (2 * count) == 0 for frames_of in offline.values())


def test_a_batch_computes_no_more_than_its_utterances(make: Callable[..., Case]) -> None:
    synthesizer, frames = make("model-a").synthesizer, make("model-a").frames
    counts = []
    for is_together in (False, True):
        states = [synthesizer.begin() for _ in range(4)]
        with counted() as work:
            for part in frames.split(10):
                pushes = [DecoderInput(state, part[: 2 + 2 * i]) for i, state in enumerate(states)]
                for batch in [pushes] if is_together else [[push] for push in pushes]:
                    synthesizer.advance(batch)
        counts.append(work)
    alone, together = counts
    # The cheap depthwise convolutions also run where two utterances meet.
    assert together.pop("depthwise") < 3 * alone.pop("depthwise")
    assert together == alone


def test_a_vocoder_that_is_not_centred_is_refused_at_the_first_state(
    make: Callable[..., Case],
) -> None:
    synthesizer = make("model-a").synthesizer
    vocoder = copy.deepcopy(synthesizer.vocoder)
    vocoder.head.istft.padding = "same"
    with pytest.raises(ConfigError, match="centre padding"):
        Synthesizer(synthesizer.mel_decoder, vocoder).begin()
