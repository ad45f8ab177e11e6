"""The sequences of each training step, and their layout in tensors.

A step is a pure function of the seed and its number, so resuming a run changes nothing. A batch
holds sequences of similar length, padded on the right. The model is causal, so no position is
influenced by the padding after it.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ChatTTS.voice_learning.sequences import IGNORED, CodeBatch, CodeSequence, code_batch

from .prompts import Coded, Prompts, Sequence
from .speakers import COORDINATES
from .types import VOICES, RefinePair

_SPEECH, _REFINE = 1, 2  # kinds of draws


@dataclass(frozen=True, eq=False)
class SpeechBatch(CodeBatch):
    """Sequences of speech, [B, L] positions, with what only this recipe knows of them.

    Attributes:
        points: speakers, float32 [B, 4]; zeros without a speaker.
        spoken: first and last text position that the predicted frame speaks, int64 [B, L, 2]; -1
            elsewhere.
        sounds: the sound of the predicted frame and the next different sound, int64 [B, L, 2];
            ``IGNORED`` elsewhere.
    """

    points: Tensor
    spoken: Tensor
    sounds: Tensor


@dataclass(frozen=True, eq=False)
class TextBatch:
    """Sequences of the refine pass: ``ids`` and ``targets``, int64 [B, L]."""

    ids: Tensor
    targets: Tensor

    def to(self, device: torch.device | str) -> TextBatch:
        """Return a copy on ``device``."""
        return TextBatch(self.ids.to(device), self.targets.to(device))


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
    read = None
    if rng is not None and corruption:
        frames = np.concatenate([s.codes for s in sequences])
        read = [corrupted(s.codes, frames, end, corruption, rng) for s in sequences]
    batch = code_batch(sequences, end, read)
    points = np.zeros((len(sequences), COORDINATES), np.float32)
    spoken = np.full((*batch.ids.shape, 2), -1, np.int64)
    sounds = np.full_like(spoken, IGNORED)
    for row, s in enumerate(sequences):
        n, whole = len(s.ids), len(s)
        if s.slot is not None and s.point is not None:
            points[row] = s.point
        if s.spoken is not None:
            spoken[row, n - 1 : whole - 1] = s.spoken
        if s.sounds is not None:
            sounds[row, n - 1 : whole - 1] = s.sounds
    named = {f.name: getattr(batch, f.name) for f in fields(batch)}
    return SpeechBatch(
        **named,
        **{
            name: torch.from_numpy(values)
            for name, values in (("points", points), ("spoken", spoken), ("sounds", sounds))
        },
    )


def frame_states(hidden: Tensor, batch: CodeBatch) -> list[Tensor]:
    """Return the states from which each sequence's own frames are drawn, float32 [frames, hidden].

    Args:
        hidden: of all positions of the batch, [B, L, hidden].
    """
    is_predicting = batch.targets[..., 0] != IGNORED
    # The last state predicts the end, and gives no sound.
    return [h[p][:-1].float() for h, p in zip(hidden, is_predicting, strict=True)]


def text_batch(sequences: Items[CodeSequence]) -> TextBatch:
    """Lay out sequences of the refine pass."""
    shape = len(sequences), max(map(len, sequences))
    ids, targets = np.zeros(shape, np.int64), np.full(shape, IGNORED, np.int64)
    for row, s in enumerate(sequences):
        ids[row, : len(s)] = s.ids
        targets[row, s.given - 1 : len(s) - 1] = s.ids[s.given :]
    return TextBatch(torch.from_numpy(ids), torch.from_numpy(targets))


def corrupted(
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
