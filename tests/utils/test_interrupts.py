"""Ctrl-C at every instruction: no lock stays taken, and the next calls work."""

from __future__ import annotations

import ast
import threading

import pytest

from ChatTTS.errors import OutOfThreadsError
from ChatTTS.utils import process_hooks
from ChatTTS.utils.lru import LRU

from ..support.places import ROOT
from ..support.watchdog_tools import run_watched

# A Ctrl-C that falls into a finalizer is reported by Python, and lost.
PREAMBLE = """
import sys, threading
sys.unraisablehook = lambda failed: None
from tests.support.interrupt_tools import at_every_instruction
"""

LOCKS = """
from ChatTTS.utils.locks import ChangeNotifier, WakeSignal, new_lock, new_rlock
from ChatTTS.utils.lru import LRU
from ChatTTS.utils.fair_lock import FairLock

for lock in (new_lock(), new_rlock()):
    def enter():
        with lock:
            return len("entered")
    assert at_every_instruction(enter, enter) > 5

compute_lock = FairLock()
assert at_every_instruction(
    lambda: compute_lock.run(lambda: len("mine")), lambda: compute_lock.run(lambda: True)
) > 20

lock, notifier = new_lock(), ChangeNotifier()
def notify():
    signal = WakeSignal()
    with lock:
        notifier.subscribe(signal)
    with lock:
        notifier.notify()
    assert signal.wait(10)
    return True
assert at_every_instruction(notify, notify) > 20

cache = LRU(3, len)
def keep():
    for value in ("a", "bb", "c", "dd"):
        cache.put(value, value)
    assert cache.get("dd") == "dd"
    counts = cache.counts
    assert counts.weight == 3 and counts.size == 2, counts
    return True
assert at_every_instruction(keep, keep) > 100
"""

ENGINE = """
from tests.support.velocity_fakes import *
from tests.support.waiting import *
engine, executor = make_async()

def speak():
    # A first output, one amid others, and a last one.
    request, joined = make_request(1, min_new=3, max_new=3), Joined()
    for outputs in engine.stream([request]):
        joined.take(outputs)
    joined.check(request)
    return True

first, step = map(int, sys.argv[1:])
assert at_every_instruction(speak, speak, first, step) > 1000 / step
wait_until(lambda: not any(thread.is_alive() for thread in engine_threads()))
speak()
metrics = engine.metrics()
assert (metrics.running, metrics.waiting, metrics.used_blocks) == (0, 0, 0)
assert not engine._tracker.unfinished() and not engine._tracker._open
"""

MIXING = """
from tests.pipeline.test_assembly import *
from ChatTTS.utils.fair_lock import FairLock
from ChatTTS.params import InferCodeParams
from ChatTTS.pipeline.stream_generation import GenerationThread
from ChatTTS.pipeline.streams import SpeechStream
from ChatTTS.model.generation import Cancellation

worker, utterance = DecodeWorker(FairLock()), Utterance(0, 0, "a")
params = InferCodeParams(ensure_non_empty=False)

def decoder(utterance, playback):
    return UtteranceDecoder(SYNTHESIZER, FixedSize(1, 2 * HOP))

def updates():
    return [update(utterance, 0, 2, None), update(utterance, 2, 2, FinishReason.STOP)]

def whole():
    assembler = WaveformAssembler(worker, [utterance], 1, decoder, waits_for_consumer=False)
    try:
        for part in updates():
            assembler.push(part)
        assembler.wait(lambda: assembler.is_complete or None)
    finally:
        assembler.leave()
    np.testing.assert_array_equal(assembler.waveforms()[0], sounds(utterance, 4))
    return True

def in_pieces():
    assembler = WaveformAssembler(worker, [utterance], 1, decoder, waits_for_consumer=True)
    thread = GenerationThread(iter(updates()), assembler, Cancellation())
    with SpeechStream(thread, params) as pieces:
        joined = np.concatenate([piece.samples for piece in pieces])
    np.testing.assert_array_equal(joined, sounds(utterance, 4))
    return True

first, step = map(int, sys.argv[1:])
for work in (whole, in_pieces):
    assert at_every_instruction(work, work, first, step) > 1000 / step
"""

RUNS = """
from ChatTTS.params import InferCodeParams
from ChatTTS.pipeline.decode.worker import DecodeWorker
from ChatTTS.pipeline.streams import SpeechStream
from ChatTTS.utils.fair_lock import FairLock
from tests.support.pushed_tools import *

worker = DecodeWorker(FairLock())

def new_run():
    return run_of(PushingFake(pushes_at_once=True), worker=worker)

runs = [new_run()]

def begin():
    if runs[-1].has_begun:  # before the first interrupt
        runs.append(new_run())
    runs[-1].begin()

def read():
    # The run whose beginning was interrupted begins again here.
    with SpeechStream(runs.pop(), InferCodeParams(ensure_non_empty=False)) as pieces:
        joined = np.concatenate([piece.samples for piece in pieces])
    np.testing.assert_array_equal(joined, sound_of(4))
    runs.append(new_run())
    return True

first, step = map(int, sys.argv[1:])
assert at_every_instruction(begin, read, first, step) > 300 / step
"""

PLAYING = """
from types import SimpleNamespace
import numpy as np
from ChatTTS.audio.playback import _PlaybackQueue

def play():
    queue = _PlaybackQueue(SimpleNamespace(rate=100, name="none"), StopIteration)
    out = np.zeros((40, 1), dtype=np.float32)

    def device():
        try:
            while not queue.is_closed:
                queue.fill(out, 40, None, SimpleNamespace(output_underflow=False))
        except StopIteration:
            queue.end()

    thread = threading.Thread(target=device, daemon=True)
    try:
        thread.start()
        for _ in range(3):
            queue.put(np.ones(30, dtype=np.float32))
        queue.finish(np.ones(1, dtype=np.float32))
    finally:
        queue.close()
    return True

first, step = map(int, sys.argv[1:])
assert at_every_instruction(play, play, first, step) > 300 / step
"""


@pytest.mark.slow
def test_locks_turns_and_caches() -> None:
    run_watched(PREAMBLE + LOCKS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "code", [ENGINE, MIXING, RUNS, PLAYING], ids=["engine", "assembly", "runs", "playing"]
)
def test_what_threads_share(code: str) -> None:
    run_watched(PREAMBLE + code, "3", "131")


@pytest.mark.slow
@pytest.mark.parametrize("first", [1, pytest.param(2, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "code", [ENGINE, MIXING, RUNS, PLAYING], ids=["engine", "assembly", "runs", "playing"]
)
def test_what_threads_share_at_every_instruction(code: str, first: int) -> None:
    run_watched(PREAMBLE + code, str(first), "2", seconds=600)


def test_an_interrupt_while_a_thread_starts_is_no_lack_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(self: threading.Thread) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("release unlocked lock")  # as Event.wait does

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        process_hooks.start_thread(threading.Thread())


def test_a_lack_of_threads_while_an_interrupt_is_handled_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with pytest.raises(OutOfThreadsError, match="'one' cannot be started"):
            process_hooks.start_thread(threading.Thread(name="one"))


def test_a_cache_whose_values_were_dropped_in_mid_work_goes_on() -> None:
    cache: LRU[str, str] = LRU(2, len)
    cache.put("a", "aa")
    cache._entries.pop("a")  # the interrupt came here
    for value in ("b", "cc", "d"):
        cache.put(value, value)
    assert (cache.counts.size, cache.counts.weight) == (1, 1)


# ---------------------------------------------------------------- the rules of utils/locks.py

# Names of `threading` that lock in Python code, or are not renewed in a forked child.
UNSAFE = {"Condition", "Semaphore", "BoundedSemaphore", "Barrier", "Lock", "RLock"}
# The lock modules; locks that only one thread uses; locks that their owners renew.
ALLOWED = {"utils/locks.py", "utils/process_hooks.py", "utils/fair_lock.py"}


@pytest.mark.slow
def test_all_locks_are_safe_for_signals_and_forks() -> None:
    package = ROOT / "ChatTTS"
    made = {
        f"{path.relative_to(package)}: {node.func.attr}"
        for path in package.rglob("*.py")
        if path.relative_to(package).as_posix() not in ALLOWED
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "threading"
        and node.func.attr in UNSAFE
    }
    assert made == set()
