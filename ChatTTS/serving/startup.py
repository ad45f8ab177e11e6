"""Checks before the model is loaded, which may take a minute; and log lines of the start."""

from __future__ import annotations

import logging
import os
import socket
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from ..errors import ConfigError
from ..voices import VoiceLibrary
from .http.connections import is_loopback
from .http.listener import bind, check_tls
from .observe.engine_metrics import KV_BYTES, KV_TOUCHED_BYTES, EngineState
from .settings import Settings

logger = logging.getLogger(__name__)


def reserve(settings: Settings) -> socket.socket:
    """Check the packages, the ports, the TLS files, and the folders of voices and of scripts.

    Returns:
        The bound socket of HTTP.

    Raises:
        ConfigError: one of them cannot be used; the message names it.
    """
    _check_packages(settings)
    check_tls(settings)
    _check_voices(settings)
    _check_scripts(settings)
    bound = bind(settings.host, settings.port)
    try:
        if settings.grpc_port:
            # gRPC binds this port itself, later; another program may still take it until then.
            bind(settings.host, settings.grpc_port, "--grpc-port").close()
        if settings.wyoming_port:
            bind(settings.host, settings.wyoming_port, "--wyoming-port").close()
    except ConfigError:
        bound.close()
        raise
    return bound


def _check_packages(settings: Settings) -> None:
    """Import the interfaces whose packages are extras."""
    wanted = (
        (settings.grpc_port, "riva.server", "gRPC", "grpc", "grpc_port=None (--no-grpc)"),
        (settings.wyoming_port, "wyoming", "Wyoming", "wyoming", "no wyoming_port"),
    )
    for port, module, name, extra, without in wanted:
        if port is None:
            continue
        try:
            import_module(f".protocols.{module}", __package__)
        except ImportError as error:
            raise ConfigError(
                f"{name}'s packages are not installed ({error}): pip install "
                f"'chattts-velocity[{extra}]', or serve without it: {without}"
            ) from error


def warn_if_open(settings: Settings) -> None:
    """Warn if every machine that reaches the ports may send requests, unless this is intended."""
    if settings.api_keys or settings.needs_keys is False or is_loopback(settings.host):
        return
    logger.warning(
        "NO API KEYS: every machine that can reach %s may use this server, and upload, replace "
        "and delete voices. Set keys (--api-keys FILE), or listen on 127.0.0.1; --open confirms "
        "that this is intended",
        settings.host,
    )


def log_memory(engines: Sequence[EngineState], settings: Settings) -> None:
    """Log how much memory the server uses, and how much more it may use."""
    cache = int(KV_BYTES.over(engines))
    left = cache - int(KV_TOUCHED_BYTES.over(engines))
    results = settings.result_cache_bytes
    now = resident_bytes()
    logger.info(
        "memory: %s, %d MB more at most for the KV cache (%d MB; --memory) and %d MB for results",
        "unknown now" if now is None else f"{now >> 20} MB now",
        left >> 20,
        cache >> 20,
        results >> 20,
    )


def resident_bytes() -> int | None:
    """Return the resident memory of this process; ``None`` if the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def _check_voices(settings: Settings) -> None:
    _check_folder(VoiceLibrary(settings.voices).folder, "voices")


def _check_scripts(settings: Settings) -> None:
    if settings.scripts is not None:  # else it is made for the first script
        _check_folder(settings.scripts, "scripts")


def _check_folder(folder: Path, what: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(
            f"{what} cannot be stored in {folder} ({error.strerror or error}): give this user "
            f"write access to it, or choose another folder with --{what}"
        ) from error
