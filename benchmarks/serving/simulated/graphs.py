"""Captured launches of a simulated device: known results at once, and the time of a GPU.

The device keeps what the host's code relies on: the position of each row and how many frames it
drew, moved and replaced with the other columns of the row. All other results are canned. A sequence
ends after as many frames as suit the length of its prompt.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ChatTTS.model.velocity.backends.cuda.decode_steps import DecodeSteps
from ChatTTS.model.velocity.backends.cuda.prompt_steps import PromptSteps
from ChatTTS.model.velocity.backends.cuda.slots import SlotRows

from .device import Counters, SimulatedStream
from .steps import StepTimes

# Positions of a prompt beside its text, and frames for each other one: a letter, for the bundled
# tokenizer. 150 words a minute are twelve letters a second.
_CONTROLS, _FRAMES_PER_LETTER = 8, 46.875 / 12
_LEAST_FRAMES = 8
# Columns of a row that a write changes.
_COLUMNS = ("slots", "positions", "generated", "active")
_CODES = np.random.default_rng(0).integers(0, 625, (64, 4), dtype=np.int32)


def frames_of(prompts: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return how many frames follow prompts of so many positions."""
    frames: NDArray[np.float64] = np.maximum(
        _LEAST_FRAMES, (prompts - _CONTROLS) * _FRAMES_PER_LETTER
    )
    return frames


class SimulatedGraph:
    """A launch; see ``CapturedGraph`` in ``ChatTTS/model/cuda/graphs.py``.

    Args:
        stream: of the device.
        seconds: that the device takes for it.
        effect: puts the results where the host reads them.
        result: see ``CapturedGraph``.
    """

    def __init__(
        self,
        stream: SimulatedStream,
        seconds: float,
        effect: Callable[[], None],
        result: Tensor | None = None,
    ) -> None:
        self._stream, self._seconds, self._effect, self.result = stream, seconds, effect, result

    def replay(self) -> None:
        """Launch the work."""
        self._stream.launch(self._seconds)
        self._effect()


class DecoderWork:
    """What a launch of the audio decoder does; stands for what ``CudaStreamingDecoder`` captures.

    Done without a graph, the host carries out all operators, on no utterance.

    Args:
        size, chunk: of the launch, see ``LaunchShapes``.
        operators: all operators on empty tensors.
        hop: samples of a row.
    """

    def __init__(
        self,
        stream: SimulatedStream,
        times: StepTimes,
        size: int,
        chunk: int,
        operators: Callable[[], Tensor],
        hop: int,
    ) -> None:
        self._stream, self._operators = stream, operators
        self.seconds = times.decode_seconds(size * chunk)
        samples = torch.arange(2 * chunk * hop) * (2 * np.pi * 220 / 24_000)
        self.sound = 0.1 * samples.sin().view(1, 2 * chunk, hop).expand(size, -1, -1).contiguous()

    def count(self) -> None:
        """Count a launch."""
        self._stream.counters.add("decodes")

    def __call__(self) -> Tensor:
        """Launch it operator by operator; return its sound, float32 [size, 2 chunk, hop]."""
        self._operators()
        self.count()
        self._stream.launch(self.seconds)
        return self.sound


class SimulatedCapturer:
    """Makes graphs; see ``GraphCapturer`` in ``ChatTTS/model/cuda/graphs.py``."""

    def __init__(self, stream: SimulatedStream, times: StepTimes) -> None:
        self._stream, self._times = stream, times
        self.captures, self.seconds = 0, 0.0

    def capture(
        self, work: Callable[[], Any], warm_up: Callable[[], object] | None = None
    ) -> SimulatedGraph:
        """Return the graph of work, which is not done.

        Raises:
            TypeError: it is none of the server's known launches.
        """
        self.captures += 1
        if isinstance(work, DecoderWork):
            return SimulatedGraph(self._stream, work.seconds, work.count, work.sound)
        assert isinstance(work, partial), f"a launch of a simulated device is not known: {work}"
        owner: Any = getattr(work.func, "__self__", None)
        rows = int(work.args[0])
        effect: Callable[[], None]
        if isinstance(owner, DecodeSteps):
            seconds = self._times.step_seconds(rows, is_text=not owner._is_code)
            effect = _Draws(owner, rows, self._stream.counters)
        elif isinstance(owner, PromptSteps):
            seconds, effect = self._times.prompt_seconds(rows), _nothing
        elif isinstance(owner, SlotRows):
            seconds, effect = self._times.write_seconds(), _Writes(owner, rows)
        else:
            raise TypeError(f"the simulated device knows no launch of {owner!r}: teach it")
        return SimulatedGraph(self._stream, seconds, effect)


class _Draws:
    """The results of a step: canned codes, or the end."""

    def __init__(self, owner: DecodeSteps, rows: int, counters: Counters) -> None:
        self._positions = owner._positions.numpy()[:rows]
        self._generated, self._slots = owner._state.generated.numpy(), owner._slot_of.numpy()[:rows]
        self._active = owner._active.numpy()[:rows]
        self._turn, self._end, self._counters = owner._turn.numpy(), owner._end, counters
        results, width = owner._results.numpy(), owner._drawn_width
        at = results.shape[2] - 2 * width - 1
        self._ids = results[:, :rows, at : at + width]
        results[:, :rows, at + 2 * width] = 1  # finite

    def __call__(self) -> None:
        ids = self._ids[self._turn[0] % len(self._ids)]
        self._turn += 1
        generated = self._generated[self._slots]
        ids[:] = _CODES[generated % len(_CODES), : ids.shape[1]]
        prompts = self._positions - generated + 1
        np.add(self._positions, self._active, self._positions)
        generated += self._active
        self._generated[self._slots] = generated
        ids[generated > frames_of(prompts), 0] = self._end
        self._counters.add("steps")
        self._counters.add("frames", float(self._active.sum()))


class _Writes:
    """A write of staged rows, of those columns that :class:`_Draws` reads."""

    def __init__(self, owner: SlotRows, count: int) -> None:
        staged = owner._staged.numpy()[:count]
        self._slots, self._columns, at = staged[:, 0], [], 1
        for name, width in owner._widths.items():
            if name in _COLUMNS:
                self._columns.append((owner._tensors[name].numpy(), staged[:, at]))
            at += width

    def __call__(self) -> None:
        for column, values in self._columns:
            column[self._slots] = values


def _nothing() -> None:
    """Prompts give no results."""
