"""Forks while other threads hold locks, exits during calls, and threads that cannot start."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from numpy.typing import NDArray

from ChatTTS.core import Chat
from ChatTTS.errors import OutOfThreadsError
from ChatTTS.pipeline.streams import SpeechStream

from ..support.places import DATA
from ..support.waiting import wait_until
from ..support.watchdog_tools import run_watched

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")

LOADED = """
import os, signal, sys, threading, time
import ChatTTS
chat = ChatTTS.Chat()
velocity = sys.argv[2] == "velocity"
chat.load_or_raise("custom", custom_path=sys.argv[1], device="cpu", use_vllm=velocity)
params = dict(max_new_token=12, min_new_token=12, manual_seed=1)
def speak(**changed):
    return chat.infer("hello the world", skip_refine_text=True, params_infer_code=params | changed)
"""
MODEL = str(DATA / "model-a")


@needs_fork
@pytest.mark.parametrize("engine", ["standard", "velocity"])
@pytest.mark.slow
def test_a_child_speaks_whatever_lock_was_held_when_it_was_forked(engine: str) -> None:
    printed = run_watched(
        LOADED
        + """
from tqdm import tqdm
from ChatTTS.utils import locks
first = speak()[0]
chat.normalizer("It is 3:30.", lang="en")
def checked():
    signal.alarm(30)
    assert (speak()[0] == first).all()
    streamed = chat.stream("hello the world", skip_refine_text=True, params_infer_code=params)
    assert sum(len(piece.samples) for piece in streamed) == len(first)
    chat.normalizer("It is 3:30.", lang="en")
    chat.interrupt()
    chat.unload()

held = [*locks._LOCKS, tqdm.get_lock()]
for lock in held:
    has, may_go = threading.Event(), threading.Event()
    def hold():
        lock.acquire()
        has.set()
        may_go.wait()
        lock.release()
    thread = threading.Thread(target=hold)
    thread.start()
    has.wait()
    child = os.fork()
    if child == 0:
        checked()
        os._exit(0)
    may_go.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
assert (speak()[0] == first).all()
print(len(held))
""",
        MODEL,
        engine,
        seconds=120,
    )
    assert int(printed) >= 8


@pytest.mark.slow
@needs_fork
@pytest.mark.parametrize("engine", ["standard", "velocity"])
def test_a_child_may_load_anew_whatever_became_of_the_parents_threads(engine: str) -> None:
    """A team of OpenMP's threads stays in the parent, and waiting for it would never end."""
    run_watched(
        """
import os, signal, sys
import torch
import ChatTTS
def load():
    chat = ChatTTS.Chat()
    given = dict(custom_path=sys.argv[1], device="cpu", use_vllm=sys.argv[2] == "velocity")
    chat.load_or_raise("custom", num_threads=2, **given)
    return chat
chat = load()
numbers = torch.ones(1 << 20)
numbers.exp()
for _ in range(2):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        load()
        numbers.exp()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    chat.unload()
    del chat
    chat = load()
assert torch.get_num_threads() == 2
""",
        MODEL,
        engine,
    )


@pytest.mark.slow
@needs_fork
def test_a_fork_waits_for_running_work_while_other_threads_queue() -> None:
    run_watched("""
import os, signal, threading, time
from ChatTTS.utils.fair_lock import FairLock
lock, inside, running, over = FairLock(), threading.Event(), [], []
def work():
    running.append(1)
    inside.set()
    time.sleep(0.01)
    running.clear()
def work_on():
    while not over:
        lock.run(work)
threads = [threading.Thread(target=work_on) for _ in range(3)]
for thread in threads:
    thread.start()
inside.wait()
for _ in range(20):
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        os._exit(len(running) + lock.run(lambda: 0))
    assert os.waitpid(child, 0)[1] == 0
over.append(1)
for thread in threads:
    thread.join()
lock.run(lambda: 0)
""")


@pytest.mark.slow
@needs_fork
def test_a_signal_handler_may_fork_during_work_and_while_it_waits() -> None:
    run_watched("""
import os, signal, threading, time
from ChatTTS.utils.fair_lock import FairLock
lock, inside, children = FairLock(), threading.Event(), []
def fork(*_):
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        os._exit(lock.run(lambda: 0))
    children.append(child)
def work():
    inside.set()
    time.sleep(0.2)
signal.signal(signal.SIGALRM, fork)
signal.setitimer(signal.ITIMER_REAL, 0.05)
lock.run(work)
thread = threading.Thread(target=lock.run, args=(work,))
inside.clear()
thread.start()
inside.wait()
signal.setitimer(signal.ITIMER_REAL, 0.05)
lock.run(lambda: 0)
thread.join()
assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
lock.run(lambda: 0)
""")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs Linux")
def test_a_fork_waits_for_the_end_of_threads_that_worked() -> None:
    # Python does not list threads that _thread starts, just as it does not list those that end.
    run_watched("""
import _thread, os, threading, time
from ChatTTS.utils.fair_lock import FairLock
lock, worked, ended = FairLock(), threading.Event(), []
def work_and_linger():
    lock.run(worked.set)
    time.sleep(0.3)
    ended.append(1)
_thread.start_new_thread(work_and_linger, ())
worked.wait()
child = os.fork()
if child == 0:
    os._exit(0 if ended else 1)
assert os.waitpid(child, 0)[1] == 0
""")


# The state of a daemon thread at the interpreter's end depends on the time; several are tried.
ENDING = """
children = []
for delay in (0.0, 0.01, 0.03):
    children.append(os.fork())
    if children[-1]:
        continue
    signal.alarm(100)
    def work():
        while True:
            speak(max_new_token=100, min_new_token=100)
    for _ in range(2):
        threading.Thread(target=work, daemon=True).start()
    time.sleep(delay)
    sys.exit(7)
for child in children:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print("ended", end="")
"""


@needs_fork
@pytest.mark.parametrize("engine", ["standard", "velocity"])
@pytest.mark.slow
def test_daemon_threads_that_speak_do_not_change_the_exit_status(engine: str) -> None:
    assert run_watched(LOADED + ENDING, MODEL, engine, seconds=120, by_alarm=True) == "ended"


@pytest.mark.parametrize("name", ["speech", "decoding", "velocity"])
def test_a_thread_that_cannot_start_is_one_callers_error(
    small: Chat, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if name == ("speech" if small.gpt.batches_itself else "velocity"):
        pytest.skip("a stream of this engine has no such thread")
    params = {"max_new_token": 12, "min_new_token": 12, "manual_seed": 1}

    def stream() -> SpeechStream:
        return small.stream("hello the world", skip_refine_text=True, params_infer_code=params)

    def joined(pieces: SpeechStream) -> NDArray[np.float32]:
        return np.concatenate([piece.samples for piece in pieces])

    start = threading.Thread.start

    def refused(self: threading.Thread) -> None:
        if self.name == name:
            raise RuntimeError("can't start new thread")
        start(self)

    expected, pieces = joined(stream()), stream()
    wait_until(lambda: not any(t.name == name for t in threading.enumerate()))
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        with pytest.raises(OutOfThreadsError, match=name):
            next(pieces)
        if name != "speech":
            with pytest.raises(OutOfThreadsError, match=name):
                small.infer("hello", skip_refine_text=True, params_infer_code=params)
    # torch rounds differently by how many frames are decoded together, which depends on the time.
    bound = 0 if small.gpt.batches_itself else 1e-5
    if name == "speech":
        np.testing.assert_allclose(joined(pieces), expected, rtol=0, atol=bound)
    np.testing.assert_allclose(joined(stream()), expected, rtol=0, atol=bound)
