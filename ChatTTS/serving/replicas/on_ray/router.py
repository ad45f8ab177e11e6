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

from ..routing import Affinity, sample_key


class SampleAffinityRouter(RequestRouter):
    """Takes the less busy of two random replicas, or the one that has the request's sample."""

    def initialize_state(self, **options: Any) -> None:
        """Begin with no sample known."""
        self._affinity: Affinity[ReplicaID] = Affinity()

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """Return groups of replicas, the preferred group first."""
        replicas = {replica.replica_id: replica for replica in candidate_replicas}
        lengths = {name: self.replica_queue_len_cache.get(name) for name in replicas}
        loads = {name: length for name, length in lengths.items() if length is not None}
        ranks = self._affinity.ranks(_sample(pending_request), list(replicas), loads)
        return [[replicas[name] for name in rank] for rank in ranks]

    def on_request_routed(
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: ReplicaResult
    ) -> None:
        """Remember where the request's sample is now."""
        self._affinity.routed(_sample(pending_request), replica_id)


def _sample(request: PendingRequest | None) -> str | None:
    return sample_key(request.args[0]) if request is not None and request.args else None
