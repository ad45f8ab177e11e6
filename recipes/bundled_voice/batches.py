"""The sequences of each training step, and their layout in tensors.

A step is a pure function of the seed and its number, so resuming a run changes nothing. A batch
holds sequences of similar length, padded on the right. The model is causal, so no position is
influenced by the padding after it.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass, fields
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .prompts import Coded, Prompts, Sequence
from .speakers import COORDINATES
from .types import VOICES, RefinePair

IGNORED = -100  # the target of a position that the loss ignores
T = TypeVar("T", bound="_Tensors")
_SPEECH, _REFINE = 1, 2  # kinds of draws


@dataclass(frozen=True, eq=False)
class _Tensors:
    def to(self: T, device: torch.device | str) -> T:
        """Return a copy on ``device``."""
        return type(self)(**{f.name: getattr(self, f.name).to(device) for f in fields(self)})


@dataclass(frozen=True, eq=False)
class SpeechBatch(_Tensors):
    """Sequences of speech, [B, L] positions.

    Attributes:
        ids: text ids, int64 [B, L]; 0 elsewhere.
        codes: code frames that the model reads, int64 [B, L, num_codebooks]; 0 elsewhere.
        is_code: bool [B, L], whether the position is a code frame.
        is_slot: bool [B, L], whether the position is the speaker's.
        points: speakers, float32 [B, 4]; zeros without a speaker.
        targets: codes to predict, including the end, int64 [B, L, num_codebooks]; ``IGNORED``
            elsewhere.
        spoken: first and last text position that the predicted frame speaks, int64 [B, L, 2]; -1
            elsewhere.
        sounds: the sound of the predicted frame and the next different sound, int64 [B, L, 2];
            ``IGNORED`` elsewhere.
    """

    ids: Tensor
    codes: Tensor
    is_code: Tensor
    is_slot: Tensor
    points: Tensor
    targets: Tensor
    spoken: Tensor
    sounds: Tensor

    @property
    def tokens(self) -> int:
        """The number of positions, padding included."""
        return self.ids.numel()


@dataclass(frozen=True, eq=False)
class TextBatch(_Tensors):
    """Sequences of the refine pass: ``ids`` and ``targets``, int64 [B, L]."""

    ids: Tensor
    targets: Tensor


def speech_batch(
    sequences: Items[Sequence],
    end: int,
    rng: np.random.Generator | None = None,
    corruption: float = 0.0,
) -> SpeechBatch:
    """Lay out sequences of speech.

    Args:
        end: the code that ends an utterance.
        rng, corruption: in each sequence, a share of the frames that the model reads is replaced
            by others. The share is drawn from 0 to ``corruption``. So the model learns to continue
            after a wrong frame.
    """
    size, length = len(sequences), max(map(len, sequences))
    num_codebooks = sequences[0].codes.shape[1]
    ids = np.zeros((size, length), np.int64)
    codes = np.zeros((size, length, num_codebooks), np.int64)
    is_code = np.zeros((size, length), np.bool_)
    is_slot = np.zeros_like(is_code)
    points = np.zeros((size, COORDINATES), np.float32)
    targets = np.full((size, length, num_codebooks), IGNORED, np.int64)
    spoken = np.full((size, length, 2), -1, np.int64)
    sounds = np.full_like(spoken, IGNORED)
    frames = np.concatenate([s.codes for s in sequences])
    for row, s in enumerate(sequences):
        n, whole = len(s.ids), len(s)
        ids[row, :n] = s.ids
        read = s.codes
        if rng is not None and corruption:
            read = _corrupted(read, frames, end, corruption, rng)
        codes[row, n:whole] = read
        is_code[row, n:whole] = True
        if s.slot is not None and s.point is not None:
            is_slot[row, s.slot] = True
            points[row] = s.point
        # Each position predicts the next one.
        targets[row, s.given - 1 : whole - 1] = s.codes[s.given - n :]
        targets[row, whole - 1] = end
        if s.spoken is not None:
            spoken[row, n - 1 : whole - 1] = s.spoken
        if s.sounds is not None:
            sounds[row, n - 1 : whole - 1] = s.sounds
    arrays = (ids, codes, is_code, is_slot, points, targets, spoken, sounds)
    return SpeechBatch(*map(torch.from_numpy, arrays))


def text_batch(sequences: Items[Sequence]) -> TextBatch:
    """Lay out sequences of the refine pass."""
    shape = len(sequences), max(map(len, sequences))
    ids, targets = np.zeros(shape, np.int64), np.full(shape, IGNORED, np.int64)
    for row, s in enumerate(sequences):
        ids[row, : len(s)] = s.ids
        targets[row, s.given - 1 : len(s) - 1] = s.ids[s.given :]
    return TextBatch(torch.from_numpy(ids), torch.from_numpy(targets))


def _corrupted(
    codes: NDArray[np.int64],
    others: NDArray[np.int64],
    end: int,
    most: float,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Replace some frames by frames of the batch, or by random codes in some codebooks."""
    count, num_codebooks = codes.shape
    hit = rng.random((count, 1)) < rng.uniform(0, most)
    foreign = others[rng.integers(len(others), size=count)]
    noise = np.where(
        rng.random((count, num_codebooks)) < 0.5,
        rng.integers(end, size=(count, num_codebooks)),
        codes,
    )
    changed = np.where(rng.random((count, 1)) < 0.5, foreign, noise)
    return np.where(hit, changed, codes)


@dataclass(frozen=True)
class Mixture:
    """The composition of the steps.

    Attributes:
        tokens: positions of a step, padding included.
        refine_tokens, refine_every: every ``refine_every`` steps, ``refine_tokens`` positions of
            refine pairs are added.
        sample_share: share of the steps in which every prompt holds a sample of the voice.
        sample_frames: frames of the longest sample.
        unnamed: share of the sequences with a sample that lack the speaker's vector. Without a
            sample, a tenth of this share of the default voice's sequences lack it.
        corruption: largest share of replaced frames.
    """

    tokens: int = 4096
    refine_tokens: int = 1536
    refine_every: int = 1
    sample_share: float = 0.2
    sample_frames: int = 300
    unnamed: float = 0.8
    corruption: float = 1 / 3


class Pairs(Protocol):
    """Refine pairs by index; an index always gives an equal pair."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> RefinePair: ...


class Steps:
    """The batches of a run, by step number.

    Args:
        items: the corpus as codes.
        pairs: pairs for the refine pass; without any, refining is not trained.
        prompts: builds the sequences.
        end: the code that ends an utterance.
        seed: of all draws.
    """

    def __init__(
        self,
        items: Items[Coded],
        pairs: Pairs,
        prompts: Prompts,
        end: int,
        *,
        seed: int,
        mixture: Mixture,
    ) -> None:
        self.items, self.pairs, self.prompts, self.end = items, pairs, prompts, end
        self.seed, self.mixture = seed, mixture
        lengths = np.array([len(item.codes) + len(item.text) + 4 for item in items])
        self._order = np.argsort(lengths, kind="stable")
        self._lengths = lengths[self._order]
        # A step of short sequences holds more of them, so it must be chosen less often.
        self._chances = np.cumsum(self._lengths / self._lengths.sum())
        self._samples: dict[str, NDArray[np.int64]] = {}
        for voice in {item.voice for item in items}:
            fitting = [
                index
                for index, item in enumerate(items)
                if item.voice == voice
                and item.is_voice
                and len(item.codes) <= mixture.sample_frames
            ]
            self._samples[voice] = np.array(fitting, dtype=np.int64)

    def speech(self, step: int) -> SpeechBatch:
        """Return the speech of step ``step``."""
        mixture = self.mixture
        rng = np.random.default_rng((self.seed, _SPEECH, step))
        with_samples = bool(rng.random() < mixture.sample_share)
        begin = int(np.searchsorted(self._chances, rng.random()))
        sequences: list[Sequence] = []
        longest = 0
        for index in np.roll(self._order, -min(begin, len(self._order) - 1)):
            sequence = self._sequence(int(index), with_samples, rng)
            if sequence is None:
                continue
            longest = max(longest, len(sequence))
            if sequences and longest * (len(sequences) + 1) > mixture.tokens:
                break
            sequences.append(sequence)
        if not sequences:  # no utterance here has another one to serve as its sample
            sequences = [self.prompts.speech(self.items[int(self._order[begin])])]
        return speech_batch(sequences, self.end, rng, mixture.corruption)

    def text(self, step: int) -> TextBatch | None:
        """Return the refine pairs of step ``step``, or None if it has none."""
        if not len(self.pairs) or step % self.mixture.refine_every:
            return None
        rng = np.random.default_rng((self.seed, _REFINE, step))
        sequences: list[Sequence] = []
        longest = 0
        while True:
            sequence = self.prompts.refine(self.pairs[int(rng.integers(len(self.pairs)))])
            longest = max(longest, len(sequence))
            if sequences and longest * (len(sequences) + 1) > self.mixture.refine_tokens:
                return text_batch(sequences)
            sequences.append(sequence)

    def _sequence(
        self, index: int, with_samples: bool, rng: np.random.Generator
    ) -> Sequence | None:
        item, unnamed = self.items[index], self.mixture.unnamed
        if not with_samples:
            # A prompt without any speaker stands for the default voice.
            default = item.is_voice and item.voice == VOICES[0]
            return self.prompts.speech(item, named=not (default and rng.random() < unnamed / 10))
        partners = self._samples[item.voice]
        partners = partners[partners != index]
        if not item.is_voice or not len(partners):
            return None
        sample = self.items[int(rng.choice(partners))]
        return self.prompts.speech(item, named=bool(rng.random() >= unnamed), sample=sample)
