"""The program of a rank's process: messages come from standard input, and replies go to standard
output. It ends when the engine closes its end, and when the engine's process is gone."""

from __future__ import annotations

import os
import sys
import threading
from queue import SimpleQueue
from typing import IO

from .....utils.locks import new_lock
from .channels import BEAT_SECONDS
from .communicator import leave
from .messages import ALIVE, is_failure
from .pipes import read_message, write_mark, write_message
from .rank import Rank


class _Replies:
    """Writes replies; two threads do."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe, self._lock = pipe, new_lock()

    def write(self, reply: bytes) -> None:
        with self._lock:
            write_message(self._pipe, reply)


def main() -> None:
    """Answer messages until the engine closes its end."""
    incoming, replies = sys.stdin.buffer, _Replies(_own_output())
    messages: SimpleQueue[bytes | None] = SimpleQueue()
    threading.Thread(target=_read, args=(incoming, messages), daemon=True).start()
    threading.Thread(target=_beat, args=(replies, os.getppid()), daemon=True).start()
    rank = Rank()
    try:
        while (message := messages.get()) is not None:
            replies.write(reply := rank.answer(message))
            if is_failure(reply):
                break
    except OSError:
        os._exit(1)  # the engine is gone
    leave()


def _own_output() -> IO[bytes]:
    """Return standard output for replies alone; what a library prints goes to standard error."""
    own = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    write_mark(own)
    return own


def _read(incoming: IO[bytes], messages: SimpleQueue[bytes | None]) -> None:
    """Queue the messages; at their end, end the process, which may wait for a rank that is gone."""
    while (message := read_message(incoming)) is not None:
        messages.put(message)
    messages.put(None)
    threading.Timer(BEAT_SECONDS, os._exit, (0,)).start()


def _beat(replies: _Replies, parent: int) -> None:
    """Say that the process runs, again and again."""
    wait = threading.Event()
    while os.getppid() == parent:
        try:
            replies.write(ALIVE)
        except (OSError, ValueError):
            break
        wait.wait(BEAT_SECONDS)
    os._exit(1)
