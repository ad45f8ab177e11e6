"""The settings that every stage receives: folder, device, corpus, budgets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from .training import Budget
from .types import Spoken


class Utterances(Protocol):
    """Speech by index: a corpus, or a list of utterances; an index always gives equal speech."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Spoken: ...


@dataclass(frozen=True)
class Run:
    """The settings of a run of the recipe.

    Attributes:
        out: the folder of all results.
        device: the device on which networks compute.
        seed: seed of data, weights and draws.
        corpus: the speech to train on.
        budgets: budgets of the stages that train, by name.
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
        """Return the path of the file with a stage's weights."""
        return self.out / f"{stage}.safetensors"


def window(step: int, size: int, corpus: Utterances) -> Iterator[Spoken]:
    """Yield the ``size`` utterances of step ``step``.

    They come in the corpus's order: it is shuffled already, and keeps neighbours in one file.
    """
    for offset in range(size):
        yield corpus[(step * size + offset) % len(corpus)]
