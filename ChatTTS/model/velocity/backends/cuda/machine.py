"""The machine of recorded steps.

Steps follow one another on the device without the host, also while sequences join and leave.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .....utils.progress import progress
from ....cuda.failures import patience, wait_for
from ....cuda.support import on_device
from ....devices.tf32 import ieee_float32
from ....draws import Pass
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


class RecordedMachine:
    """Replays recorded steps; see :class:`~ChatTTS.model.velocity.model_runner.Machine`.

    A step is up to three launches: prompts without the positions that draw, then the positions that
    draw frames, and those that draw text ids. The host waits for none of them.

    Args:
        prompts: steps of positions that do not draw.
        decode: steps of positions that draw, by pass.
        hidden: the size of a vector.
    """

    depth, max_steps = DEPTH, MAX_STEPS

    def __init__(
        self, prompts: PromptSteps, decode: Mapping[Pass, DecodeSteps], hidden: int
    ) -> None:
        self._prompts, self._decode, self._hidden = prompts, dict(decode), hidden

    def begin(
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

    def draw(
        self,
        kind: Pass,
        places: Sequence[int],
        works: Sequence[Work],
        states: Sequence[SequenceState],
        steps: int,
    ) -> Pending:
        return self._decode[kind].draw(works, states, steps)


def new_machine(model: LoadedModel, pool: Tensor, limits: SchedulerConfig) -> RecordedMachine:
    """Return a machine with all its steps recorded.

    Args:
        model: a model on Triton kernels, with its recorder.
        pool: the KV cache's blocks.
        limits: the limits of a step.

    Raises:
        ConfigError: the device has not enough memory.
    """
    llama, recorder = model.llama, model.recorder
    assert isinstance(llama, Llama)
    assert isinstance(llama.operations, TritonOperations)
    assert recorder is not None
    max_positions = model.shape.max_position_embeddings
    prompts = PromptSteps(
        llama,
        pool,
        recorder,
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
            recorder,
            max_rows=rows,
            max_positions=max_positions,
            kind=kind,
            end=model.ends[kind],
            attention=attention,
        )
        for kind in Pass
    }
    # The largest first: the others fit into its memory.
    parts: tuple[PromptSteps | DecodeSteps, ...] = (prompts, *decode.values())
    # Steps without adapters take no longer for the adapters that are loaded.
    kinds = (True, False) if llama.operations.has_adapters else (False,)
    work = [
        (part, size, kind) for part in parts for size in reversed(part.buckets) for kind in kinds
    ]
    recording = progress("recording", "step", total=len(work))
    with ieee_float32(), on_device(pool.device), recording as bar:
        for part, size, adapted in work:
            part.record(size, adapted=adapted)
            bar.update()
    if pool.is_cuda:
        # Wait for this stream alone: waiting for the whole device would break a recording that
        # another thread makes.
        wait_for(torch.cuda.current_stream(pool.device).record_event(), patience())
    logger.info("recorded %d steps in %.1f s", recorder.captures, recorder.seconds)
    return RecordedMachine(prompts, decode, model.shape.hidden_size)
