"""The stage ``all``: everything within so many minutes, on a machine that may be wiped afterwards.

The teacher speaks and the codec codes in two processes of their own while this one trains, with
what speech there is by then. Codec and vocoder are trained only where neither a state nor a known
checkpoint has them: codes stay good as long as the codec stays. All processes yield to other work
on the machine.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context, parent_process

import torch

from .run import Run
from .stages import STAGES, run_stage
from .takes import Takes
from .training import Budget

logger = logging.getLogger(__name__)

_NICENESS = 19
_FIRST_SECONDS = 600.0  # of speech before codec and vocoder begin
_LOOK_SECONDS = 15.0
_SOUND = ("codec", "vocoder")


def main(run: Run) -> None:
    """Train, export and recite within the minutes of the run's budgets."""
    os.nice(max(0, _NICENESS - os.nice(0)))
    minutes = run.budgets["all"].minutes
    assert minutes is not None
    with in_background(run, "lines", "speech"):
        trained = _SOUND if run.known is None else ()
        if trained:
            _wait_for_speech(run)
        chosen = [*trained, "gpt", "decoder"]
        shares = sum(STAGES[name].share for name in chosen)
        budgets = {name: Budget(minutes=minutes * STAGES[name].share / shares) for name in chosen}
        timed = replace(run, budgets=budgets)
        for name in trained:
            run_stage(name, timed)
        with in_background(run, "codes"):
            run_stage("gpt", timed)
        for name in ("decoder", "export", "recite"):
            run_stage(name, timed)


@contextmanager
def in_background(run: Run, *stages: str) -> Iterator[None]:
    """Run stages one after the other in another process, until the block is left.

    The process belongs to the group of this one, and ends with it.
    """
    process = get_context("spawn").Process(target=_run_all, args=(stages, run), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def _run_all(stages: tuple[str, ...], run: Run) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(1)
    for name in stages:
        run_stage(name, run)


def _end_with_parent() -> None:
    """End this process when the one that started it is gone, also where that was killed."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _wait_for_speech(run: Run) -> None:
    while (seconds := Takes(run.speech).seconds) < _FIRST_SECONDS:
        logger.info("all: %.0f s of speech; waiting for %.0f", seconds, _FIRST_SECONDS)
        time.sleep(_LOOK_SECONDS)
