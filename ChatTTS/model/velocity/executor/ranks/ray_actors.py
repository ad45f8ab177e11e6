"""Ranks as actors of a Ray cluster, on one or several machines.

A placement group holds the cores or GPUs of all ranks, so an engine gets all of them or none. Ray
starts the processes, carries the messages and tells when a process or a machine is lost.
"""

from __future__ import annotations

import atexit
import logging
import os
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, NoReturn

import torch

from .....errors import ConfigError
from .....utils.ray_cluster import (
    check_packages,
    has_private_cluster,
    is_connected,
    shared_cluster,
)
from ...configs import EngineConfig
from .channels import BEAT_SECONDS, BEATS, START_BEATS, RankChannel, RankGroup, RankLostError
from .communicator import open_store
from .messages import is_failure

logger = logging.getLogger(__name__)

_BEAT = "beat"  # the concurrency group of Ray that answers while a rank computes
# How long after the error of a rank another one that was killed before is noticed.
_PEERS_SECONDS = 0.5
# How long to wait for the resources of a placement group, before the error that names them.
_PLACEMENT_SECONDS = 60


class RankActor:
    """A rank in a process of Ray's."""

    def __init__(self) -> None:
        from .rank import Rank

        self._rank = Rank()

    def answer(self, message: bytes) -> bytes:
        """Return the reply to a message."""
        return self._rank.answer(message)

    def beat(self) -> None:
        """Return, to show that the process runs."""

    def pid(self) -> int:
        """Return the number of the process."""
        return os.getpid()


class ActorChannel(RankChannel):
    """The way to an actor.

    Attributes:
        actor: Ray's handle.
        waiting: Ray's references to the replies that have not been read.
    """

    def __init__(self, actor: Any, group: ActorGroup) -> None:
        self.actor, self._group = actor, group
        self.waiting: deque[Any] = deque()

    def send(self, message: bytes) -> None:
        self._group.check()
        self.waiting.append(self.actor.answer.remote(message))

    def receive(self) -> bytes:
        self._group.check()
        return self._group.receive(self)


class ActorGroup(RankGroup):
    """Actors in a placement group.

    Args:
        devices: of the ranks, as they see them.
        resources: that a rank needs, by Ray's names.
        cluster: is left at the end.

    Raises:
        ConfigError: the cluster has too few resources, or not now.
    """

    def __init__(
        self, devices: list[str], threads: int, resources: dict[str, float], cluster: ExitStack
    ) -> None:
        import ray
        from ray.util.placement_group import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        super().__init__(devices, threads)
        self._cluster = cluster
        self._placement: Any = None
        self.channels: list[ActorChannel] = []
        # Before Ray's own hook, after which every call would start another Ray.
        atexit.register(self.close)
        try:
            self.address = ray.util.get_node_ip_address()
            self._store, self.port = open_store(self.address)
            if has_private_cluster():
                _check_room(ray.cluster_resources(), len(devices), resources)
            self._placement = placement_group([resources] * len(devices), strategy="PACK")
            if not self._placement.wait(_PLACEMENT_SECONDS):
                raise _no_room(ray.available_resources(), len(devices), resources)
            actor = ray.remote(
                num_cpus=resources["CPU"],
                num_gpus=resources.get("GPU", 0),
                concurrency_groups={_BEAT: 1},
                scheduling_strategy=PlacementGroupSchedulingStrategy(self._placement),
            )(RankActor)
            self.channels = [ActorChannel(actor.remote(), self) for _ in devices]
            self._beats = _Beats(self.channels)
        except BaseException:
            self.close()
            raise

    def check(self) -> None:
        super().check()
        if not is_connected():
            raise RankLostError("this process left its Ray cluster: load the model again")

    def receive(self, channel: ActorChannel) -> bytes:
        """Wait for the next reply of a rank.

        The other ranks are looked at meanwhile: if one is lost, or has an error, this rank may wait
        for it for ever.
        """
        import ray

        wanted = channel.waiting[0]
        replies = {wanted: channel} | {
            other.waiting[0]: other
            for other in self.channels
            if other is not channel and other.waiting
        }
        while True:
            self.check()
            ready = ray.wait(list(replies), timeout=BEAT_SECONDS)[0]
            for reply in ready:
                found = self._found(reply, replies[reply])
                if reply is wanted and not is_failure(found):
                    channel.waiting.popleft()
                    return found
                if is_failure(found):
                    self._look_for_lost(replies[reply])
                    return found
                del replies[reply]
            silent = None if ready else self._beats.silent()
            if silent is not None:
                self._lose(silent, "does not answer any more")

    def _look_for_lost(self, failed: ActorChannel) -> None:
        """Raise RankLostError if a rank ended before another one failed.

        Where a rank is killed, its peers see that first, as an error of their exchange.
        """
        import ray

        asked = {_ask(channel): channel for channel in self.channels if channel is not failed}
        if not asked:
            return
        for answer in ray.wait(list(asked), num_returns=len(asked), timeout=_PEERS_SECONDS)[0]:
            self._found(answer, asked[answer])

    def close(self) -> None:
        if self._owner != os.getpid():
            return
        atexit.unregister(self.close)
        if is_connected():
            self._end()
        self._lost = self._lost or "the ranks were closed: load the model again"
        self._store = None
        self._cluster.close()

    def _end(self) -> None:
        """Kill the actors, and give back what they held."""
        import ray
        from ray.util.placement_group import remove_placement_group

        for channel in self.channels:
            with suppress(ray.exceptions.RayError):
                ray.kill(channel.actor)
        if self._placement is not None:
            with suppress(ray.exceptions.RayError, ValueError):
                remove_placement_group(self._placement)

    def _found(self, reply: Any, channel: ActorChannel) -> bytes:
        import ray

        try:
            found: bytes = ray.get(reply)
        except ray.exceptions.RayError as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            self._lose(channel, f"ended ({reason})")
        return found

    def _lose(self, channel: ActorChannel, how: str) -> NoReturn:
        """End all ranks because one is lost."""
        self._lost = (
            f"rank {self.channels.index(channel)} {how}, and the others cannot go on without it: "
            "load the model again; Ray's logs tell more"
        )
        logger.error("%s", self._lost)
        self.close()
        raise RankLostError(self._lost)


class _Beats:
    """Signs of life of ranks that compute. Each is asked again when it has answered."""

    def __init__(self, channels: Sequence[ActorChannel]) -> None:
        self._channels = channels
        self._asked = [_ask(channel) for channel in channels]
        # Answers missed in a row, below 0 while the process starts.
        self._missed = [-START_BEATS] * len(channels)

    def silent(self) -> ActorChannel | None:
        """Return a rank that did not answer several times in a row, if there is one."""
        import ray

        for index, channel in enumerate(self._channels):
            if ray.wait([self._asked[index]], timeout=0)[0]:
                self._asked[index], self._missed[index] = _ask(channel), 0
            else:
                self._missed[index] += 1
                if self._missed[index] > BEATS:
                    return channel
        return None


def _ask(channel: ActorChannel) -> Any:
    return channel.actor.beat.options(concurrency_group=_BEAT).remote()


def _check_room(found: Mapping[str, float], ranks: int, resources: Mapping[str, float]) -> None:
    """Raise ConfigError if a cluster will never have what the ranks need."""
    if any(found.get(name, 0) < ranks * needed for name, needed in resources.items()):
        raise _no_room(found, ranks, resources)


def _no_room(found: Mapping[str, float], ranks: int, resources: Mapping[str, float]) -> ConfigError:
    has = {name: found.get(name, 0) for name in resources}
    return ConfigError(
        f"{ranks} ranks need {dict(resources)} each, and the Ray cluster has not so much free (it "
        f"has {has}): give smaller sizes or num_threads, or add machines"
    )


def start_actors(config: EngineConfig) -> ActorGroup:
    """Start the ranks of an engine in a Ray cluster.

    It is the cluster that this process is in, or that at the address in the environment variable
    ``RAY_ADDRESS``, or otherwise one of its own, which ends with the engines that use it.

    Raises:
        EngineUnavailableError: Ray is not installed, or the cluster cannot be reached.
        ConfigError: the cluster does not have what the ranks need, or has another version of this
            package.
    """
    cluster = ExitStack()
    try:
        cluster.enter_context(shared_cluster("distributed_executor_backend='ray'"))
        check_packages()
        import ray

        world_size, model = config.parallel.world_size, config.model
        if model.device is not None and torch.device(model.device).type == "cuda":
            # Ray shows each rank only the GPU of that rank.
            devices, threads = ["cuda:0"] * world_size, model.num_threads or 1
            resources: dict[str, float] = {"GPU": 1, "CPU": 1}
        else:
            cores = int(ray.cluster_resources().get("CPU", 1))
            devices = ["cpu"] * world_size
            threads = model.num_threads or max(1, cores // world_size)
            resources = {"CPU": threads}
        return ActorGroup(devices, threads, resources, cluster)
    except BaseException:
        cluster.close()
        raise
