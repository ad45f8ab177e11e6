"""The Ray Serve deployment: a replica in an actor of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from ray import serve
from ray.serve.config import RequestRouterConfig
from ray.serve.deployment import Application

from ....audio.samples import Samples
from ....errors import ConfigError
from ....utils.garbage import leave_out_objects, share_free_memory
from ....version import __version__
from ...requests.jobs import RefineJob, SpeechJob
from ..messages import Failed, Message
from ..options import LoadOptions
from ..pool import Facts
from ..worker import Replica, fingerprint_of, with_signs_of_life
from .listening import listen_on_node_address

NAME = "SpeechReplica"
_ROUTER = "ChatTTS.serving.replicas.on_ray.router:SampleAffinityRouter"
_THREADS = 8  # for calls that block
# A check speaks one frame among all running requests, so a busy replica needs time for it.
_HEALTH_PERIOD, _HEALTH_TIMEOUT = 2.0, 10.0
_DRAIN_SECONDS = 300.0  # for streams of a replica that is scaled away


class SpeechReplica:
    """A model in a Ray actor.

    Args:
        load: the model.
        package: version of this package that the front has.

    Raises:
        ConfigError: this host has another version.
        ChatTTSError: the model cannot be loaded.
    """

    def __init__(self, load: LoadOptions, package: str) -> None:
        if package != __version__:
            raise ConfigError(
                f"this host has chattts-velocity {__version__}, and the front has {package}: "
                "install the same version on every host"
            )
        listen_on_node_address()
        share_free_memory()
        chat = load.load()
        name = serve.get_replica_context().replica_id.unique_id
        self._replica = Replica(chat, fingerprint_of(chat, load.folder()), name)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="calls")
        self._replica.check_health()  # loads what the first client would wait for
        leave_out_objects()

    async def facts(self) -> Facts:
        """Return what the front must know."""
        return self._replica.facts()

    async def speak(
        self, job: SpeechJob, avoided: tuple[str, ...]
    ) -> AsyncGenerator[Message, None]:
        """Yield the messages of a job; the router reads the names of replicas to be avoided."""
        async with (
            aclosing(self._replica.speak(job)) as messages,
            aclosing(with_signs_of_life(messages)) as all_messages,
        ):
            async for message in all_messages:
                yield message

    async def refine(self, job: RefineJob) -> str | Failed:
        """Return the refined utterances of a job; a cancelled call ends within a step."""
        interrupt = threading.Event()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, self._replica.refine, job, interrupt)
        finally:
            interrupt.set()

    async def encode_sample(self, samples: Samples, sample_rate: int) -> str | Failed:
        """Return the sample prompt string of a recording."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._threads, self._replica.encode_sample, samples, sample_rate
        )

    async def check_health(self) -> None:
        """Speak one frame through the engine's thread; Ray replaces a replica that cannot."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads, self._replica.check_health)


def bound(load: LoadOptions, options: Mapping[str, Any]) -> Application:
    """Return the application, to be run by Ray Serve.

    Args:
        load: the model of every replica.
        options: of the deployment: numbers of replicas, their resources.
    """
    deployment = serve.deployment(
        SpeechReplica,
        name=NAME,
        health_check_period_s=_HEALTH_PERIOD,
        health_check_timeout_s=_HEALTH_TIMEOUT,
        graceful_shutdown_wait_loop_s=0.5,
        graceful_shutdown_timeout_s=_DRAIN_SECONDS,
        max_constructor_retry_count=1,
        request_router_config=RequestRouterConfig(request_router_class=_ROUTER),
        **options,
    )
    return deployment.bind(load, __version__)


def application(args: Mapping[str, Any]) -> Application:
    """Return the application for a Ray Serve config file, whose ``args`` name the model.

    The config file sets the numbers of replicas and their resources.

    Args:
        args: fields of :class:`..options.LoadOptions`; all have defaults here.
    """
    defaults = LoadOptions("bundled", None, None, "float32", 1, "16 sequences")
    return bound(replace(defaults, **args), {})
