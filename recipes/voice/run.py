"""What every stage of the recipe gets: folders, device, seed, budgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from ChatTTS.errors import AssetError
from recipes.bundled_voice.training import Budget

from .takes import Takes
from .teacher import TeacherFiles


@dataclass(frozen=True)
class Run:
    """The settings of a run of the recipe.

    Attributes:
        out: the folder of all results.
        teacher: the folder of the teacher's files, as the README says.
        device: the device on which networks compute.
        seed: seed of data, weights and draws.
        budgets: budgets of the stages that train, by name.
        shards: shards of the corpus, about two minutes of speech each.
        part, parts: this process speaks every ``parts``-th shard, from ``part`` on.
    """

    out: Path
    teacher: Path
    device: torch.device
    seed: int
    budgets: Mapping[str, Budget]
    shards: int
    part: int = 0
    parts: int = 1

    @property
    def speech(self) -> Path:
        """The folder of the takes."""
        return self.out / "speech"

    @property
    def lines(self) -> Path:
        """The folder of the lines to speak, ``LANGUAGE.jsonl``."""
        return self.out / "lines"

    def teacher_files(self) -> TeacherFiles:
        """Return where the teacher's parts are."""
        return TeacherFiles(
            self.out / "teacher.onnx", self.teacher / "vocab.json", self.teacher / "voices"
        )

    def takes(self) -> Takes:
        """Return all speech that there is.

        Raises:
            AssetError: there is none.
        """
        takes = Takes(self.speech)
        if not len(takes):
            raise AssetError(f"{self.speech} has no speech yet: run the stage `speech` first")
        return takes

    def state(self, stage: str) -> Path:
        """Return the path of the file with a stage's weights."""
        return self.out / f"{stage}.safetensors"
