"""A Ray cluster of this process, or one at an address; and the application on it."""

from __future__ import annotations

import logging
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import ray
from ray import serve
from ray.serve.exceptions import RayServeException

from ....errors import ConfigError, EngineUnavailableError
from ....model.placement import choose_placement
from ....utils import machine
from ....version import __version__
from ..front import ReplicatedModel
from ..options import LoadOptions, ReplicaOptions
from ..pool import Facts, ReplicaLostError
from .calls import RayPool
from .deployment import NAME, bound

logger = logging.getLogger(__name__)

APPLICATION = "chattts"
_CONNECT_SECONDS = 3.0
_FACTS_SECONDS = 600.0  # a replica may load its model for minutes
# The last line of a traceback.
_ERROR = re.compile(r"^\s*[\w.]+(?:Error|Exception)(?:\(\w+\))?: ")
# Sound travels in small objects, which need no store. Ray asks for 75 MB at least.
_STORE_BYTES = 128 << 20


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
            stack.enter_context(_own_cluster())
        else:
            stack.enter_context(_cluster_at(address))
            _check_packages()
            if options is not None:
                options.check_cores(load.threads, ray.cluster_resources().get("CPU", 0))
        if options is None:
            handle = _running_application(address)
        else:
            handle = stack.enter_context(_application(load, options))
        pool = RayPool(handle)
        facts = _facts(pool)
        if facts.fingerprint.package != __version__:
            raise _other_version(facts.fingerprint.package)
        yield ReplicatedModel(pool, facts, folder)


@contextmanager
def _own_cluster() -> Iterator[None]:
    # Ray keeps sockets and logs in this folder; paths of sockets must be short.
    folder = tempfile.mkdtemp(prefix="ray-")
    try:
        with _connected(
            num_cpus=max(1, int(machine.usable_cores())),
            include_dashboard=False,
            object_store_memory=_STORE_BYTES,
            _temp_dir=folder,
            _node_ip_address="127.0.0.1",
        ):
            yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _cluster_at(address: str) -> Iterator[None]:
    if address.startswith("ray://"):
        raise ConfigError(
            f"--ray-address {address} is that of a Ray client: run the server on a host of the "
            "cluster, and give host:port of its head, such as 10.0.0.1:6379, or auto"
        )
    if address != "auto":
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise ConfigError(f"--ray-address must be host:port or auto, not {address!r}")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise _no_cluster(address, error) from error
    with _connected(address=address):
        yield


@contextmanager
def _connected(**options: Any) -> Iterator[None]:
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        ray.shutdown()
        if "address" in options:
            raise _no_cluster(options["address"], error) from error
        raise EngineUnavailableError(f"Ray does not start here: {error}") from error
    try:
        yield
    finally:
        ray.shutdown()


def _no_cluster(address: str, error: Exception) -> EngineUnavailableError:
    return EngineUnavailableError(
        f"no Ray cluster can be used at {address} ({error}): start one there with `ray start "
        "--head`, with the versions of Ray and Python and the token (RAY_AUTH_TOKEN) that this "
        "process has, or leave out --ray-address to start one here"
    )


def _check_packages() -> None:
    """Check that a process of the cluster imports this version of the package."""

    def version() -> str | None:  # a local function travels with its code
        try:
            from ChatTTS.version import __version__ as found
        except ImportError:
            return None
        return found

    found = ray.get(ray.remote(num_cpus=0)(version).remote())
    if found != __version__:
        raise _other_version(found)


def _other_version(found: str | None) -> ConfigError:
    there = "no chattts-velocity" if found is None else f"chattts-velocity {found}"
    return ConfigError(
        f"the Ray cluster has {there}, and this process has {__version__}: install one version on "
        "every host"
    )


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
                f"an application {APPLICATION!r} runs on the Ray cluster already: leave out "
                "--data-parallel-size to use it, or delete it first"
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
            raise EngineUnavailableError(f"a replica does not start: {_reason(error)}") from error
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
