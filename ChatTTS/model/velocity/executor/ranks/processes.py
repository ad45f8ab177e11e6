"""Ranks as processes of this machine.

Each is a program of its own, so scripts need no ``__main__`` guard, and notebooks work. A rank that
ends closes its pipe, and one that hangs gives no sign of life. In both cases all ranks are ended,
since the others may wait for the lost one for ever.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

import torch
import torch.distributed as dist

import ChatTTS

from .....errors import ConfigError, EngineUnavailableError
from .....utils import machine
from .....utils.locks import new_lock
from .....utils.process_hooks import start_thread
from ....devices.placement import choose_placement
from ....kernels.cpu import library
from ....kernels.cpu.build import BuildError
from ...configs import EngineConfig
from .channels import BEAT_SECONDS, BEATS, START_BEATS, RankChannel, RankGroup, RankLostError
from .communicator import open_store
from .messages import ALIVE, is_failure
from .pipes import read_mark, read_message, write_message

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
# It imports what this process would import, and nothing from the folder where it is started.
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); "
    "from ChatTTS.model.velocity.executor.ranks.program import main; main()"
)
_END_SECONDS = 3.0
# How long after the error of a rank another one that was killed before is noticed.
_PEERS_SECONDS, _POLL_SECONDS = 0.1, 0.005


class ProcessChannel(RankChannel):
    """The way to a process.

    Attributes:
        beats: beats of this process since the last sign of life, negative before the first one.
        has_failed: whether an error of the rank was told, after which it ends by itself.
    """

    def __init__(self, number: int, group: ProcessGroup) -> None:
        self.number, self._group = number, group
        self.beats, self.has_failed = -START_BEATS, False
        self.replies: SimpleQueue[bytes | None] = SimpleQueue()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, json.dumps(_paths())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
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
        with self.process.stdout as pipe:
            if printed := read_mark(pipe):
                logger.info("rank %d printed %s", self.number, printed.decode(errors="replace"))
            while (reply := read_message(pipe)) is not None:
                self.beats = 0
                if is_failure(reply):
                    self._group.fail(self, reply)
                    return
                if reply != ALIVE:
                    self.replies.put(reply)
        self._group.lose(self, "ended")


class ProcessGroup(RankGroup):
    """Processes of this machine, and two threads for each that watch it."""

    def __init__(self, devices: list[str], threads: int) -> None:
        super().__init__(devices, threads)
        self.address = HOST
        self._lock = new_lock()
        self._closed = threading.Event()
        self.channels: list[ProcessChannel] = []
        try:
            self._store, self.port = open_store(HOST)
            for number in range(len(devices)):
                channel = ProcessChannel(number, self)
                self.channels.append(channel)
                self._start_thread(channel.read, f"rank {number}")
            self._start_thread(self._watch, "ranks")
        except OSError as error:
            self.close()
            raise EngineUnavailableError(
                f"the system does not start {len(devices)} ranks ({error}): raise its limits of "
                "processes and files, or give smaller sizes"
            ) from error
        except BaseException:
            self.close()
            raise

    def lose(self, channel: ProcessChannel, how: str) -> None:
        """End all ranks because one is lost. Of several reasons the first is kept."""
        with self._lock:
            if self._closed.is_set() or self._lost is not None:
                return
            with suppress(subprocess.TimeoutExpired):
                channel.process.wait(BEATS * BEAT_SECONDS if how == "ended" else 0)
            code = channel.process.poll()
            ended = "" if code is None else f" with code {code}"
            self._lost = (
                f"rank {channel.number} (process {channel.process.pid}) {how}{ended}, and the "
                "others cannot go on without it: load the model again; what it said is on standard "
                "error"
            )
        logger.error("%s", self._lost)
        self._end()

    def fail(self, channel: ProcessChannel, reply: bytes) -> None:
        """End all ranks and give all callers the error of one, unless another ended before it.

        Where a rank is killed, its peers see that first, as an error of their exchange.
        """
        channel.has_failed = True
        deadline = time.monotonic() + _PEERS_SECONDS
        while time.monotonic() < deadline:
            for other in self.channels:
                if not other.has_failed and other.process.poll() is not None:
                    return self.lose(other, "ended")
            time.sleep(_POLL_SECONDS)
        with self._lock:
            if self._closed.is_set() or self._lost is not None:
                return None
            self._lost = f"an error ended rank {channel.number}: load the model again"
            for each in self.channels:
                each.replies.put(reply)
        return self._end()

    def close(self) -> None:
        if self._owner != os.getpid():
            return
        with self._lock:
            self._closed.set()
        for channel in self.channels:
            if channel.beats < 0:  # it still starts, and would not notice soon
                channel.process.kill()
            with suppress(OSError):
                assert channel.process.stdin is not None
                channel.process.stdin.close()
        deadline = time.monotonic() + _END_SECONDS
        for channel in self.channels:
            with suppress(subprocess.TimeoutExpired):
                channel.process.wait(max(0.0, deadline - time.monotonic()))
        self._end()

    def _end(self) -> None:
        """Kill what still runs, wake what waits, and free the port."""
        for channel in self.channels:
            channel.process.kill()
        for channel in self.channels:
            channel.replies.put(None)
        for channel in self.channels:
            channel.process.wait()
        self._store = None

    def _watch(self) -> None:
        """Look for ranks that hang, and for a user that was dropped without an end."""
        while not self._closed.wait(BEAT_SECONDS) and self._lost is None:
            if self.user is not None and self.user() is None:
                self.close()
                return
            for channel in self.channels:
                channel.beats += 1
                if channel.beats > BEATS:
                    self.lose(channel, "does not answer any more")

    def _start_thread(self, work: Callable[[], None], name: str) -> None:
        start_thread(threading.Thread(target=work, name=f"chattts {name}", daemon=True))


def start_processes(config: EngineConfig) -> ProcessGroup:
    """Start the ranks of an engine.

    Raises:
        ConfigError: there are too few devices.
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
        return ProcessGroup(["cpu"] * world_size, threads)
    return ProcessGroup(gpus(device, world_size), config.model.num_threads or 1)


def gpus(device: torch.device, world_size: int) -> list[str]:
    """Return the devices of the ranks.

    Raises:
        ConfigError: there are too few, or they cannot be used together.
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


def _paths() -> list[str]:
    """Return the folders that this process imports from, and that of this package."""
    return [*map(str, sys.path), str(Path(ChatTTS.__file__).parent.parent)]
