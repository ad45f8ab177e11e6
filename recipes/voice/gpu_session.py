"""The stage ``gpu``: everything within so many minutes of a GPU.

A GPU trains small networks about as fast three at a time as one at a time, so stages overlap:

- The teacher speaks, on the GPU too, and codec and vocoder begin with its first speech.
- When the codec is finished, all speech is coded several times with other tags and pauses, and the
  language model learns from it. The vocoder goes on meanwhile.
- The Decoder is last, and the vocoder learns with it.

With the weights of a known checkpoint, codec and vocoder stay as they are, and the Decoder follows
alone. The language model begins at once where there are codes from before, and reads the new ones
as they come.

Each stage is a process with a time at which it must end. ``export`` and ``recite`` are left to
another machine; so is judging.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event

import torch

from ChatTTS.errors import ChatTTSError

from .checkpoints import checksum
from .coded import PLACES_FILE, code_shards, write_space
from .corpus import Plan, read_lines
from .fast_corpus import speak
from .fast_teacher import FastTeacher
from .fast_weights import VOICES_FILE, WEIGHTS_FILE
from .frozen import frozen_codec
from .run import Run
from .stages import run_stage
from .styles import StyleSpace
from .training import Budget, use_fast_products

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Times:
    """When each stage ends, as shares of the whole time."""

    spoken: float
    codec: float
    coded: float
    vocoder: float
    gpt: float
    decoder: float = 0.985


FROM_NOTHING = Times(spoken=0.13, codec=0.25, coded=0.32, vocoder=0.48, gpt=0.81)
FROM_KNOWN = Times(spoken=0.3, codec=0.0, coded=0.4, vocoder=0.0, gpt=0.78)
_FIRST_SHARDS = 24  # of speech before codec and vocoder begin
_VARIANTS = 4  # arrangements of each take
_CODERS = 6  # processes that arrange and code
_WORKERS = 4  # processes that prepare the batches of a stage
_AT_ONCE = 4  # shards that a process codes before it looks at the time
_LOOK_SECONDS = 0.5
_ENDING_SECONDS = 6.0  # between the end of a training and that of its process


def main(run: Run) -> None:
    """Speak, train and code within the minutes of the run's budget.

    Raises:
        ChatTTSError: a stage failed.
    """
    minutes = run.budgets["gpu"].minutes
    assert minutes is not None
    begin = time.time()
    run = replace(run, workers=run.workers or _WORKERS)

    def at(share: float) -> float:
        return begin + 60 * minutes * share

    times = FROM_NOTHING if run.known is None else FROM_KNOWN
    spoken = torch.multiprocessing.get_context("spawn").Event()
    teacher = _started("teacher", _speak, run, at(times.spoken))
    running = []
    if run.known is None:
        while len(list(run.speech.glob("[0-9]*.json"))) < min(_FIRST_SHARDS, run.shards):
            _check(teacher)
            time.sleep(_LOOK_SECONDS)
        codec = _started("codec", _train, run, "codec", at(times.codec))
        running.append(_started("vocoder", _train, run, "vocoder", at(times.vocoder)))
        _finish(codec)
        _finish(teacher)
    coders = [
        _started(f"coder-{n}", _code, run, n, spoken, at(times.coded)) for n in range(_CODERS)
    ]
    if run.known is not None:
        running.append(_started("gpt", _train, run, "gpt", at(times.gpt)))
        _finish(teacher)
    spoken.set()
    for coder in coders:
        _finish(coder)
    if run.known is None:
        running.append(_started("gpt", _train, run, "gpt", at(times.gpt)))
    for process in running:
        _finish(process)
    _finish(_started("decoder", _train, run, "decoder", at(times.decoder)))


def _started(name: str, work: Callable[..., None], *given: object) -> BaseProcess:
    context = torch.multiprocessing.get_context("spawn")
    process: BaseProcess = context.Process(target=_worked, args=(name, work, given), name=name)
    process.start()
    return process


def _worked(name: str, work: Callable[..., None], given: tuple[object, ...]) -> None:
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s {name}: %(message)s")
    torch.set_num_threads(2)
    work(*given)


def _check(process: BaseProcess) -> None:
    if process.exitcode:
        for child in torch.multiprocessing.active_children():  # a GPU is paid for by the minute
            child.terminate()
        raise ChatTTSError(f"{process.name} ended with status {process.exitcode}")


def _finish(process: BaseProcess) -> None:
    process.join()
    _check(process)
    logger.info("%s is finished", process.name)


def _train(run: Run, stage: str, end: float) -> None:
    use_fast_products(run.device)
    run_stage(stage, replace(run, budgets=_Until(end)))


class _Until(dict[str, Budget]):
    """The budget from when a stage asks for it, with its data loaded, until a time."""

    def __init__(self, end: float) -> None:
        super().__init__()
        self._end = end

    def __missing__(self, stage: str) -> Budget:
        seconds = max(1.0, self._end - time.time() - _ENDING_SECONDS)
        return Budget(minutes=seconds / 60)


def _speak(run: Run, end: float) -> None:
    use_fast_products(run.device)
    kind = torch.float16 if run.on_gpu else torch.float32
    files = run.teacher_files()
    teacher = FastTeacher(
        run.out / WEIGHTS_FILE, files.symbols, run.out / VOICES_FILE, run.device, kind
    )
    space = StyleSpace.of(teacher.tables)
    write_space(run.out, space)
    plan = Plan(run.seed, read_lines(run.lines), space)
    first = _first_new_shard(run)
    seconds = speak(teacher, plan, run.speech, first, first + run.shards, end - time.time())
    logger.info("%.0f s of speech", seconds)


def _first_new_shard(run: Run) -> int:
    """Return the number behind those of all speech and codes, which another plan may have made."""
    speech, codes = run.speech.glob("[0-9]*.json"), run.out.glob("codes/*/[0-9]*.npz")
    return 1 + max((int(path.stem.split("-")[0]) for path in (*speech, *codes)), default=-1)


def _code(run: Run, part: int, spoken: Event, end: float) -> None:
    """Code a part of the speech, the first arrangement of all takes first.

    Args:
        run: with a codec.
        part: of the speech.
        spoken: set when no more speech comes.
        end: the time to end at, whatever is left.
    """
    use_fast_products(run.device)
    codec = frozen_codec(run)
    folder = run.codes(checksum(codec))
    folder.mkdir(parents=True, exist_ok=True)
    while not (run.out / PLACES_FILE).exists():  # the teacher writes it first
        if time.time() > end:
            return
        time.sleep(_LOOK_SECONDS)
    with contextlib.suppress(FileExistsError):
        os.link(run.out / PLACES_FILE, folder / PLACES_FILE)

    def code(variant: int) -> int:
        return code_shards(
            run.speech,
            folder,
            codec,
            run.device,
            run.seed,
            most=_AT_ONCE,
            part=part,
            parts=_CODERS,
            variant=variant,
        )

    while time.time() < end:
        is_last_look = spoken.is_set()
        if not any(code(variant) for variant in range(_VARIANTS)):
            if is_last_look:
                break
            time.sleep(_LOOK_SECONDS)
