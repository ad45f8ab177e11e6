"""The ``Chat`` that long works and learned voices are given, as an interface."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from ..config import AlignmentHeads
from ..text import Normalizer
from .model import Model


class LoadedChat(Protocol):
    """A ``Chat`` with a loaded model; ``core.py`` has the one of this package.

    Attributes:
        normalizer: reads its texts.
    """

    normalizer: Normalizer

    @property
    def alignment_heads(self) -> AlignmentHeads:
        """The heads whose attention follows the text; none before they are found."""

    @property
    def infer(self) -> Callable[..., Any]:
        """Speaks texts."""

    @property
    def _loaded(self) -> Model:
        """The model."""

    @property
    def _files(self) -> Path:
        """The folder of the model's files."""

    def find_alignment_heads(
        self, *, show_tqdm: bool = True, interrupt: threading.Event | None = None
    ) -> Any:
        """Find the heads whose attention follows the text."""

    def sample_random_speaker(self) -> str:
        """Return the speaker string of a random person."""

    def sample_audio_speaker(self, wav: Any, *, sample_rate: int, trim: bool) -> str:
        """Return the sample prompt of a recording."""
