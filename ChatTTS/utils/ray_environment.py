"""The environment of Ray, which it reads when it is imported."""

from __future__ import annotations

import importlib.util
import os
import secrets
import sys

from ..errors import EngineUnavailableError

# Environment variables of Ray, and why they are set.
_ALWAYS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is reported to others
}
_OWN_CLUSTER = {
    # Ray listens on every address of the host otherwise; the name of the variable is of old.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # Other users of the host reach the ports, too.
    "RAY_AUTH_MODE": "token",
}
_TOKEN = "RAY_AUTH_TOKEN"
_TOKEN_BYTES = 32


def prepare(needed_by: str, *, private_cluster: bool) -> None:
    """Set the variables for this process and its children; call it before Ray is imported.

    Args:
        needed_by: names what needs Ray, for the error messages.
        private_cluster: a cluster is started in this machine, which only this process may use.

    Raises:
        EngineUnavailableError: Ray is not installed; or it was imported with other settings, which
            leave a cluster of its own open to others.
    """
    if importlib.util.find_spec("ray") is None:
        raise EngineUnavailableError(
            f"{needed_by} needs Ray, which is not installed: pip install "
            "'chattts-velocity[serve,scale]', with Python 3.11 or newer"
        )
    for name, value in _ALWAYS.items():
        os.environ.setdefault(name, value)
    if not private_cluster:
        return
    if "ray" not in sys.modules:
        os.environ.update(_OWN_CLUSTER)
        os.environ[_TOKEN] = secrets.token_hex(_TOKEN_BYTES)
    elif _TOKEN not in os.environ or _OWN_CLUSTER.items() - os.environ.items():
        raise EngineUnavailableError(
            f"Ray was imported before {needed_by} could close its ports to other machines: call "
            "ray.init() first, or import Ray after loading the model"
        )
