"""The loop that trains every stage: budgets, schedule, averages, resuming.

A stage is described by a :class:`Task`; :func:`train` does the rest. The number of a step alone
determines its data, its random numbers and, with a budget of steps, its learning rate. So a
training that was stopped resumes exactly.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from ChatTTS.errors import ConfigError
from ChatTTS.model.devices.placement import fast_dtype
from ChatTTS.utils.progress import progress

from .checkpoints import (
    Position,
    averaged_copy,
    read_origin,
    read_position,
    restore,
    save,
    update_average,
)
from .logbook import Logbook

logger = logging.getLogger(__name__)

_PREFETCHED = 2  # batches prepared in advance by each thread or process
_HOPELESS = 50  # steps in a row without finite gradients
_KEPT = 0.25  # of the largest share ever spent; below it, the phases start again


@dataclass(frozen=True)
class Budget:
    """The limits of a stage's training over all runs; the first one that is reached ends it.

    Attributes:
        steps: steps of the stage; ``None`` for no limit.
        minutes: minutes of the stage; ``None`` for no limit. With minutes the schedule follows the
            time, so only a budget of steps alone gives reproducible weights.
        run_minutes: after this time the run saves and stops, even if the stage is not finished.
    """

    steps: int | None = None
    minutes: float | None = None
    run_minutes: float | None = None

    def __post_init__(self) -> None:
        if self.steps is None and self.minutes is None:
            raise ConfigError("a training needs an end: give steps or minutes")
        for name in ("steps", "minutes", "run_minutes"):
            if (getattr(self, name) or 0) < 0:
                raise ConfigError(f"{name} of a training must not be below 0")

    def spent(self, position: Position) -> float:
        """Return the share of the budget that is spent, 0 to 1."""
        shares = [0.0]
        if self.steps is not None:
            shares.append(position.step / self.steps if self.steps else 1.0)
        if self.minutes is not None:
            shares.append(position.seconds / (60 * self.minutes) if self.minutes else 1.0)
        return min(1.0, max(shares))


@dataclass(frozen=True)
class Schedule:
    """The schedule of the learning rate, as a factor of each optimiser's own rate.

    Attributes:
        warmup: steps over which the rate rises at the beginning.
        decay: the last share of the budget, over which the rate falls linearly. Before that it is
            constant, so little is lost if the budget is raised later.
        floor: the factor at the end.
    """

    warmup: int = 100
    decay: float = 0.3
    floor: float = 0.02

    def factor(self, step: int, spent: float) -> float:
        """Return the factor for ``step`` when ``spent`` (0 to 1) of the budget is spent."""
        fall = min(1.0, (1.0 - spent) / self.decay)
        rise = min(1.0, (step + 1) / (self.warmup + 1))
        return rise * (self.floor + (1.0 - self.floor) * fall)


@dataclass(frozen=True)
class Moment:
    """The time of a step in the training, and its random numbers.

    Attributes:
        step: index of the step, from 0.
        spent: the largest share of the budget that was ever spent, 0 to 1, to choose a phase. So a
            larger budget does not end a phase, unless it was raised fourfold, as after a trial.
        generator: generator on the training's device, seeded from the step; the only one to use.
    """

    step: int
    spent: float
    generator: torch.Generator


@dataclass(frozen=True)
class Objective:
    """One update.

    Attributes:
        losses: weighted scalars; their sum is minimised.
        optimizers: names of the optimisers to step; empty means all.
        metrics: scalars for the log only.
        counts: processed amounts, such as ``{"tokens": 4096}``; the log shows them per second.
    """

    losses: Mapping[str, Tensor]
    optimizers: tuple[str, ...] = ()
    metrics: Mapping[str, Tensor] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)


class Task(Protocol):
    """The modules, data and losses of a stage.

    Attributes:
        name: name of the stage and of its files.
        modules: all modules with weights, on their device; they are saved and averaged.
        optimizers: with the learning rates that the schedule's factor multiplies.
    """

    @property
    def name(self) -> str: ...
    @property
    def modules(self) -> Mapping[str, nn.Module]: ...
    @property
    def optimizers(self) -> Mapping[str, Optimizer]: ...

    @property
    def batch(self) -> Callable[[int], Any]:
        """Maps the number of a step to its data, on the CPU; called ahead, in another thread.

        With ``workers``, it is pickled and called in other processes.
        """
        ...

    def objectives(self, batch: Any, moment: Moment) -> Iterator[Objective]:
        """Yield the updates of a step; each is applied before the next one is computed."""
        ...


def autocast(device: torch.device) -> torch.autocast:
    """Return a context that uses bfloat16 for matrix products on devices that are fast in it.

    Compute losses, spectra and the quantiser outside of it.
    """
    is_fast = product_dtype(device) is torch.bfloat16
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=is_fast)


def sound_autocast(device: torch.device) -> torch.autocast:
    """Return :func:`autocast` for the small networks of mels and sound: off on a GPU.

    There TF32 is as fast for them, and finer. :func:`use_fast_products` allows it.
    """
    return torch.autocast("cpu", enabled=False) if device.type != "cpu" else autocast(device)


def use_fast_products(device: torch.device) -> None:
    """Allow TF32 in all of this process if it computes on a GPU; convolutions use it anyway."""
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")


def product_dtype(device: torch.device) -> torch.dtype:
    """Return bfloat16 for devices that multiply matrices fast in it, else float32."""
    is_fast = device.type != "mps" and fast_dtype(device) is torch.bfloat16
    return torch.bfloat16 if is_fast else torch.float32


def generator_for(device: torch.device, *numbers: int) -> torch.Generator:
    """Return a generator seeded from ``numbers``, such as a seed and a step."""
    mixed = 0
    for number in numbers:
        # The constant of Knuth's linear congruential generator: neighbours end up far apart.
        mixed = ((mixed ^ number) * 6364136223846793005 + 1442695040888963407) % 2**64
    return torch.Generator(device).manual_seed(mixed >> 1)


def train(
    task: Task,
    out: Path,
    budget: Budget,
    *,
    device: torch.device,
    seed: int,
    schedule: Schedule = Schedule(),
    origin: Mapping[str, str] | None = None,
    clip: float = 1.0,
    keep: float = 0.999,
    log_every: int = 20,
    save_seconds: float = 180.0,
    clock: Callable[[], float] = time.monotonic,
    workers: int = 0,
) -> bool:
    """Train until the budget is spent, resuming from ``out/<name>.safetensors`` if it exists.

    In the main thread, Ctrl-C and SIGTERM end the training after the current step and save it.

    Args:
        task: the task to train.
        out: the folder of the run: the state, ``log/<name>.jsonl`` and ``plots/<name>.png``.
        budget: when to end.
        device: the device on which the task computes.
        seed: seed of the random numbers of the steps.
        schedule: schedule of the learning rate.
        origin: checksums of the stages that the task learns from, by name; kept with the state. If
            they have changed, a warning is logged.
        clip: largest norm of the gradients of an update.
        keep: share of the averaged weights that a step keeps; less in the first steps.
        log_every: steps per line of the log.
        save_seconds: seconds between saves.
        clock: returns the time in seconds.
        workers: processes that prepare batches; 0 for a thread of this one, which is enough where
            steps take longer than batches.

    Returns:
        Whether the stage is finished; ``False`` if ``budget.run_minutes`` ended the run.

    Raises:
        AssetError: the state in ``out`` does not fit the task.
        KeyboardInterrupt: a signal ended the training, which was saved.
        RuntimeError: the gradients are no longer finite. The last saved state is still good.
    """
    state = out / f"{task.name}.safetensors"
    average = averaged_copy(task.modules)
    position = Position()
    if state.exists():
        # Read first, so that nothing is loaded if the budget is already spent.
        position = read_position(state)
        warn_of_other_origins(task.name, read_origin(state), origin or {})
        if budget.spent(position) >= 1.0:
            logger.info("%s: already trained, %d steps", task.name, position.step)
            return True
        restore(state, task.modules, average, task.optimizers)
        logger.info("%s: going on from step %d", task.name, position.step)
    logbook = Logbook(out, task.name, position.step)
    rates = {
        name: [group["lr"] for group in optimizer.param_groups]
        for name, optimizer in task.optimizers.items()
    }
    for module in task.modules.values():
        module.train()

    begin, saved = clock(), clock()
    start = position
    skipped = 0
    bar = progress(task.name, "step", total=budget.steps)
    bar.update(position.step)
    with _signals() as signalled, _ahead(task, position.step, workers) as batches, bar:
        while True:
            spent = budget.spent(position)
            ran = position.seconds - start.seconds
            is_over = budget.run_minutes is not None and ran >= 60 * budget.run_minutes
            is_last = spent >= 1.0 or is_over or bool(signalled)
            if is_last or clock() - saved >= save_seconds:
                logbook.write(position)
                save(state, position, task.modules, average, task.optimizers, origin)
                logbook.plot()
                minutes = position.seconds / 60
                logger.info(
                    "%s: step %d, %.1f min, %s", task.name, position.step, minutes, logbook.latest
                )
                saved = clock()
            if is_last:
                break
            is_kept = spent > _KEPT * position.furthest
            furthest = max(spent, position.furthest) if is_kept else spent
            moment = Moment(position.step, furthest, generator_for(device, seed, position.step))
            factor = schedule.factor(position.step, spent)
            _set_rates(task.optimizers, rates, factor)
            skipped = 0 if _step(task, next(batches), moment, clip, logbook) else skipped + 1
            if skipped >= _HOPELESS:
                raise RuntimeError(
                    f"{task.name}: no finite gradients for {skipped} steps; {state} is from before "
                    "if it is there, lower the learning rate"
                )
            step = position.step + 1
            update_average(average, task.modules, min(keep, step / (step + 9)))
            position = Position(step, start.seconds + clock() - begin, furthest)
            if step % log_every == 0:
                logbook.write(position, {"rate": factor})
                bar.set_postfix_str(logbook.latest)
            bar.update()
    if signalled:
        raise KeyboardInterrupt
    return spent >= 1.0


def warn_of_other_origins(name: str, known: Mapping[str, str], present: Mapping[str, str]) -> None:
    """Warn if stages that ``name`` learned from have changed since."""
    for stage in known.keys() & present.keys():
        if known[stage] != present[stage]:
            logger.warning(
                "%s: it learned from another %s so far; delete its state to train it anew, or give "
                "it more minutes to go on",
                name,
                stage,
            )


def _step(task: Task, batch: Any, moment: Moment, clip: float, logbook: Logbook) -> bool:
    """Apply the updates of a step with finite gradients; return whether all were finite."""
    all_finite = True
    for objective in task.objectives(batch, moment):
        chosen = [task.optimizers[name] for name in objective.optimizers or task.optimizers]
        for optimizer in chosen:
            optimizer.zero_grad(set_to_none=True)
        total = torch.stack([loss.float() for loss in objective.losses.values()]).sum()
        torch.autograd.backward(total)
        parameters = [
            parameter
            for optimizer in chosen
            for group in optimizer.param_groups
            for parameter in group["params"]
        ]
        norm = clip_grad_norm_(parameters, clip)
        is_finite = bool(torch.isfinite(norm))
        if is_finite:
            for optimizer in chosen:
                optimizer.step()
        all_finite &= is_finite
        name = "_".join(("gradient", *objective.optimizers))
        logbook.add({**objective.losses, **objective.metrics, name: norm}, objective.counts)
    return all_finite


def _set_rates(
    optimizers: Mapping[str, Optimizer], rates: Mapping[str, list[float]], factor: float
) -> None:
    for name, optimizer in optimizers.items():
        for group, rate in zip(optimizer.param_groups, rates[name], strict=True):
            group["lr"] = rate * factor


@contextlib.contextmanager
def _ahead(task: Task, first: int, workers: int) -> Iterator[Iterator[Any]]:
    """Yield the batches from step ``first`` on, prepared during earlier steps."""
    prefetched = _PREFETCHED * max(1, workers)
    pool: Executor
    if workers:
        context = torch.multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(workers, context, _remember, (task.batch,))
        make: Callable[[int], Any] = _remembered
    else:
        pool = ThreadPoolExecutor(1, thread_name_prefix=f"{task.name}-batches")
        make = task.batch

    def batches() -> Iterator[Any]:
        step = first
        made: deque[Future[Any]] = deque()
        while True:
            while len(made) < prefetched:
                made.append(pool.submit(make, step))
                step += 1
            yield made.popleft().result()

    try:
        yield batches()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


# The batches' function in a process that prepares them: it may hold a corpus, which should be
# pickled once and not for each step.
_source: Callable[[int], Any]


def _remember(source: Callable[[int], Any]) -> None:
    global _source
    _source = source
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the training ends its processes itself


def _remembered(step: int) -> Any:
    return _source(step)


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM, so that they do not end the program in the middle of a step."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def collect(number: int, _: object) -> None:
        received.append(number)

    before = {kind: signal.signal(kind, collect) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
