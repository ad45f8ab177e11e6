"""Ranks as processes of this machine.

Each is a program of its own, so scripts need no ``__main__`` guard, and notebooks work. A rank that
ends closes its pipe, and one that hangs gives no sign of life. In both cases all ranks are ended,
since the others may wait for the lost one for ever.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

import torch
import torch.distributed as dist

import ChatTTS

from ....errors import ConfigError, EngineUnavailableError
from ....utils import machine
from ....utils.locks import new_lock
from ....utils.process_hooks import start_thread
from ...native import library
from ...native.build import BuildError
from ...placement import choose_placement
from ..configs import EngineConfig
from .links import RankGroup, RankLink, RankLostError
from .messages import Alive, encode, is_failure
from .pipes import read_message, write_message
from .program import BEAT_SECONDS

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
# A rank is lost after so many beats of this process in a row without one of the rank. This process
# counts its own beats, since a busy machine slows down both.
_BEATS = 7
# The interface of `HOST`, by the name of the system.
_LOOPBACK = {"linux": "lo", "darwin": "lo0"}
_PROGRAM = "ChatTTS.model.velocity.ranks.program"
_END_SECONDS = 3.0
_ALIVE = encode(Alive())


class ProcessLink(RankLink):
    """The way to a process.

    Attributes:
        beats: beats of this process since the last sign of life; ``None`` before the first one.
    """

    def __init__(self, number: int, group: ProcessGroup) -> None:
        self.number, self._group = number, group
        self.beats: int | None = None
        self.replies: SimpleQueue[bytes | None] = SimpleQueue()
        self.process = subprocess.Popen(
            [sys.executable, "-m", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment(),
            # Ctrl-C in a terminal is for the engine, which ends its ranks itself.
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )

    def send(self, message: bytes) -> None:
        self._group.check()
        assert self.process.stdin is not None
        try:
            write_message(self.process.stdin, message)
        except (OSError, ValueError):
            self._group.lose(self, "ended")
            self._group.check()

    def receive(self) -> bytes:
        reply = self.replies.get()
        if reply is None:
            self.replies.put(None)  # for later calls
            self._group.check()
            raise RankLostError("the ranks were closed: load the model again")
        return reply

    def read(self) -> None:
        """Queue the replies of the process until it ends."""
        assert self.process.stdout is not None
        while (reply := read_message(self.process.stdout)) is not None:
            self.beats = 0
            if reply == _ALIVE:
                continue
            if is_failure(reply):
                self._group.fail(self, reply)
            self.replies.put(reply)
        self._group.lose(self, "ended")


class ProcessGroup(RankGroup):
    """Processes of this machine, and two threads for each that watch it."""

    def __init__(self, world_size: int, devices: list[str], threads: int) -> None:
        self.devices, self.threads = devices, threads
        self.address = HOST
        self._store = dist.TCPStore(HOST, 0, is_master=True, wait_for_workers=False)  # type: ignore[attr-defined]
        self.port = self._store.port
        self._owner = os.getpid()
        self._lock = new_lock()
        self._lost: str | None = None
        self._closed = threading.Event()
        self.links: list[ProcessLink] = []
        try:
            for number in range(world_size):
                self.links.append(ProcessLink(number, self))
            for link in self.links:
                self._start_thread(link.read, f"rank {link.number}")
            self._start_thread(self._watch, "ranks")
        except BaseException:
            self.close()
            raise

    def check(self) -> None:
        """Raise RankLostError if a rank was lost, or if this process is a fork."""
        if os.getpid() != self._owner:
            raise RankLostError(
                "ranks belong to the process that started them, and this is a fork of it: load the "
                "model in this process"
            )
        if self._lost is not None:
            raise RankLostError(self._lost)

    def lose(self, link: ProcessLink, how: str) -> None:
        """End all ranks because one is lost. Of several reasons the first is kept."""
        with self._lock:
            if self._closed.is_set() or self._lost is not None:
                return
            with suppress(subprocess.TimeoutExpired):
                link.process.wait(_BEATS * BEAT_SECONDS if how == "ended" else 0)
            code = link.process.poll()
            ended = "" if code is None else f" with code {code}"
            self._lost = (
                f"rank {link.number} (process {link.process.pid}) {how}{ended}, and the others "
                "cannot go on without it: load the model again; what it said is on standard error"
            )
        logger.error("%s", self._lost)
        self._end()

    def fail(self, link: ProcessLink, reply: bytes) -> None:
        """Give all callers the error of a rank, unless another rank ended before it.

        Where a rank is killed, its peers see that first, as an error of their exchange.
        """
        for other in self.links:
            if other is not link:
                with suppress(subprocess.TimeoutExpired):
                    other.process.wait(0.1)
                    self.lose(other, "ended")
        with self._lock:
            if self._lost is None:
                for other in self.links:
                    if other is not link:
                        other.replies.put(reply)

    def close(self) -> None:
        if self._owner != os.getpid():
            return
        with self._lock:
            self._closed.set()
        for link in self.links:
            with suppress(OSError):
                assert link.process.stdin is not None
                link.process.stdin.close()
        for link in self.links:
            with suppress(subprocess.TimeoutExpired):
                link.process.wait(_END_SECONDS)
        self._end()

    def _end(self) -> None:
        """Kill what still runs, and wake what waits."""
        for link in self.links:
            link.process.kill()
        for link in self.links:
            link.process.wait()
            link.replies.put(None)

    def _watch(self) -> None:
        """Look for ranks that hang."""
        while not self._closed.wait(BEAT_SECONDS) and self._lost is None:
            for link in self.links:
                if link.beats is not None:
                    link.beats += 1
                    if link.beats > _BEATS:
                        self.lose(link, "does not answer any more")

    def _start_thread(self, work: object, name: str) -> None:
        start_thread(threading.Thread(target=work, name=f"chattts {name}", daemon=True))  # type: ignore[arg-type]


def start_processes(config: EngineConfig) -> ProcessGroup:
    """Start the ranks of an engine.

    Raises:
        ConfigError: there are not so many devices.
        EngineUnavailableError: this torch cannot exchange anything between processes.
    """
    if not dist.is_available():
        raise EngineUnavailableError(
            "this build of torch has no torch.distributed, which several ranks need: install "
            "another build, or load without tensor_parallel_size and pipeline_parallel_size"
        )
    world_size = config.parallel.world_size
    device = choose_placement(config.model.device, config.model.dtype).device
    if device.type == "cpu":
        with suppress(BuildError):  # each rank says so
            library.load()  # compiled once, before the ranks look for it
        cores = max(1, int(machine.usable_cores()))
        threads = config.model.num_threads or max(1, cores // world_size)
        return ProcessGroup(world_size, ["cpu"] * world_size, threads)
    return ProcessGroup(world_size, gpus(device, world_size), config.model.num_threads or 1)


def gpus(device: torch.device, world_size: int) -> list[str]:
    """Return the devices of the ranks.

    Raises:
        ConfigError: there are not so many, or they cannot be used together.
    """
    if device.type != "cuda" or device.index is not None:
        raise ConfigError(
            f"the device {device} cannot be shared by {world_size} ranks: give device='cuda' for "
            "the first GPUs, or 'cpu'"
        )
    found = torch.cuda.device_count()
    if found < world_size:
        raise ConfigError(
            f"{world_size} ranks need as many GPUs, and {found} are here: give a smaller "
            "tensor_parallel_size or pipeline_parallel_size, or device='cpu'"
        )
    return [f"cuda:{number}" for number in range(world_size)]


def _environment() -> dict[str, str]:
    """Return the environment of a rank: it finds this package, and reaches ``HOST``."""
    folder = str(Path(ChatTTS.__file__).parent.parent)
    found = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, *_paths()])}
    if sys.platform in _LOOPBACK:
        found["GLOO_SOCKET_IFNAME"] = _LOOPBACK[sys.platform]
    return found


def _paths() -> list[str]:
    given = os.environ.get("PYTHONPATH")
    return [given] if given else []
