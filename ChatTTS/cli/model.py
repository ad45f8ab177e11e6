"""Which checkpoint a command works with, and a ``Chat`` that has loaded it."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..config import Config
from ..errors import AssetError
from .console import Console

if TYPE_CHECKING:
    from ..checkpoints.assets import AssetFolder
    from ..core import Chat

FULL_MODEL_HINT = (
    "this is the small voice of the package; for the full ChatTTS model: `chattts download` once, "
    "then `--model huggingface`"
)


@dataclass(frozen=True)
class ModelChoice:
    """A checkpoint by the arguments of ``Chat.load``."""

    source: str
    path: Path | None = None

    @property
    def label(self) -> str:
        """What it is called in ``--model``."""
        return self.source if self.path is None else str(self.path)

    def find(self, *, download: bool = True) -> AssetFolder:
        """Its folder.

        Args:
            download: fetch the published checkpoint if it is not there.

        Raises:
            AssetError: it is not there, or not whole.
        """
        from ..checkpoints import assets

        if self.source == "huggingface" and not download and not assets.is_cached():
            raise AssetError(
                "the full ChatTTS model is not here, or only in part: `chattts download` fetches it"
            )
        return assets.locate(self.source, self.path)


def choose_model(name: str | None) -> ModelChoice:
    """The checkpoint that ``--model`` names; without it the full one if it is cached."""
    if name is None:
        from ..checkpoints import assets

        return ModelChoice("huggingface" if assets.is_cached() else "bundled")
    if name in ("bundled", "huggingface"):
        return ModelChoice(name)
    return ModelChoice("custom", Path(name))


def read_config(choice: ModelChoice, *, download: bool = True) -> Config:
    """Sizes and defaults of a checkpoint, without loading it; errors as :meth:`find`."""
    return Config.from_file(choice.find(download=download).config)


def load_chat(choice: ModelChoice, args: argparse.Namespace, console: Console) -> Chat:
    """Load the checkpoint as :func:`~.options.add_engine_options` asks for."""
    console.note(f"loading the model: {choice.label}")
    from ..core import Chat

    chat = Chat()
    chat.load_or_raise(
        choice.source,
        custom_path=choice.path,
        device=args.device,
        use_vllm=args.engine == "velocity",
        dtype=args.dtype,
        num_threads=args.threads,
        kv_memory=args.memory,
    )
    return chat
