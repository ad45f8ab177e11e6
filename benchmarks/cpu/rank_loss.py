"""Measure how long after the loss of a rank its callers get their error.

    python -m benchmarks.cpu.rank_loss --rounds 5

Two ranks on this machine compute the bundled voice, and two threads listen to long streams. Once
both have heard something, a rank is killed (SIGKILL) or stopped (SIGSTOP). The time from then until
a thread gets its error is taken for both threads. Each round loads the model again.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import threading
import time

from ChatTTS.core import Chat
from ChatTTS.errors import EngineDeadError
from ChatTTS.model.velocity.executor.ranks.executor import RanksExecutor
from ChatTTS.model.velocity.executor.ranks.processes import ProcessGroup
from ChatTTS.model.velocity.generator import VelocityGenerator

_TEXT = "We walk along the river, and then we walk back home again. " * 20
_CALLERS = 2
_PATIENCE = 120.0


def rank_pids(chat: Chat) -> list[int]:
    """Return the processes of the ranks of a loaded chat."""
    generator = chat._loaded.gpt.engine
    assert isinstance(generator, VelocityGenerator)
    executor = generator.engine.engine.executor
    assert isinstance(executor, RanksExecutor)
    group = executor._group
    assert isinstance(group, ProcessGroup)
    return [link.process.pid for link in group.links]


def seconds_to_errors(how: signal.Signals, rank: int) -> list[float]:
    """Return the seconds from a signal to the error of each caller."""
    chat = Chat()
    chat.load_or_raise(
        "bundled", device="cpu", use_vllm=True, num_threads=1, tensor_parallel_size=2
    )
    began = threading.Barrier(_CALLERS + 1)
    ends: list[float] = []

    def listen() -> None:
        pieces = iter(
            chat.stream(_TEXT, skip_refine_text=True, params_infer_code={"manual_seed": 1})
        )
        next(pieces)
        began.wait(_PATIENCE)
        try:
            for _ in pieces:
                pass
        except EngineDeadError:
            ends.append(time.perf_counter())

    threads = [threading.Thread(target=listen) for _ in range(_CALLERS)]
    for thread in threads:
        thread.start()
    began.wait(_PATIENCE)
    pid = rank_pids(chat)[rank]
    begin = time.perf_counter()
    os.kill(pid, how)
    for thread in threads:
        thread.join(_PATIENCE)
    chat.unload()
    if len(ends) != _CALLERS:
        raise SystemExit(f"{_CALLERS - len(ends)} callers got no error")
    return [end - begin for end in ends]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    for how in (signal.SIGKILL, signal.SIGSTOP):
        found = [each for number in range(rounds) for each in seconds_to_errors(how, number % 2)]
        print(
            f"{how.name}: {rounds} rounds, {len(found)} callers: error after {min(found):.2f} to "
            f"{max(found):.2f} s, {statistics.median(found):.2f} s in the median",
            flush=True,
        )


if __name__ == "__main__":
    main()
