"""A child process that uses ``Chat`` in every way at once, at random, for ``tests/test_soak.py``.

    python -m tests.support.soak_child FOLDER ENGINE SEED SECONDS

Every finished result is compared with that of a lone run. The child prints counts of its work.
"""

from __future__ import annotations

import collections
import contextlib
import faulthandler
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ChatTTS.core import Chat
from ChatTTS.errors import EngineDeadError, NotLoadedError

Sound = NDArray[np.float32]
TEXTS = ("hello the world", "water and stone", "the time is now", "a new day")
FRAMES = (6, 15, 40)
SILENCE_SECONDS = 60  # some work must end within this time, else the child hangs


class Soak:
    """The work of one process.

    Attributes:
        counts: the number of each kind of work done.
        failures: descriptions of wrong results.
    """

    def __init__(self, folder: str, engine: str, seed: int, seconds: float) -> None:
        self.folder, self.velocity = folder, engine == "velocity"
        self.seed = seed
        self.is_loading = False
        self.chat = Chat()
        self.load()
        self.expected = {
            (text, frames): self.speak(text, frames) for text in TEXTS for frames in FRAMES
        }
        self.counts: collections.Counter[str] = collections.Counter()
        self.failures: list[str] = []
        self.is_child = False
        self.deadline = time.monotonic() + seconds

    # ------------------------------------------------------------ what is done

    def load(self) -> None:
        self.is_loading = True
        try:
            self.chat.load_or_raise(
                "custom", custom_path=self.folder, device="cpu", use_vllm=self.velocity
            )
        finally:
            self.is_loading = False

    def speak(self, text: str, frames: int, interrupt: threading.Event | None = None) -> Sound:
        sounds = self.chat.infer(
            text, skip_refine_text=True, params_infer_code=_params(frames), interrupt=interrupt
        )
        sound: Sound = sounds[0]
        return sound

    def infer(self, dice: random.Random) -> None:
        key = _choice(dice)
        self.compare(key, self.speak(*key))

    def stream(self, dice: random.Random) -> None:
        key = _choice(dice)
        pieces = self.chat.stream(
            key[0], skip_refine_text=True, params_infer_code=_params(key[1]), low_latency=False
        )
        with pieces:
            joined = [piece.samples for piece in pieces]
            if pieces.finish_reason != "abort":
                self.compare(key, np.concatenate([np.empty(0, np.float32), *joined]))

    def leave_a_stream(self, dice: random.Random) -> None:
        text, frames = _choice(dice)
        chunks = self.chat.infer(
            text, stream=True, skip_refine_text=True, params_infer_code=_params(10 * frames)
        )
        for _ in range(dice.randint(0, 2)):
            next(chunks, None)
        if dice.random() < 0.5:
            chunks.close()

    def interrupt_one(self, dice: random.Random) -> None:
        text, frames = _choice(dice)
        interrupt = threading.Event()
        timer = threading.Timer(dice.random() * 0.05, interrupt.set)
        timer.start()
        sound = self.speak(text, 20 * frames, interrupt)
        timer.join()
        longest = 24_000 * 20 * frames // 40
        if len(sound) > longest:
            self.failures.append(f"{len(sound)} samples of an interrupted call")

    def fork(self, dice: random.Random) -> None:
        keys = [_choice(dice) for _ in range(2)]
        child = os.fork()
        if child == 0:
            self.in_child(keys)
        self.await_children()

    def await_children(self) -> None:
        """Wait for all children, including those whose wait Ctrl-C cut off."""
        with contextlib.suppress(ChildProcessError):
            while True:
                status = os.wait()[1]
                self.counts["child"] += 1
                if status:
                    self.failures.append(f"a child ended with {status}")

    def in_child(self, keys: list[tuple[str, int]]) -> None:
        """Speak in a forked child, which has only this thread, and exit."""
        self.is_child = True
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # A child that hangs shows where, then ends with the signal.
        faulthandler.register(signal.SIGALRM, chain=True)
        signal.alarm(SILENCE_SECONDS)
        status = 1
        try:
            if not self.chat.has_loaded():
                self.load()
            for text, frames in keys:
                self.compare((text, frames), self.speak(text, frames))
            with self.chat.stream(
                keys[0][0], skip_refine_text=True, params_infer_code=_params(keys[0][1])
            ) as pieces:
                self.compare(keys[0], np.concatenate([piece.samples for piece in pieces]))
            status = 2 if self.failures else 0
            for failure in self.failures:
                print("in a child:", failure, file=sys.stderr, flush=True)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def reload(self, dice: random.Random) -> None:
        if dice.random() < 0.5:
            self.chat.unload()
        self.load()

    def interrupt_all(self, dice: random.Random) -> None:
        self.chat.interrupt()

    # ------------------------------------------------------------ how it is done

    def compare(self, key: tuple[str, int], sound: Sound) -> None:
        """Compare a sound with that of a lone run; a call that was ended may be shorter."""
        expected = self.expected[key]
        if len(sound) == len(expected) and not np.allclose(sound, expected, atol=1e-5):
            self.failures.append(f"{key} sounds otherwise than alone")
        if len(sound) > len(expected) or (len(sound) < len(expected) and self.is_child):
            self.failures.append(f"{key} has {len(sound)} samples, not {len(expected)}")
        self.counts["whole" if len(sound) == len(expected) else "ended early"] += 1

    def once(self, work: Callable[[random.Random], None], dice: random.Random) -> None:
        """Do some work; only Ctrl-C or an unloaded model may end it early."""
        try:
            work(dice)
            self.counts[work.__name__] += 1
        except (NotLoadedError, EngineDeadError):
            self.counts["unloaded"] += 1
            time.sleep(0.05)

    def threads(self, number: int) -> None:
        dice = random.Random(f"{self.seed} {number}")
        works = [self.infer, self.infer, self.stream, self.leave_a_stream, self.interrupt_one]
        while time.monotonic() < self.deadline and not self.failures:
            try:
                self.once(dice.choice(works), dice)
            except BaseException:
                self.failures.append(traceback.format_exc())

    def main(self) -> None:
        """Run the work of the main thread, which Ctrl-C interrupts."""
        dice = random.Random(self.seed)
        works = [
            *[self.infer, self.stream, self.leave_a_stream, self.interrupt_one, self.fork] * 6,
            *[self.reload, self.interrupt_all],
        ]
        threads = [threading.Thread(target=self.threads, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        killer = threading.Thread(target=self.press_ctrl_c, daemon=True)
        killer.start()
        done = 0
        while time.monotonic() < self.deadline and not self.failures:
            try:
                if sum(self.counts.values()) != done:
                    done = sum(self.counts.values())
                    self.lives()
                self.once(dice.choice(works), dice)
                if not self.chat.has_loaded():
                    self.load()  # Ctrl-C interrupted the last load
            except KeyboardInterrupt:
                self.counts["Ctrl-C"] += 1
            except BaseException:
                self.failures.append(traceback.format_exc())
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for thread in (*threads, killer):
            self.lives()
            thread.join()
        self.lives()
        self.await_children()
        self.once(self.reload, dice)
        for text, frames in self.expected:
            self.lives()
            key = text, frames
            self.compare(key, self.speak(*key))
        self.chat.unload()

    def lives(self) -> None:
        """Reset the watchdog."""
        faulthandler.dump_traceback_later(SILENCE_SECONDS, exit=True)

    def press_ctrl_c(self) -> None:
        dice = random.Random(f"{self.seed} ctrl-c")
        while time.monotonic() < self.deadline:
            time.sleep(dice.expovariate(4))
            # Loading takes long: with Ctrl-C as often, it would never end.
            if not self.is_loading or dice.random() < 0.02:
                os.kill(os.getpid(), signal.SIGINT)


def _choice(dice: random.Random) -> tuple[str, int]:
    return dice.choice(TEXTS), dice.choice(FRAMES)


def _params(frames: int) -> dict[str, object]:
    return {"max_new_token": frames, "min_new_token": frames, "manual_seed": 1, "show_tqdm": True}


if __name__ == "__main__":
    folder, engine, seed, seconds = sys.argv[1:]
    # A Ctrl-C that falls into a finalizer is reported by Python, and lost.
    sys.unraisablehook = lambda failed: None
    soak = Soak(folder, engine, int(seed), float(seconds))
    with contextlib.suppress(KeyboardInterrupt):
        soak.main()
    print(dict(sorted(soak.counts.items())), sum(soak.counts.values()))
    for failure in soak.failures[:3]:
        print(failure, file=sys.stderr)
    sys.exit(bool(soak.failures))
