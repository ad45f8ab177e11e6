"""What every stage is given: where to work, on what, and for how long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from .training import Budget
from .types import Spoken


class Utterances(Protocol):
    """Speech by index, the same each time: a corpus, or a list of utterances."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Spoken: ...


@dataclass(frozen=True)
class Run:
    """The settings of a run of the recipe.

    Attributes:
        out: the folder in which everything is put.
        device: where networks compute.
        seed: of data, weights and draws.
        corpus: what is trained on.
        budgets: of the stages that train, by name.
        adversarial: whether the vocoder also learns from a discriminator.
        compiled: whether the language model is compiled: a third faster, needs a C++ compiler.
    """

    out: Path
    device: torch.device
    seed: int
    corpus: Utterances
    budgets: Mapping[str, Budget]
    adversarial: bool
    compiled: bool = False

    def state(self, stage: str) -> Path:
        """The file with the weights of a stage."""
        return self.out / f"{stage}.safetensors"


def window(step: int, size: int, corpus: Utterances) -> Iterator[Spoken]:
    """The ``size`` utterances of step ``step``. They come in order, as the corpus is mixed
    already and keeps neighbours in one file."""
    for offset in range(size):
        yield corpus[(step * size + offset) % len(corpus)]
