"""The model's process, as the front starts and ends it."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import ChatTTS

from ....errors import EngineUnavailableError
from ..messages import Failed
from ..pool import Facts
from .plain_data import WireError
from .wire import CONNECTION, Start, encode, receive

PROGRAM = "ChatTTS.serving.replicas.model_process.program"
# It imports what this process would import, and nothing from the folder where it is started.
_CODE = (
    "import json, sys; from importlib import import_module; "
    "sys.path[:] = json.loads(sys.argv.pop()); import_module(sys.argv.pop()).main()"
)
_END_SECONDS = 10.0  # the process ends by itself within half of that


class ModelProcess:
    """A process that loads a model and answers calls through a socket.

    Args:
        start: what it loads.
        program: the module whose ``main`` it runs.

    Attributes:
        name: of the process, in its answers.
        end: the front's end of the pair of sockets.

    Raises:
        EngineUnavailableError: the system does not start it.
    """

    def __init__(self, start: Start, program: str = PROGRAM) -> None:
        self.name = start.name
        self.end, theirs = socket.socketpair()
        paths = json.dumps([*sys.path, str(Path(ChatTTS.__file__).parent.parent)])
        with theirs:
            number = theirs.fileno()
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _CODE, str(number), program, paths],
                    pass_fds=(number,),
                    stdin=subprocess.DEVNULL,
                    stdout=2,  # what a library prints belongs to the log
                    # Signals of a terminal are for the front, also before the program runs.
                    start_new_session=True,
                )
            except OSError as error:
                self.end.close()
                raise EngineUnavailableError(
                    f"the system does not start the model's process ({error}): raise its limits of "
                    "processes and files, or give --no-model-process"
                ) from error
        with contextlib.suppress(OSError):  # it has ended already, which `facts` tells
            self.end.sendall(encode(CONNECTION, start))

    @property
    def number(self) -> int:
        """The system's number of the process."""
        return self._process.pid

    def facts(self) -> Facts:
        """Wait until the model is loaded; return what the front must know.

        Raises:
            ChatTTSError: the model cannot be loaded; this is the error of the process.
            EngineUnavailableError: the process has ended.
        """
        try:
            told = receive(self.end)
        except (OSError, WireError):
            told = None
        if isinstance(told, Facts):
            return told
        self.close()
        if isinstance(told, Failed):
            raise told.error()
        raise EngineUnavailableError(
            f"the model's process {self.wait()} before it had loaded the model: look for its "
            "last lines in the log, and whether there is enough memory"
        )

    def wait(self) -> str:
        """Wait for the end of the process; return how it ended, in words."""
        status = self._process.wait()
        if status >= 0:
            return f"ended with status {status}"
        try:
            return f"was ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"was ended by signal {-status}"

    def kill(self) -> None:
        """End the process at once, also one that hangs."""
        self._process.kill()

    def close(self) -> None:
        """Close the socket, by which the process ends, and wait; any thread may call it."""
        with contextlib.suppress(OSError):  # it is closed already
            self.end.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self.end.close()
