"""The model behind the service, where replicas speak: the front keeps no weights."""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, replace
from typing import TypeVar

import torch

from ...audio.samples import Samples
from ...checkpoints.assets import AssetFolder
from ...config import Config
from ...model.script_tokenizer import ScriptTokenizer
from ...model.speaker import Speaker
from ...model.tokenizer import Tokenizer
from ...utils.lru import CacheCounts
from ..errors import UnavailableError
from ..observe.engine_metrics import EngineState
from ..requests.jobs import RefineJob, SpeechJob
from .failover import FailoverStream, Patience
from .messages import Failed, ReplicaState
from .pool import Facts, ReplicaLostError, ReplicaPool

T = TypeVar("T")

_MOST_TRIES = 5  # of calls that are no streams


class ReplicatedModel:
    """A ``SpeechModel`` whose jobs are done by replicas.

    Args:
        pool: calls the replicas.
        facts: of one of them.
        folder: of the checkpoint; its configuration and tokenizer are read.
        patience: limits of going on after the loss of a replica.
        at_close: ends the replicas.

    Raises:
        ChatTTSError: a file of the checkpoint is wrong.
    """

    def __init__(
        self,
        pool: ReplicaPool,
        facts: Facts,
        folder: AssetFolder,
        *,
        patience: Patience | None = None,
        at_close: Callable[[], None] = lambda: None,
    ) -> None:
        self.gives_attention, self.fallback = facts.gives_attention, facts.fallback
        self.adapters, self.languages = facts.adapters, facts.languages
        self._has_alignment_heads = facts.has_alignment_heads
        self._fingerprint = facts.fingerprint
        self.is_exact = facts.fingerprint.dtype == "float32"
        self._pool, self._patience, self._at_close = pool, patience or Patience(), at_close
        self._config = Config.from_file(folder.config)
        self._tokenizer = ScriptTokenizer(folder.tokenizer)
        width, statistics = self._config.gpt.hidden_size, self._config.spk_stat
        self._speaker = Speaker(width, statistics, torch.device("cpu"))
        self._streams: weakref.WeakSet[FailoverStream] = weakref.WeakSet()
        self._calls: weakref.WeakSet[threading.Event] = weakref.WeakSet()
        self._known = KnownReplicas(pool.living)

    @property
    def is_loaded(self) -> bool:
        """Return that the replicas have the model in memory, where it stays."""
        return True

    @property
    def unrecorded(self) -> int:
        """Return how many launches are not recorded yet, as the model's process said last."""
        return self._pool.unrecorded

    @property
    def has_alignment_heads(self) -> bool:
        """Return whether the replicas knew heads for the times of words when they started."""
        return self._has_alignment_heads

    def fingerprint(self) -> str:
        """Return what the bits of the sound depend on beside the job."""
        return json.dumps([asdict(self._fingerprint), self._has_alignment_heads])

    @property
    def config(self) -> Config:
        """The checkpoint's configuration."""
        return self._config

    @property
    def tokenizer(self) -> Tokenizer:
        """The checkpoint's tokenizer."""
        return self._tokenizer

    async def open_stream(self, job: SpeechJob, interrupt: threading.Event) -> FailoverStream:
        """Start to generate: see ``SpeechModel``."""
        stream = FailoverStream(job, self._pool, self._patience, self._known.on_state)
        self._streams.add(stream)
        try:
            await stream.open()
        except BaseException:
            await stream.aclose()
            raise
        if interrupt.is_set():
            stream.leave()
        return stream

    def refine(self, job: RefineJob, interrupt: threading.Event) -> str:
        """Return the refined utterances: see ``SpeechModel``."""
        self._calls.add(interrupt)
        return self._retried(lambda: self._pool.refine(job, interrupt))

    def encode_sample(self, samples: Samples, sample_rate: int) -> str:
        """Return the sample prompt string of a recording: see ``SpeechModel``."""
        return self._retried(lambda: self._pool.encode_sample(samples, sample_rate))

    def check_speaker(self, speaker: str) -> None:
        """Raise VoiceError if a speaker string does not belong to the checkpoint."""
        self._speaker.vector(speaker)

    def engines(self) -> list[EngineState]:
        """Return the states of the replicas, as each sent it when a stream last began or ended.

        Asks the cluster which of them still run, and blocks a thread meanwhile.
        """
        return self._known.engines()

    def caches(self) -> Mapping[str, CacheCounts]:
        """Return the counts of the caches of voices, as :meth:`engines`, of all replicas."""
        return self._known.caches()

    def interrupt(self) -> None:
        """End all streams and calls that run now."""
        for stream in list(self._streams):
            stream.leave()
        for call in list(self._calls):
            call.set()

    def close(self) -> None:
        """Interrupt, and end the replicas."""
        self.interrupt()
        self._at_close()

    def _retried(self, call: Callable[[], str | Failed]) -> str:
        """Return the answer of a replica; ask another one where it is lost.

        Raises:
            ChatTTSError: the replica's own error, or UnavailableError after many losses.
        """
        for _ in range(_MOST_TRIES):
            try:
                answer = call()
            except ReplicaLostError:
                continue
            if isinstance(answer, str):
                return answer
            if not answer.is_of_replica:
                raise answer.error()
        raise UnavailableError("no replica of the speech engine answered: send the request again")


class KnownReplicas:
    """The last states that replicas sent, also those of replicas that are gone.

    A replica that is killed while it is idle breaks no stream. So the cluster tells which ones run.

    Args:
        living: returns the names of the replicas that run; ``None`` where that is not known.
    """

    def __init__(self, living: Callable[[], Collection[str] | None]) -> None:
        self._living = living
        self._states: dict[str, ReplicaState] = {}

    def on_state(self, state: ReplicaState) -> None:
        """Keep the state of a replica in place of its earlier one."""
        self._states[state.replica] = state

    def engines(self) -> list[EngineState]:
        """Return the last state of each replica's engine, and whether it still runs."""
        return [EngineState(state.metrics, is_live) for state, is_live in self._looked_up()]

    def caches(self) -> Mapping[str, CacheCounts]:
        """Return the counts of all replicas' caches by name; those that ended keep no entries."""
        sums: dict[str, CacheCounts] = {}
        for state, is_live in self._looked_up():
            for name, counts in state.caches.items():
                now = counts if is_live else replace(counts, size=0, weight=0)
                sums[name] = sums[name].plus(now) if name in sums else now
        return sums

    def _looked_up(self) -> list[tuple[ReplicaState, bool]]:
        """Return the last state of each replica, and whether it still runs."""
        known = list(self._states.values())
        living = self._living() if known else ()
        return [(state, living is None or state.replica in living) for state in known]
