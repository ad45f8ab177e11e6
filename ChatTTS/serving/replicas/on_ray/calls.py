"""The replicas of a Ray Serve deployment, called through its handle."""

from __future__ import annotations

import concurrent.futures
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import Any

from ray import exceptions
from ray.serve.exceptions import (
    DeploymentUnavailableError,
    ReplicaUnavailableError,
    RequestCancelledError,
)
from ray.serve.handle import DeploymentHandle, DeploymentResponse
from ray.util import list_named_actors

from ....audio.samples import Samples
from ....utils.locks import new_lock
from ...requests.jobs import RefineJob, SpeechJob
from ..messages import Failed, Message
from ..pool import Facts, ReplicaLostError

# The process, its host or its answer is gone.
_LOST = (
    exceptions.RayActorError,
    exceptions.WorkerCrashedError,
    exceptions.NodeDiedError,
    exceptions.ObjectLostError,
    exceptions.TaskCancelledError,
    DeploymentUnavailableError,
    ReplicaUnavailableError,
)
_POLL_SECONDS = 0.2
_COUNT_SECONDS = 1.0
_ACTOR = "SERVE_REPLICA::"  # application#deployment#replica: names of Ray Serve's actors
_AVOIDED_SECONDS = 120.0  # Ray replaces the replica meanwhile, or it answers again


class RayPool:
    """A :class:`..pool.ReplicaPool` of a deployment.

    Args:
        handle: of the deployment.
    """

    def __init__(self, handle: DeploymentHandle) -> None:
        self._handle = handle
        self._streams = handle.options(stream=True)
        self._avoided: dict[str, float] = {}  # until when, by name
        # The cluster may answer after a minute, and callers have no threads to lose meanwhile.
        self._counter = concurrent.futures.ThreadPoolExecutor(
            1, thread_name_prefix="count of replicas"
        )
        self._counting = new_lock()
        self._count: concurrent.futures.Future[frozenset[str]] | None = None

    def facts(self, seconds: float) -> Facts:
        """Return the facts of a replica; blocks for so many seconds at most.

        Raises:
            ReplicaLostError: the replica is gone.
            TimeoutError: no replica answers.
        """
        with _as_losses():
            facts: Facts = self._handle.facts.remote().result(timeout_s=seconds)
            return facts

    async def speak(self, job: SpeechJob) -> AsyncGenerator[Message, None]:
        """Yield the messages of a job: see :class:`..pool.ReplicaPool`."""
        now = time.monotonic()
        self._avoided = {name: until for name, until in self._avoided.items() if until > now}
        response = self._streams.speak.remote(job, tuple(self._avoided))
        try:
            with _as_losses():
                async for message in response:
                    yield message
        finally:
            response.cancel()

    def avoid(self, replica: str) -> None:
        """Send no stream to a replica for a while: see :class:`..pool.ReplicaPool`."""
        self._avoided[replica] = time.monotonic() + _AVOIDED_SECONDS

    @property
    def unrecorded(self) -> int:
        """Return 0: replicas on Ray do not say it."""
        return 0

    def living(self) -> frozenset[str] | None:
        """Return the names of the replicas that run: see :class:`..pool.ReplicaPool`."""
        with self._counting:
            if self._count is None or self._count.done():
                self._count = self._counter.submit(_replica_names)
            count = self._count
        try:
            return count.result(_COUNT_SECONDS)
        except (TimeoutError, concurrent.futures.TimeoutError, exceptions.RayError, RuntimeError):
            return None

    def refine(self, job: RefineJob, interrupt: threading.Event) -> str | Failed:
        """Return the refined utterances: see :class:`..pool.ReplicaPool`."""
        response = self._handle.refine.remote(job)
        try:
            return _result(response, interrupt)
        finally:
            response.cancel()

    def encode_sample(self, samples: Samples, sample_rate: int) -> str | Failed:
        """Return the sample prompt string of a recording: see :class:`..pool.ReplicaPool`."""
        return _result(self._handle.encode_sample.remote(samples, sample_rate))


def _replica_names() -> frozenset[str]:
    names = (actor["name"] for actor in list_named_actors(all_namespaces=True))
    return frozenset(name.rpartition("#")[2] for name in names if name.startswith(_ACTOR))


def _result(
    response: DeploymentResponse[Any], interrupt: threading.Event | None = None
) -> str | Failed:
    with _as_losses():
        while True:
            try:
                answer: str | Failed = response.result(timeout_s=_POLL_SECONDS)
                return answer
            except (TimeoutError, concurrent.futures.TimeoutError):
                if interrupt is not None and interrupt.is_set():
                    return ""


@contextmanager
def _as_losses() -> Iterator[None]:
    """Raise ReplicaLostError for the errors of a replica that is gone."""
    try:
        yield
    except (RequestCancelledError, *_LOST) as error:
        raise ReplicaLostError(str(error).splitlines()[0]) from error
