"""The model as the service sees it: one interface, in this process or beyond."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Protocol

from ...audio.samples import Samples
from ...config import Config
from ...model.lora.names import Adapters
from ...model.tokenizer import Tokenizer
from ...utils.lru import CacheCounts
from ..observe.engine_metrics import EngineState
from ..requests.jobs import PieceStream, RefineJob, SpeechJob


class SpeechModel(Protocol):
    """Speaks jobs, many at a time. Only ``open_stream`` belongs to the asyncio loop.

    Attributes:
        is_exact: whether a job gives equal samples whenever it is spoken, whatever else is.
        gives_attention: whether the engine gives the attention from which times of words are found.
        fallback: speaker string of the default voice if the checkpoint has no voice at all.
        adapters: the loaded adapters by their names.
    """

    is_exact: bool
    gives_attention: bool
    fallback: str | None
    adapters: Adapters

    @property
    def is_loaded(self) -> bool:
        """Return whether a job finds the model in memory, and does not load it first."""

    @property
    def unrecorded(self) -> int:
        """Return how many launches on a GPU are not recorded yet; 0 where that is not known."""

    @property
    def has_alignment_heads(self) -> bool:
        """Return whether heads are known from which the times of words are found."""

    def fingerprint(self) -> str:
        """Return what the bits of the sound depend on beside the job; blocks a thread."""

    @property
    def languages(self) -> tuple[str, ...]:
        """The codes of languages that texts are read in, those that were registered, too."""

    @property
    def config(self) -> Config:
        """The checkpoint's configuration."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The checkpoint's tokenizer."""

    async def open_stream(self, job: SpeechJob, interrupt: threading.Event) -> PieceStream:
        """Start to generate; ``interrupt`` ends it, at the latest when the stream is closed.

        Raises:
            ChatTTSError: the job cannot be spoken.
        """

    def refine(self, job: RefineJob, interrupt: threading.Event) -> str:
        """Return the refined utterances, one a line; blocks a thread. Raises as above."""

    def encode_sample(self, samples: Samples, sample_rate: int) -> str:
        """Return the sample prompt string of a recording, float32 (n,); blocks a thread.

        Raises:
            ChatTTSError: the recording cannot be used.
        """

    def check_speaker(self, speaker: str) -> None:
        """Raise VoiceError if a speaker string does not belong to the checkpoint."""

    def engines(self) -> Sequence[EngineState]:
        """Return the state of the engine, or of those of all replicas."""

    def caches(self) -> Mapping[str, CacheCounts]:
        """Return the counts of the caches of voices."""

    def interrupt(self) -> None:
        """End all streams and calls that run now."""

    def close(self) -> None:
        """Interrupt, and free the model; blocks a thread."""
