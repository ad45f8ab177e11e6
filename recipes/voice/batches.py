"""The sequences of each training step, and their layout in tensors.

A step is a function of the seed, its number and the corpus. A batch holds sequences of similar
length, so that little of it is padding.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ChatTTS.voice_learning.sequences import IGNORED, CodeBatch, code_batch

from .coded import NOBODY, Coded
from .frames import corrupted
from .prompts import Prompts, Sequence
from .styles import COORDINATES
from .text_batches import Pairs, TextBatch, text_batch

_SPEECH, _REFINE = 1, 2  # kinds of draws


@dataclass(frozen=True, eq=False)
class SpeechBatch(CodeBatch):
    """Sequences of speech, [B, L] positions, with what only this recipe knows of them.

    Attributes:
        speakers: float32 [B, coordinates + 1]; zeros without a speaker.
        spoken: first and last text position that the predicted frame speaks, int64 [B, L, 2]; -1
            elsewhere.
        sounds: the symbol of the predicted frame and the one behind it, int64 [B, L, 2];
            ``IGNORED`` elsewhere.
    """

    speakers: Tensor
    spoken: Tensor
    sounds: Tensor


def speech_batch(
    sequences: Items[Sequence],
    end: int,
    rng: np.random.Generator | None = None,
    corruption: float = 0.0,
) -> SpeechBatch:
    """Lay out sequences of speech.

    Args:
        sequences: at least one.
        end: the code that ends an utterance.
        rng, corruption: in each sequence, a share of the frames that the model reads is replaced
            by others. The share is drawn from 0 to ``corruption``. So the model learns to continue
            after a wrong frame.
    """
    read = None
    if rng is not None and corruption:
        frames = np.concatenate([s.codes for s in sequences])
        read = [corrupted(s.codes, frames, end, corruption, rng) for s in sequences]
    batch = code_batch(sequences, end, read)
    speakers = np.zeros((len(sequences), COORDINATES + 1), np.float32)
    spoken = np.full((*batch.ids.shape, 2), -1, np.int64)
    sounds = np.full_like(spoken, IGNORED)
    for row, s in enumerate(sequences):
        predicting = slice(len(s.ids) - 1, len(s) - 1)
        if s.speaker is not None:
            speakers[row] = s.speaker
        if s.spoken is not None:
            spoken[row, predicting] = s.spoken
        if s.sounds is not None:
            sounds[row, predicting] = s.sounds
    known = {f.name: getattr(batch, f.name) for f in fields(batch)}
    return SpeechBatch(
        **known,
        speakers=torch.from_numpy(speakers),
        spoken=torch.from_numpy(spoken),
        sounds=torch.from_numpy(sounds),
    )


@dataclass(frozen=True)
class Mixture:
    """The composition of the steps.

    Attributes:
        positions: of a step, padding included.
        refine_positions, refine_every: every ``refine_every`` steps, ``refine_positions`` of refine
            pairs are added.
        sample_share: share of the steps in which every prompt holds a sample of the voice.
        sample_frames: frames of the longest sample.
        unnamed: share of the sequences with a sample that lack the speaker's vector. Without a
            sample, a tenth of this share of the default voice's sequences lack it.
        corruption: largest share of replaced frames.
    """

    positions: int = 4096
    refine_positions: int = 1536
    refine_every: int = 6
    sample_share: float = 0.1
    sample_frames: int = 240
    unnamed: float = 0.8
    corruption: float = 1 / 3


@dataclass(frozen=True, eq=False)
class Order:
    """A corpus by length, and which utterances can be samples.

    Attributes:
        items: the utterances.
        order: int64 [items], indices from short to long.
        chances: float64 [items], cumulated. A step of short sequences holds more of them, so it is
            chosen less often.
        samples: for each named voice, indices of utterances that are short enough.
    """

    items: Items[Coded]
    order: NDArray[np.int64]
    chances: NDArray[np.float64]
    samples: dict[int, NDArray[np.int64]]

    @classmethod
    def of(cls, items: Items[Coded], sample_frames: int) -> Order:
        """Return the order of a corpus; samples have at most ``sample_frames``."""
        lengths = np.array([len(item) for item in items])
        order = np.argsort(lengths, kind="stable")
        short: dict[int, list[int]] = {}
        for index, item in enumerate(items):
            if item.person != NOBODY and len(item.codes) <= sample_frames:
                short.setdefault(item.person, []).append(index)
        return cls(
            items,
            order,
            np.cumsum(lengths[order] / lengths.sum()),
            {person: np.array(found, np.int64) for person, found in short.items()},
        )


class Steps:
    """The batches of a run, by step number.

    Args:
        corpus: returns the utterances that a step may read, at least one.
        pairs: pairs for the refine pass; without any, refining is not trained.
        prompts: builds the sequences.
        end: the code that ends an utterance.
        seed: of all draws.
        mixture: the composition of the steps.
    """

    def __init__(
        self,
        corpus: Callable[[int], Items[Coded]],
        pairs: Pairs,
        prompts: Prompts,
        end: int,
        *,
        seed: int,
        mixture: Mixture,
    ) -> None:
        self._corpus, self._pairs, self._prompts, self._end = corpus, pairs, prompts, end
        self._seed, self._mixture = seed, mixture
        self._order: Order | None = None

    def both(self, step: int) -> tuple[SpeechBatch, TextBatch | None]:
        """Return the speech and the refine pairs of step ``step``."""
        return self.speech(step), self.text(step)

    def speech(self, step: int) -> SpeechBatch:
        """Return the speech of step ``step``."""
        order, mixture = self._ordered(step), self._mixture
        rng = np.random.default_rng((self._seed, _SPEECH, step))
        with_samples = bool(rng.random() < mixture.sample_share)
        begin = int(np.searchsorted(order.chances, rng.random()))
        begin = min(begin, len(order.order) - 1)
        sequences: list[Sequence] = []
        longest = 0
        for index in np.roll(order.order, -begin):
            sequence = self._sequence(order, int(index), with_samples, rng)
            if sequence is None:
                continue
            longest = max(longest, len(sequence))
            if sequences and longest * (len(sequences) + 1) > mixture.positions:
                break
            sequences.append(sequence)
        if not sequences:  # no utterance has another one to serve as its sample
            sequences = [self._prompts.speech(order.items[int(order.order[begin])])]
        return speech_batch(sequences, self._end, rng, mixture.corruption)

    def text(self, step: int) -> TextBatch | None:
        """Return the refine pairs of step ``step``, or None if it has none."""
        if not len(self._pairs) or step % self._mixture.refine_every:
            return None
        rng = np.random.default_rng((self._seed, _REFINE, step))
        sequences: list[Sequence] = []
        longest = 0
        while True:
            sequence = self._prompts.refine(self._pairs[int(rng.integers(len(self._pairs)))])
            longest = max(longest, len(sequence))
            if sequences and longest * (len(sequences) + 1) > self._mixture.refine_positions:
                return text_batch(sequences)
            sequences.append(sequence)

    def _ordered(self, step: int) -> Order:
        items = self._corpus(step)
        if self._order is None or self._order.items is not items:
            self._order = Order.of(items, self._mixture.sample_frames)
        return self._order

    def _sequence(
        self, order: Order, index: int, with_samples: bool, rng: np.random.Generator
    ) -> Sequence | None:
        item, unnamed = order.items[index], self._mixture.unnamed
        if not with_samples:
            # A prompt without any speaker stands for the default voice, the first one.
            may_lack = item.person == 0 and rng.random() < unnamed / 10
            return self._prompts.speech(item, named=not may_lack)
        partners = order.samples.get(item.person, np.zeros(0, np.int64))
        partners = partners[partners != index]
        if not len(partners):
            return None
        sample = order.items[int(rng.choice(partners))]
        return self._prompts.speech(item, named=bool(rng.random() >= unnamed), sample=sample)
