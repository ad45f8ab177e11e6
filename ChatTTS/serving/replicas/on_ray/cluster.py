"""The application on a Ray cluster of this process, or on one at an address."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import ray
from ray import serve
from ray.serve.exceptions import RayServeException

from ....errors import ConfigError, EngineUnavailableError
from ....model.devices.placement import choose_placement
from ....utils.ray_cluster import check_packages, cluster_at, other_version, private_cluster
from ....version import __version__
from ..front import ReplicatedModel
from ..options import LoadOptions, ReplicaOptions
from ..pool import Facts, ReplicaLostError
from .calls import RayPool
from .deployment import NAME, bound

logger = logging.getLogger(__name__)

APPLICATION = "chattts"
_FACTS_SECONDS = 600.0  # a replica may load its model for minutes
# The last line of a traceback.
_ERROR = re.compile(r"^\s*[\w.]+(?:Error|Exception)(?:\(\w+\))?: ")


@contextmanager
def replicated_model(
    load: LoadOptions, options: ReplicaOptions | None, address: str | None = None
) -> Iterator[ReplicatedModel]:
    """Run replicas within this context, or use those of a cluster; yield the model of the front.

    Args:
        load: the model. The front reads its configuration and tokenizer, too.
        options: numbers of replicas; ``None`` uses the application that runs on the cluster.
        address: of a cluster, on one of whose hosts this process runs; ``None`` starts a cluster
            in this machine, which only local processes reach, and which ends with this context.

    Raises:
        ConfigError: the replicas do not fit, or the cluster has another version of this package.
        EngineUnavailableError: the cluster is not there, or a replica does not start.
    """
    folder = load.folder()
    with ExitStack() as stack:
        if address is None:
            assert options is not None, "a new cluster has no application"
            stack.enter_context(private_cluster())
        else:
            stack.enter_context(cluster_at(address, "--ray-address"))
            check_packages()
            if options is not None:
                options.check_cores(load, ray.cluster_resources().get("CPU", 0))
        if options is None:
            handle = _running_application(address)
        else:
            handle = stack.enter_context(_application(load, options))
        pool = RayPool(handle)
        facts = _facts(pool)
        if facts.fingerprint.package != __version__:
            raise other_version(facts.fingerprint.package)
        yield ReplicatedModel(pool, facts, folder)


def _running_application(address: str | None) -> Any:
    try:
        return serve.get_deployment_handle(NAME, APPLICATION)
    except RayServeException as error:
        raise EngineUnavailableError(
            f"no application {APPLICATION!r} runs on the Ray cluster at {address}: deploy it with "
            "`serve deploy`, or give --data-parallel-size to run it from here"
        ) from error


@contextmanager
def _application(load: LoadOptions, options: ReplicaOptions) -> Iterator[Any]:
    with suppress(RayServeException):  # Serve does not run yet
        if APPLICATION in serve.status().applications:
            raise ConfigError(
                f"an application {APPLICATION!r} is already running on the Ray cluster: leave "
                "out --data-parallel-size to use it, or delete it first"
            )
    needs_gpu = choose_placement(load.device, load.dtype).device.type == "cuda"
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    serve.start(
        proxy_location="Disabled",
        logging_config={"enable_access_log": False, "log_level": "WARNING"},
    )
    application = bound(load, options.as_deployment(load, needs_gpu=needs_gpu))
    try:
        try:
            handle = serve.run(application, name=APPLICATION, route_prefix=None)
        except RuntimeError as error:
            raise EngineUnavailableError(f"a replica failed to start: {_reason(error)}") from error
        yield handle
    finally:
        with suppress(RayServeException, ray.exceptions.RayError):
            serve.delete(APPLICATION)


def _reason(error: RuntimeError) -> str:
    """Return why the replicas of the application do not start, in the words of their error."""
    told = [
        deployment.message
        for application in serve.status().applications.values()
        for deployment in application.deployments.values()
    ]
    # A traceback is told, whose last line with an error is that of the replica.
    lines = "\n".join(told).splitlines()
    named = [line for line in lines if _ERROR.match(line)]
    return _ERROR.sub("", named[-1]) if named else str(error)


def _facts(pool: RayPool) -> Facts:
    """Return the facts of the first replica that answers."""
    try:
        return pool.facts(_FACTS_SECONDS)
    except (ReplicaLostError, TimeoutError) as error:
        raise EngineUnavailableError(f"no replica answers: {error}") from error
