"""Ray Serve's request router, with the choice of :mod:`..routing`."""

from __future__ import annotations

from typing import Any

from ray.serve.request_router import (
    PendingRequest,
    ReplicaID,
    ReplicaResult,
    RequestRouter,
    RunningReplica,
)

from ...requests.jobs import SpeechJob
from ..routing import Routes, sample_key


class SampleAffinityRouter(RequestRouter):
    """Takes the less busy of two random replicas, or the one that has the request's sample."""

    def initialize_state(self, **options: Any) -> None:
        """Begin with nothing known."""
        self._routes: Routes[ReplicaID] = Routes()

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """Return groups of one replica, the best first."""
        avoided = _avoided(pending_request)
        answering = [r for r in candidate_replicas if r.replica_id.unique_id not in avoided]
        replicas = {replica.replica_id: replica for replica in answering or candidate_replicas}
        lengths = {name: self.replica_queue_len_cache.get(name) for name in replicas}
        told = {name: length for name, length in lengths.items() if length is not None}
        request = "" if pending_request is None else _id(pending_request)
        sample = None if pending_request is None else _sample(pending_request)
        return [
            [replicas[name]] for name in self._routes.choose(request, sample, list(replicas), told)
        ]

    def on_request_routed(
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: ReplicaResult
    ) -> None:
        """Count the request, and remember where its sample is now."""
        self._routes.routed(_id(pending_request), _sample(pending_request), replica_id)

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """Do not count the request any more."""
        self._routes.done(internal_request_id)


def _id(request: PendingRequest) -> str:
    name: str = request.metadata.internal_request_id
    return name


def _avoided(request: PendingRequest | None) -> tuple[str, ...]:
    """Return the names of the replicas that a stream shall avoid; other calls avoid none."""
    if request is None or len(request.args) < 2 or not isinstance(request.args[0], SpeechJob):
        return ()
    avoided: tuple[str, ...] = request.args[1]
    return avoided


def _sample(request: PendingRequest) -> str | None:
    return sample_key(request.args[0]) if request.args else None
