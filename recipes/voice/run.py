"""The inputs of every stage of the recipe: folders, device, seed, budgets."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from ChatTTS.errors import AssetError

from .takes import Takes
from .teacher import TeacherFiles
from .training import Budget, Schedule, Task, train


@dataclass(frozen=True)
class Run:
    """The settings of a run of the recipe.

    Attributes:
        out: the folder of all results.
        teacher: the folder of the teacher's files, as the README says.
        device: the device on which networks compute.
        seed: seed of data, weights and draws.
        budgets: budgets of the stages that train, by name.
        shards: shards of the corpus, about three minutes of speech each.
        part, parts: this process speaks every ``parts``-th shard, from ``part`` on.
        size: of the language model, a name in ``language_model.SIZES``.
        positions: of a step of the language model; None for its own choice.
        compiled: whether the language model is compiled, which needs a C++ compiler.
        known: the ``asset`` folder of a checkpoint whose weights trainings begin with, where they
            have no state of their own.
        workers: processes that prepare the batches of a training.
        clock: returns the seconds that budgets count: of the wall, or of this process where other
            work may take most of the machine.
    """

    out: Path
    teacher: Path
    device: torch.device
    seed: int
    budgets: Mapping[str, Budget]
    shards: int
    part: int = 0
    parts: int = 1
    size: str = "small"
    positions: int | None = None
    compiled: bool = False
    known: Path | None = None
    workers: int = 0
    clock: Callable[[], float] = time.monotonic

    @property
    def on_gpu(self) -> bool:
        """Whether networks compute on a GPU."""
        return self.device.type == "cuda"

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

    def codes(self, codec: str) -> Path:
        """Return the folder of the corpus as codes.

        Args:
            codec: checksum of the codec that made them.
        """
        return self.out / "codes" / codec


def train_stage(
    run: Run,
    task: Task,
    schedule: Schedule | None = None,
    origin: Mapping[str, str] | None = None,
) -> None:
    """Train a stage of a run until its budget is spent; see :func:`.training.train`."""
    train(
        task,
        run.out,
        run.budgets[task.name],
        device=run.device,
        seed=run.seed,
        schedule=schedule or Schedule(),
        origin=origin,
        clock=run.clock,
        workers=run.workers,
    )
