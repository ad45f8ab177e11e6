"""Excerpts of utterances with what the language model reads: the data of the stage ``decoder``."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ChatTTS.errors import AssetError

from .batches import SpeechBatch, speech_batch
from .coded import Coded, arranged_take, read_codes, read_space
from .features import fitted, samples_of
from .language_model import NUM_CODES
from .prompts import Prompts
from .takes import Takes
from .units import FRAME_SAMPLES

_TRIES = 100  # shards that may have no utterance of the wanted length


@dataclass(frozen=True, eq=False)
class Excerpts:
    """B excerpts of a few utterances.

    Attributes:
        whole: the utterances.
        rows: int64 [B], the utterance of each excerpt.
        firsts: int64 [B], the position whose hidden state belongs to an excerpt's first frame.
        samples: float32 [B, (2 * frames - 1) * hop], the speech of the excerpts.
    """

    whole: SpeechBatch
    rows: Tensor
    firsts: Tensor
    samples: Tensor

    def to(self, device: torch.device) -> Excerpts:
        """Return a copy on ``device``."""
        return Excerpts(**{f.name: getattr(self, f.name).to(device) for f in fields(self)})


@dataclass(frozen=True)
class ExcerptSource:
    """The excerpts of each step, a function of the seed, its number and the files.

    Attributes:
        speech: folder of the takes.
        codes: folder of their codes.
        arranging: seed with which the takes were arranged for these codes.
        seed: of the choice of excerpts.
        count: excerpts of a step; they come from one shard, so that few files are read.
        frames: code frames of an excerpt.
        each: excerpts of an utterance. The language model reads whole utterances, so more excerpts
            of fewer ones are sooner made.
    """

    speech: Path
    codes: Path
    arranging: int
    seed: int
    count: int
    frames: int
    each: int = 1

    @cached_property
    def names(self) -> list[str]:
        """The names of the shards of which both speech and codes were there at the first step.

        Raises:
            AssetError: there are none.
        """
        spoken = {path.stem for path in self.speech.glob("[0-9]*.json")}
        names = sorted(spoken & {path.stem for path in self.codes.glob("[0-9]*.npz")})
        if not names:
            raise AssetError(f"{self.codes} has no codes of the speech in {self.speech}")
        return names

    @cached_property
    def _places(self) -> NDArray[np.float32]:
        return read_space(self.codes)

    @cached_property
    def _prompts(self) -> Prompts:
        return Prompts()

    def __call__(self, step: int) -> Excerpts:
        """Return the excerpts of a step.

        Raises:
            AssetError: no utterance is long enough.
        """
        rng = np.random.default_rng((self.seed, step))
        for _ in range(_TRIES):
            name = self.names[int(rng.integers(len(self.names)))]
            coded = read_codes(self.codes / f"{name}.npz", self._places)
            enough = [index for index, one in enumerate(coded) if len(one.codes) >= self.frames]
            if enough:
                return self._cut(name, coded, self._chosen(coded, enough, rng), rng)
        raise AssetError(f"{self.codes} has no utterances of {self.frames} frames")

    def _chosen(self, coded: list[Coded], enough: list[int], rng: np.random.Generator) -> list[int]:
        """Return neighbours by length among ``enough``, so that little of a batch is padding."""
        wanted = -(-self.count // self.each)
        by_length = sorted(enough, key=lambda index: len(coded[index]))
        begin = int(rng.integers(max(1, len(by_length) - wanted + 1)))
        return [int(index) for index in np.resize(by_length[begin:], wanted)]

    def _cut(
        self, name: str, coded: list[Coded], chosen: list[int], rng: np.random.Generator
    ) -> Excerpts:
        takes = Takes(self.speech, name)
        sequences = [self._prompts.speech(coded[index]) for index in chosen]
        waves = [
            arranged_take(takes[index], self.arranging, int(name), index).samples
            for index in chosen
        ]
        rows, firsts, samples = [], [], []
        for number in range(self.count):
            row = number % len(chosen)
            sequence = sequences[row]
            room = len(sequence.codes) - self.frames
            # Drawn from beyond both ends, since beginnings and ends would be too rare otherwise.
            first = round(room * min(max(float(rng.uniform(-0.2, 1.2)), 0.0), 1.0))
            rows.append(row)
            firsts.append(sequence.prompt_length - 1 + first)
            begin = first * FRAME_SAMPLES
            piece = waves[row][begin : begin + samples_of(self.frames)]
            samples.append(fitted(piece, self.frames))
        return Excerpts(
            speech_batch(sequences, NUM_CODES),
            torch.tensor(rows, dtype=torch.int64),
            torch.tensor(firsts, dtype=torch.int64),
            torch.stack(samples),
        )
