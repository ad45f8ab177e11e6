"""The replicas as the front calls them, whatever carries the calls."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass, field
from typing import Protocol

from ...audio.samples import Samples
from ...errors import ChatTTSError
from ...languages import known_languages
from ...model.lora.names import Adapters
from ..requests.jobs import RefineJob, SpeechJob
from .messages import Failed, Fingerprint, Message


class ReplicaLostError(ChatTTSError):
    """The replica that did a job is gone, or its engine stopped; another one may do the job."""


@dataclass(frozen=True)
class Facts:
    """Facts of the replicas, which the front must know before it takes requests.

    Attributes:
        fingerprint: of the replica that answered.
        gives_attention: whether its engine gives the attention from which times are found.
        has_alignment_heads: whether heads for that are known.
        fallback: speaker string of the default voice, for a checkpoint without voices.
        adapters: the loaded adapters by their names.
        languages: codes of those that texts are read in.
    """

    fingerprint: Fingerprint
    gives_attention: bool
    has_alignment_heads: bool
    fallback: str | None
    adapters: Adapters = field(default_factory=dict)
    languages: tuple[str, ...] = known_languages()


class ReplicaPool(Protocol):
    """Sends each job to one of the replicas. Every call may reach another one.

    Attributes:
        unrecorded: how many launches on a GPU are not recorded yet; 0 where that is not known.
    """

    @property
    def unrecorded(self) -> int: ...

    def speak(self, job: SpeechJob) -> AsyncGenerator[Message, None]:
        """Yield the messages of a job; closing the generator ends the job.

        Raises:
            ReplicaLostError: the replica is gone (with any message).
        """

    def avoid(self, replica: str) -> None:
        """Send no stream to a replica for a while, where there is another: it cannot speak."""

    def living(self) -> Collection[str] | None:
        """Return the names of the replicas that run; ``None`` where that is not known.

        Blocks a thread.
        """

    def refine(self, job: RefineJob, interrupt: threading.Event) -> str | Failed:
        """Return the refined utterances; blocks a thread, until ``interrupt`` at the latest.

        Raises:
            ReplicaLostError: the replica is gone.
        """

    def encode_sample(self, samples: Samples, sample_rate: int) -> str | Failed:
        """Return the sample prompt string of a recording, float32 (n,); blocks a thread.

        Raises:
            ReplicaLostError: the replica is gone.
        """
