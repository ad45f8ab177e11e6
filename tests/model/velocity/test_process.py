"""An engine in a process that forks, ends or is interrupted, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ...support.places import ROOT

PREAMBLE = """
import atexit, os, signal, threading, time
late = []  # called last, since it is the first to be registered
atexit.register(lambda: [call() for call in late])
from tests.support.velocity_fakes import *
from tests.support.waiting import *
engine, executor = make_async()

def stream(*requests):
    joined = Joined()
    for outputs in engine.stream(requests):
        joined.take(outputs)
    return joined
"""


def run_script(code: str) -> str:
    """Return what a script prints; it must succeed, in time, with nothing on standard error."""
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


@needs_fork
@pytest.mark.slow
def test_a_forked_child_begins_anew_and_the_parent_goes_on() -> None:
    printed = run_script("""
request, more = make_request(1, n=2, min_new=80), make_request(2)
executor.pause = 0.001
wait = in_thread(lambda: stream(request))
items = engine.stream([more])
first = next(items)
executor.hold()  # in the middle of a step
child = os.fork()
if child == 0:
    executor.let_go()
    try:
        next(items)
    except Exception as error:
        print(type(error).__name__, error)
    assert engine.metrics().used_blocks == 0
    stream(request).check(request)
    stream(more).check(more)
    wait_until(lambda: not engine_threads())
    print("the child is done", flush=True)
    engine.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
executor.let_go()
wait().check(request)
joined = Joined()
joined.take(first)
for outputs in items:
    joined.take(outputs)
joined.check(more)
print("the parent is done")
""")
    error, child, parent = printed.splitlines()
    assert error.startswith("EngineDeadError")
    assert "forked" in error
    assert (child, parent) == ("the child is done", "the parent is done")


@pytest.mark.slow
@needs_fork
def test_a_child_forked_while_the_lock_is_held() -> None:
    printed = run_script("""
with engine._lock:
    child = os.fork()
    if child == 0:
        request = make_request(1)
        stream(request).check(request)
        print("done", flush=True)
        os._exit(0)
assert os.waitpid(child, 0)[1] == 0
""")
    assert printed == "done\n"


@pytest.mark.slow
@pytest.mark.parametrize("consumer", ["main", "daemon thread"])
def test_the_interpreter_ends_in_mid_generation(consumer: str) -> None:
    begin = {
        "main": "items = engine.stream([endless()]); next(items)",
        "daemon thread": "in_thread(lambda: stream(endless()))",
    }[consumer]
    end = "late.append(lambda: print(executor.is_closed, engine_threads()))"
    code = f"executor.pause = 0.01\n{begin}\nwait_until(lambda: executor.steps > 2)\n{end}"
    assert run_script(code) == "True []\n"


@pytest.mark.slow
def test_ctrl_c_ends_the_call_in_the_main_thread_alone() -> None:
    printed = run_script("""
executor.pause = 0.002
other = make_request(1, min_new=100)
wait = in_thread(lambda: stream(other))
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    while True:
        stream(endless(2), endless(3))
except KeyboardInterrupt:
    print("interrupted")
wait().check(other)
wait_until(lambda: not engine_threads())
assert engine.metrics().used_blocks == 0
again = make_request(4)
stream(again).check(again)
print("goes on")
""")
    assert printed == "interrupted\ngoes on\n"
