"""A Ray cluster of this process, or the connection to one that runs.

Call :func:`~.ray_environment.prepare` first; Ray is imported in these functions alone.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ..errors import ConfigError, EngineUnavailableError
from ..version import __version__
from . import machine
from .locks import new_lock
from .ray_environment import prepare

_CONNECT_SECONDS = 3.0
# Sound and plans travel in small objects, which need no store. Ray asks for 75 MB at least.
_STORE_BYTES = 128 << 20
_ADDRESS = "RAY_ADDRESS"  # Ray's own variable


@contextmanager
def private_cluster() -> Iterator[None]:
    """Run a cluster in this machine, which only local processes with its token reach.

    Raises:
        EngineUnavailableError: it does not start.
    """
    # Ray keeps sockets and logs in this folder, and lets every user write where it makes one: so it
    # makes one inside. Paths of sockets must be short.
    folder = tempfile.mkdtemp(prefix="ray-")
    try:
        with _connected(
            None,
            address="local",
            num_cpus=max(1, int(machine.usable_cores())),
            include_dashboard=False,
            object_store_memory=_STORE_BYTES,
            _temp_dir=os.path.join(folder, "r"),
            _node_ip_address="127.0.0.1",
        ):
            yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def cluster_at(address: str, setting: str) -> Iterator[None]:
    """Be connected to a running cluster, on one of whose hosts this process runs.

    Args:
        address: host:port of its head, or ``auto``.
        setting: the name of the option that gave the address, for the error messages.

    Raises:
        ConfigError: the address is none.
        EngineUnavailableError: no cluster answers there within seconds.
    """
    if address.startswith("ray://"):
        raise ConfigError(
            f"{setting} {address} is for Ray clients: run this process on a host of the cluster, "
            "and give host:port of its head, such as 10.0.0.1:6379, or auto"
        )
    if address != "auto":
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise ConfigError(f"{setting} must be host:port or auto, not {address!r}")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise _no_cluster(address, setting, error) from error
    with _connected(setting, address=address):
        yield


class _Shared:
    """The cluster that the engines of this process share; Ray has one connection for a process.

    Attributes:
        users: how many engines use it.
        owner: the process that connected it.
        is_private: whether that process started it.
        exit: leaves it.
    """

    def __init__(self) -> None:
        self.lock = new_lock()
        self.users, self.owner, self.is_private = 0, os.getpid(), False
        self.exit = ExitStack()


_SHARED = _Shared()


@contextmanager
def shared_cluster(needed_by: str) -> Iterator[None]:
    """Be in a cluster: in that of this process, in that at ``RAY_ADDRESS``, or in one of its own.

    One that this function started or connected ends with the last of these contexts.

    Args:
        needed_by: names what needs Ray, for the error messages.

    Raises:
        ConfigError, EngineUnavailableError: see :func:`cluster_at` and :func:`private_cluster`.
    """
    with _SHARED.lock:
        if _SHARED.users and _SHARED.owner != os.getpid():
            raise EngineUnavailableError(
                f"this process is a fork of one that is connected to Ray, where {needed_by} "
                "cannot work: use multiprocessing's spawn method"
            )
        if not is_connected():
            address = os.environ.get(_ADDRESS) or "local"
            is_private = address == "local"
            prepare(needed_by, private_cluster=is_private)
            _SHARED.exit.enter_context(
                private_cluster() if is_private else cluster_at(address, _ADDRESS)
            )
            _SHARED.is_private = is_private
        _SHARED.users, _SHARED.owner = _SHARED.users + 1, os.getpid()
    try:
        yield
    finally:
        with _SHARED.lock:
            _SHARED.users -= 1
            if not _SHARED.users:
                _SHARED.is_private = False
                _SHARED.exit.close()


def has_private_cluster() -> bool:
    """Return whether this process is in the cluster that it started, which never grows."""
    return is_connected() and _SHARED.is_private


def is_connected() -> bool:
    """Return whether this process is connected to a cluster."""
    return "ray" in sys.modules and bool(sys.modules["ray"].is_initialized())


def check_packages() -> None:
    """Check that a process of the cluster imports this version of the package.

    Raises:
        ConfigError: it has another one, or none.
    """
    import ray

    def version() -> str | None:  # a local function travels with its code
        try:
            from ChatTTS.version import __version__ as found
        except ImportError:
            return None
        return found

    found = ray.get(ray.remote(num_cpus=0)(version).remote())
    if found != __version__:
        raise other_version(found)


def other_version(found: str | None) -> ConfigError:
    """Return the error for a cluster with another version of the package; ``None``: with none."""
    there = "no chattts-velocity" if found is None else f"chattts-velocity {found}"
    return ConfigError(
        f"the Ray cluster has {there}, and this process has {__version__}: install the same "
        "version on every host"
    )


@contextmanager
def _connected(setting: str | None, **options: Any) -> Iterator[None]:
    import ray

    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        ray.shutdown()
        if setting is not None:
            raise _no_cluster(options["address"], setting, error) from error
        raise EngineUnavailableError(f"Ray failed to start: {error}") from error
    except BaseException:
        ray.shutdown()
        raise
    try:
        yield
    finally:
        ray.shutdown()


def _no_cluster(address: str, setting: str, error: Exception) -> EngineUnavailableError:
    return EngineUnavailableError(
        f"cannot use a Ray cluster at {address} ({error}): start one there with `ray start "
        "--head`, with the same versions of Ray and Python and the same token (RAY_AUTH_TOKEN) "
        f"as this process, or leave out {setting} to start one here"
    )
