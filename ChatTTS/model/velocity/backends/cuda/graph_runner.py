"""The step runner of captured steps.

Steps follow one another on the device without the host, also while sequences join and leave.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .....utils import machine
from .....utils.progress import progress
from ....cuda.failures import patience, wait_for
from ....cuda.graphs import GraphCapturer
from ....cuda.support import on_device
from ....devices.tf32 import ieee_float32
from ....kernels.cuda.launching import compile_all
from ....random_numbers import Pass
from ...configs import SchedulerConfig
from ...input_batch import InputBatch, SequenceState
from ...layers import Llama
from ...loaded_model import LoadedModel
from ...plan import Pending, Work
from .decode_steps import DEPTH, MAX_STEPS, DecodeSteps
from .operations import TritonOperations
from .prompt_steps import PromptSteps
from .text_attention import TextAttention

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StepParts:
    """The inputs and outputs of steps on the device beside the KV cache, and their graphs.

    Attributes:
        prompts: steps of positions that do not draw.
        decode: steps of positions that draw, by pass.
    """

    prompts: PromptSteps
    decode: Mapping[Pass, DecodeSteps]

    @property
    def all(self) -> tuple[PromptSteps | DecodeSteps, ...]:
        """All parts; those that take the most memory come first."""
        return (self.prompts, *self.decode.values())


@dataclass(frozen=True)
class StepShape:
    """A step that is captured.

    Attributes:
        part: its number in ``StepParts.all``.
        rows: how many it has room for.
        adapted: whether rows may have adapters. Steps without adapters take no longer for the
            adapters that are loaded.
    """

    part: int
    rows: int
    adapted: bool


class GraphRunner:
    """Replays captured steps; see :class:`~ChatTTS.model.velocity.model_runner.StepRunner`.

    A step is up to three launches: prompts without the positions that draw, then the positions that
    draw frames, and those that draw text ids. The host waits for none of them.

    A step whose own shape is not captured yet takes a larger one. Its results are the same.

    Args:
        parts: with the largest shape of each part captured.
        spare: makes other parts, in which no row has a sequence. Steps that are captured behind the
            start are computed there meanwhile, so sequences in flight are not moved.
        left: the shapes that :meth:`capture_next` captures, in this order.
        hidden: the size of a vector.
        device: of the parts.
    """

    depth, max_steps = DEPTH, MAX_STEPS

    def __init__(
        self,
        parts: StepParts,
        spare: Callable[[], StepParts],
        left: Sequence[StepShape],
        hidden: int,
        device: torch.device,
    ) -> None:
        self._parts, self._new_spare, self._left = parts, spare, list(left)
        self._prompts, self._decode = parts.prompts, parts.decode
        self._spare: StepParts | None = None
        self._hidden, self._device = hidden, device

    @property
    def left(self) -> int:
        """The number of steps that are still to be captured."""
        return len(self._left)

    def capture_next(self) -> bool:
        """Capture a step that is not captured yet; return False where all are.

        Other threads may submit steps meanwhile. One thread may call this at a time.

        Raises:
            ConfigError: the device has not enough memory.
        """
        if not self._left:
            return False
        shape = self._left[0]
        try:
            if self._spare is None:
                self._spare = self._new_spare()
            idle = self._spare.all[shape.part]
            warm_up = partial(idle.compute, shape.rows, adapted=shape.adapted)
            with ieee_float32(), on_device(self._device):
                self._parts.all[shape.part].capture(
                    shape.rows, adapted=shape.adapted, warm_up=warm_up
                )
        except BaseException:
            self._spare = None  # which takes memory, too
            raise
        del self._left[0]
        if not self._left:
            self._spare = None
        return True

    def forward(
        self, works: Sequence[Work], states: Sequence[SequenceState]
    ) -> Mapping[int, NDArray[np.float32]]:
        reading, own = [], []
        for work, state in zip(works, states, strict=True):
            if work.count > work.draws:
                reading.append(replace(work, count=work.count - work.draws, draws=False))
                own.append(state)
        if reading:
            self._prompts.launch(InputBatch.of(reading, own, self._hidden))
        return {}

    def sample(
        self,
        kind: Pass,
        places: Sequence[int],
        works: Sequence[Work],
        states: Sequence[SequenceState],
        steps: int,
    ) -> Pending:
        return self._decode[kind].sample(works, states, steps)


def new_graph_runner(model: LoadedModel, pool: Tensor, limits: SchedulerConfig) -> GraphRunner:
    """Return a runner with the steps captured that first requests need.

    These are the steps of the fewest rows, and those of the most rows, which stand for all others
    until :meth:`GraphRunner.capture_next` has captured these. Where results depend on the
    number of rows, all are captured now.

    Args:
        model: a model on Triton kernels, with its capturer.
        pool: the KV cache's blocks.
        limits: the limits of a step.

    Raises:
        ConfigError: the device has not enough memory.
    """
    llama, capturer = model.llama, model.capturer
    assert isinstance(llama, Llama)
    operations = llama.operations
    assert isinstance(operations, TritonOperations)
    assert capturer is not None
    make = partial(_new_parts, model, llama, pool, capturer, limits)
    parts = make()
    kinds = (True, False) if operations.has_adapters else (False,)
    # The largest first: the others fit into its memory.
    shapes = [
        StepShape(number, rows, kind)
        for number, part in enumerate(parts.all)
        for rows in reversed(part.buckets)
        for kind in kinds
    ]
    left = []
    if operations.batch_invariant:
        left = [each for each in shapes if each.rows not in _first_sizes(parts.all[each.part])]
    first = [each for each in shapes if each not in left]
    if pool.is_cuda:
        with on_device(pool.device):
            _compile(parts, first)
    capturing = progress("capturing", "step", total=len(first))
    with ieee_float32(), on_device(pool.device), capturing as bar:
        for each in first:
            parts.all[each.part].capture(each.rows, adapted=each.adapted)
            bar.update()
    if pool.is_cuda:
        # Wait for this stream alone: waiting for the whole device would break a capture that
        # another thread makes.
        wait_for(torch.cuda.current_stream(pool.device).record_event(), patience())
    logger.info(
        "captured %d steps in %.1f s; %d more are captured behind the start",
        len(first),
        capturer.seconds,
        len(left),
    )
    left.sort(key=lambda each: each.rows)
    return GraphRunner(parts, make, left, model.shape.hidden_size, pool.device)


def _compile(parts: StepParts, shapes: Sequence[StepShape]) -> None:
    """Compile the kernels of steps that have no sequences yet, before they are launched."""
    began = time.perf_counter()
    works: list[Callable[[], None]] = [
        partial(parts.all[each.part].compute, each.rows, adapted=each.adapted) for each in shapes
    ]
    works += [steps.prepare_attention for steps in parts.decode.values()]
    threads = max(1, int(machine.usable_cores()))
    with torch.inference_mode():
        compile_all(works, threads)
    logger.info("compiled or loaded the kernels in %.1f s", time.perf_counter() - began)


def _first_sizes(part: PromptSteps | DecodeSteps) -> tuple[int, int]:
    """Return the sizes of a part that are captured before there are requests."""
    return part.buckets[0], part.buckets[-1]


def _new_parts(
    model: LoadedModel,
    llama: Llama[TritonOperations],
    pool: Tensor,
    capturer: GraphCapturer,
    limits: SchedulerConfig,
) -> StepParts:
    max_positions = model.shape.max_position_embeddings
    prompts = PromptSteps(
        llama,
        pool,
        capturer,
        num_codebooks=model.embed.num_codebooks,
        hidden=model.shape.hidden_size,
        max_rows=limits.max_num_batched_tokens,
        max_sequences=limits.max_num_batched_tokens,
        max_positions=max_positions,
    )
    rows = min(limits.max_num_seqs, limits.max_num_batched_tokens)
    attention = TextAttention(llama.operations, pool, rows, model.placement.dtype)
    decode = {
        kind: DecodeSteps(
            llama,
            model.embed,
            pool,
            capturer,
            max_rows=rows,
            max_positions=max_positions,
            kind=kind,
            end=model.ends[kind],
            attention=attention,
        )
        for kind in Pass
    }
    return StepParts(prompts, decode)
