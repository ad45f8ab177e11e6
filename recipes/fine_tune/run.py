"""The settings of a run, and the base checkpoint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from ChatTTS.checkpoints.assets import AssetFolder, locate
from ChatTTS.config import Config
from ChatTTS.core import Chat
from ChatTTS.errors import ConfigError
from ChatTTS.model.devices.placement import Placement
from ChatTTS.model.llama.config import MATRICES
from ChatTTS.model.lora.names import check_adapter_name
from ChatTTS.voice_learning.language_model import LanguageModel, load_language_model

from ..voice.training import Budget

PROJECTIONS: tuple[str, ...] = tuple(part for parts in MATRICES.values() for part in parts)
DECODER_MINUTES = 10.0
"""Of the Decoder's training, where nothing else is said."""

_MOST_RANK = 256


@dataclass(frozen=True)
class Settings:
    """What decides the weights; kept in the run's folder, since a training cannot change it.

    Attributes:
        recordings: the folder, or one file.
        transcript: of one file.
        checkpoint: the base: ``bundled``, ``huggingface``, or a folder that holds ``asset``.
        name: of the voice and of the adapter.
        speaker: a speaker string or a name that the base knows; ``None`` chooses the likeliest.
        rank: of each low-rank product.
        alpha: the products are scaled by alpha / rank.
        targets: the projections that are adapted.
        rate: learning rate.
        rehearsal: share of the sequences that the base itself spoke, so that nothing else is
            forgotten.
        rehearsed: how many of these are made.
        tokens: positions of a step, padding included.
        corruption, own_frames, own_temperature: as in ``recipes.voice.gpt_losses.GPTSettings`` and
            ``batches.Mixture``: how much the frames that are read differ from the spoken ones.
        decoder_rate: learning rate of the Decoder, where that is tuned.
        seed: of everything.

    Raises:
        ConfigError: a value is out of its range.
    """

    recordings: str
    transcript: str | None = None
    checkpoint: str = "bundled"
    name: str = "voice"
    speaker: str | None = None
    rank: int = 8
    alpha: float = 16.0
    targets: tuple[str, ...] = PROJECTIONS
    rate: float = 1e-3
    rehearsal: float = 0.4
    rehearsed: int = 96
    tokens: int = 3072
    corruption: float = 0.1
    own_frames: float = 0.5
    own_temperature: float = 0.3
    decoder_rate: float = 3e-4
    seed: int = 1

    def __post_init__(self) -> None:
        check_adapter_name(self.name)
        rules = (
            ("rank", 1 <= self.rank <= _MOST_RANK, f"from 1 to {_MOST_RANK}"),
            ("alpha", self.alpha > 0, "above 0"),
            ("rate", self.rate > 0, "above 0"),
            ("decoder_rate", self.decoder_rate > 0, "above 0"),
            ("rehearsal", 0 <= self.rehearsal < 1, "at least 0 and below 1"),
            ("rehearsed", self.rehearsed >= 2, "at least 2"),
            ("tokens", self.tokens >= 1, "at least 1"),
            ("targets", bool(self.targets) and set(self.targets) <= set(PROJECTIONS), "known"),
        )
        for name, holds, rule in rules:
            if not holds:
                raise ConfigError(f"{name} must be {rule}, not {getattr(self, name)!r}")


_DEFAULTS = {f.name: f.default for f in fields(Settings) if f.default is not MISSING}


@dataclass(frozen=True)
class Run:
    """A run of the recipe.

    Attributes:
        out: the folder of all results.
        settings: what decides the weights.
        device: on which networks are trained.
        budget: of the adapter's training.
        workers: processes of the recogniser; None takes one for each core.
        decoder_budget: of the Decoder's training.
        with_decoder: whether the stage ``all`` tunes the Decoder too.
    """

    out: Path
    settings: Settings
    device: torch.device
    budget: Budget
    workers: int | None = None
    decoder_budget: Budget = field(default_factory=lambda: Budget(minutes=DECODER_MINUTES))
    with_decoder: bool = False

    @cached_property
    def folder(self) -> AssetFolder:
        """The files of the base checkpoint."""
        return locate(*self.source)

    @property
    def source(self) -> tuple[str, Path | None]:
        """The base checkpoint, as arguments of ``Chat.load``."""
        given = self.settings.checkpoint
        return (given, None) if given in ("bundled", "huggingface") else ("custom", Path(given))

    def load(self, checkpoint: Path | None = None, **options: Any) -> Chat:
        """Load the base, or a checkpoint that was made of it, on velocity in float32."""
        chat = Chat()
        source, path = self.source if checkpoint is None else ("custom", checkpoint)
        chat.load_or_raise(source, custom_path=path, device="cpu", use_vllm=True, **options)
        return chat

    def language_model(self) -> LanguageModel:
        """Load the base's language model, frozen, with gradients."""
        placement = Placement(self.device, torch.float32, self.device)
        return load_language_model(self.folder, Config.from_file(self.folder.config), placement)

    def keep_settings(self) -> None:
        """Write the settings, or check that they are those of the run that began here.

        Raises:
            ConfigError: the run began with other settings.
        """
        path = self.out / "settings.json"
        mine = json.loads(json.dumps(asdict(self.settings)))
        if not path.exists():
            self.out.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(mine, indent=1) + "\n", encoding="utf-8")
            return
        # Settings that a run began without have their defaults: it began before there were any.
        known = {**_DEFAULTS, **json.loads(path.read_text(encoding="utf-8"))}
        other = [name for name in mine if mine[name] != known.get(name)]
        if other:
            raise ConfigError(
                f"{self.out} was begun with another {', '.join(other)}: give the same settings, or "
                "another folder with --out"
            )


def read_settings(out: Path) -> dict[str, Any]:
    """Return the settings of the run that began in ``out``; empty if none did."""
    path = out / "settings.json"
    if not path.exists():
        return {}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    targets: Sequence[str] = found["targets"]
    return found | {"targets": tuple(targets)}
