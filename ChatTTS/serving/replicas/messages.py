"""The messages of a replica: ``Opened``, pieces and ``Alive``, then ``Ended`` or ``Failed``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TypeAlias

from ... import errors
from ...model.velocity.metrics import Metrics
from ...pipeline.results import EmptySpeechError, Piece
from ...utils.lru import CacheCounts


@dataclass(frozen=True)
class Fingerprint:
    """Everything beside the job that the bits of the sound depend on.

    Two processes with equal fingerprints can continue each other's streams.

    Attributes:
        package: version of this package.
        checkpoint: digest of the checkpoint's files.
        dtype: of the language model, with its quantization, and of keys and values if they have
            another one than usual.
        kernels: the build of the CPU kernels or the device's name, or ``torch``.
        instructions: the instruction sets of the CPU that are used.
        torch: version of torch, which computes the rest.
    """

    package: str
    checkpoint: str
    dtype: str
    kernels: str
    instructions: str
    torch: str

    def differences(self, other: Fingerprint) -> list[str]:
        """Return the differing fields with both values; empty where the fingerprints are equal."""
        return [
            f"{each.name}: {getattr(self, each.name)} and {getattr(other, each.name)}"
            for each in fields(self)
            if getattr(self, each.name) != getattr(other, each.name)
        ]


@dataclass(frozen=True)
class ReplicaState:
    """The state of a replica, which it sends with its answers.

    Attributes:
        replica: its name, a new one for each process.
        metrics: of its engine.
        caches: the counts of its caches of voices, by their names.
    """

    replica: str
    metrics: Metrics
    caches: Mapping[str, CacheCounts] = field(default_factory=dict)


@dataclass(frozen=True)
class Opened:
    """The job is accepted.

    Attributes:
        fingerprint: of the replica.
        utterances: the utterances of the text.
        state: of the replica.
        left_out: what the voice cannot speak of the text.
    """

    fingerprint: Fingerprint
    utterances: tuple[str, ...]
    state: ReplicaState
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Alive:
    """The next piece takes a while; sent every second, so that a process that hangs is noticed.

    Attributes:
        unrecorded: how many launches on the process's GPU are not recorded yet, where it is said.
    """

    unrecorded: int = 0


@dataclass(frozen=True)
class Ended:
    """All pieces were sent.

    Attributes:
        finish_reason: ``stop``, ``length`` or ``abort``; ``None`` where no utterance ended.
        state: of the replica.
    """

    finish_reason: str | None
    state: ReplicaState


@dataclass(frozen=True)
class Failed:
    """The job cannot be done, by this replica or by any.

    An exception would arrive in a wrapper and with a trace of another process.

    Attributes:
        kind: name of a class of errors.
        message: of the error.
        texts: of an ``EmptySpeechError``.
        replica: the name of the replica.
        left_out, languages: of a ``NothingToSpeakError``.
    """

    kind: str
    message: str
    texts: tuple[str, ...] = ()
    replica: str | None = None
    left_out: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: errors.ChatTTSError, replica: str | None = None) -> Failed:
        """Return the message for an error; a kind that is not known is sent as its base."""
        if isinstance(error, EmptySpeechError):
            return cls("EmptySpeechError", str(error), tuple(error.texts), replica)
        if isinstance(error, errors.NothingToSpeakError):
            kind = errors.NothingToSpeakError.__name__
            return cls(kind, str(error), (), replica, error.left_out, error.languages)
        known = next(kind for kind in type(error).__mro__ if kind.__name__ in _KINDS)
        return cls(known.__name__, str(error), (), replica)

    @property
    def is_of_replica(self) -> bool:
        """Return whether the replica failed, and another one may do the job."""
        return self.kind in ("EngineDeadError", "NotLoadedError")

    def error(self) -> errors.ChatTTSError:
        """Return the error itself."""
        if self.kind == "EmptySpeechError":
            return EmptySpeechError(list(self.texts), None)
        kind = _KINDS.get(self.kind, errors.ChatTTSError)
        error = kind.__new__(kind)  # some have arguments other than the message
        error.args = (self.message,)
        if isinstance(error, errors.NothingToSpeakError):
            error.left_out, error.languages = self.left_out, self.languages
        return error


Message: TypeAlias = Opened | Piece | Alive | Ended | Failed

_KINDS: Mapping[str, type[errors.ChatTTSError]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.ChatTTSError)
}
