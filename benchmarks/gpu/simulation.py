"""The share of time that a GPU would wait for the host, while requests join and leave.

The engine runs on this CPU with recordings that compute nothing. A simulated device takes them in
order, and each takes the time that ``step_model.py`` expects. The host's work takes the processor
time that it takes here, on one core. So the figure depends on this machine.

    python -m benchmarks.gpu.simulation [--gpu H100] [--streams 64] [--seconds 10] [--drain]
"""

from __future__ import annotations

import gc
import time
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from ..common.command import new_parser
from .model import engine_args, traffic
from .rehearsal import rehearse
from .scale import FULL, TINY, Record, Task
from .step_model import GPUS, StepModel, count_steps

if TYPE_CHECKING:
    from ChatTTS.model.generation import GenerationRequest
    from ChatTTS.model.velocity.backends.cuda.decode_steps import DecodeSteps

# The most positions of a sequence.
_POSITIONS = 2048
# The mean number of frames and of text ids that a sequence draws.
_FRAMES, _TEXT_IDS = 300, 30


class SimulatedDevice:
    """Takes work in order; each piece takes the time that is given.

    Attributes:
        busy: seconds of work so far.
        waited: seconds between works in which the device had nothing to do.
        free_at: when all work is done, by the clock of :meth:`now`.
        random: decides which sequences end.
    """

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.busy = self.waited = self.free_at = self._slept = 0.0

    def now(self) -> float:
        """Return the host's seconds: what it computed in this thread, and what it waited."""
        return time.thread_time() + self._slept

    def take(self, seconds: float) -> None:
        """Take a piece of work now."""
        now = self.now()
        if self.free_at:
            self.waited += max(0.0, now - self.free_at)
        self.free_at = max(now, self.free_at) + seconds
        self.busy += seconds

    def wait(self, until: float) -> None:
        """Let the host wait until the work that ends at ``until`` is done."""
        self._slept += max(0.0, until - self.now())


class SimulatedRecording:
    """Work of the simulated device, which computes nothing."""

    def __init__(self, device: SimulatedDevice, model: StepModel, work: partial[Any]) -> None:
        from ChatTTS.model.velocity.backends.cuda.decode_steps import DecodeSteps
        from ChatTTS.model.velocity.backends.cuda.prompt_steps import PromptSteps

        self._device, self._model, self._rows = device, model, int(work.args[0])
        owner: Any = getattr(work.func, "__self__")  # noqa: B009
        self._decode = owner if isinstance(owner, DecodeSteps) else None
        self._is_prompt = isinstance(owner, PromptSteps)
        self.result = None

    def replay(self) -> None:
        if self._decode is not None:
            positions = sum(self._decode._slots.position_of.values())
            self._device.take(self._model.decode_seconds(self._rows, positions))
            self._draw(self._decode)
        elif self._is_prompt:
            self._device.take(self._model.prompt_seconds(self._rows))
        else:
            self._device.take(3e-5)  # a write of rows

    def _draw(self, decode: DecodeSteps) -> None:
        """Write the ids of a step into its results: 1, or for some rows the end."""
        result = decode._results[int(decode._turn) % len(decode._results)].numpy()
        decode._turn += 1
        drawn = result[: self._rows, result.shape[1] - 2 * decode._drawn_width - 1 :]
        drawn[:] = 1
        mean = _FRAMES if decode._is_code else _TEXT_IDS
        drawn[self._device.random.random(self._rows) < 1 / mean, 0] = decode._end


class SimulatedRecorder:
    """Records nothing; see ``Recorder`` in ``model/cuda/graphs.py``."""

    captures, seconds = 0, 0.0

    def __init__(self, device: SimulatedDevice, model: StepModel) -> None:
        self._device, self._model = device, model

    def record(self, work: Any, warm_up: object = None) -> SimulatedRecording:
        return SimulatedRecording(self._device, self._model, work)

    def start_over(self) -> None:
        pass


def simulate(model: StepModel, streams: int, seconds: float, *, drain: bool) -> dict[str, float]:
    """Run requests of random lengths for some seconds; ``streams`` of them run at any time.

    Args:
        model: the expected times of the device.
        drain: wait for all results before any request joins or leaves.

    Returns:
        ``waited``, the share of time in which the device waited for the host, ``joins`` a second,
        and ``step_ms``, the device's time for a step.
    """
    from ChatTTS.model.cuda import graphs
    from ChatTTS.model.velocity.executor import InProcessExecutor
    from ChatTTS.model.velocity.llm_engine import LLMEngine
    from ChatTTS.model.velocity.plan import Pending, StepPlan
    from ChatTTS.model.velocity.scheduler import Scheduler

    device, patch = SimulatedDevice(), pytest.MonkeyPatch()
    recorder = SimulatedRecorder(device, model)
    patch.setattr(graphs, "CudaRecorder", lambda *_, **__: recorder)
    if drain:
        patch.setattr(Scheduler, "_may_start_ahead", lambda *_: False)
        _drain_at_leaves(patch)

    class Executor(InProcessExecutor):
        def execute_model(self, plan: StepPlan) -> Pending:
            pending, ready = super().execute_model(plan), device.free_at

            def result() -> Any:
                device.wait(ready)
                return pending()

            return result

    with TemporaryDirectory() as name:
        folder = Path(name)
        gpt = replace(TINY.gpt, max_position_embeddings=_POSITIONS)
        scale = replace(TINY, gpt=gpt, streams=(streams,), batched_tokens=512, kv_memory="1GB")
        task = Task(scale, folder, Record(folder / "x.json"), time.time())
        config = engine_args(task, "float32").create_engine_config()
        engine = LLMEngine(config, Executor(config))
        unrecorded = engine.executor.recordable
        while unrecorded is not None and unrecorded.record_next():
            pass
        requests, joined = map(_endless, traffic(gpt)), 0
        # As `chattts serve` does.
        gc.collect()
        gc.freeze()
        engine.add(list(islice(requests, streams)))
        until, counts = 0.0, (0.0, 0.0, 0, 0)
        while not until or device.now() < until:
            ended = sum(output.finished for output in engine.step())
            engine.add(list(islice(requests, ended)))
            joined += ended
            if not until and engine.metrics().steps > 20:  # the start is over
                until = device.now() + seconds
                counts = (device.busy, device.waited, engine.metrics().steps, joined)
        busy, waited = device.busy - counts[0], device.waited - counts[1]
        steps, joins = engine.metrics().steps - counts[2], joined - counts[3]
        engine.close()
    gc.unfreeze()
    patch.undo()
    return {
        "waited": waited / (busy + waited),
        "joins": joins / (busy + waited),
        "step_ms": 1e3 * busy / steps,
    }


def _endless(request: GenerationRequest) -> GenerationRequest:
    """Return a request of which only chance decides the length."""
    sampling = replace(request.sampling, min_new=0, max_new=_POSITIONS)
    return replace(request, sampling=sampling)


def _drain_at_leaves(patch: pytest.MonkeyPatch) -> None:
    """Have the scheduler wait for the results in flight after a sequence ended."""
    from ChatTTS.model.velocity.scheduler import Scheduler

    ahead = Scheduler.schedule_ahead

    def schedule_ahead(self: Scheduler, max_steps: int = 1) -> Any:
        plans = self._in_flight.plans
        flying = plans[-1][1] if plans else []
        return ahead(self, max_steps) if flying == self._queues.running else None

    patch.setattr(Scheduler, "schedule_ahead", schedule_ahead)


def main() -> None:
    parser = new_parser("gpu.simulation", __doc__)
    parser.add_argument("--gpu", choices=GPUS, default="H100")
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--drain", action="store_true", help="stop at each join and leave")
    args = parser.parse_args()
    gpu = GPUS[args.gpu]
    model = StepModel(gpu, FULL.gpt, count_steps(gpu.capability, FULL), FULL.positions)
    rehearse("simulation")
    torch.set_num_threads(1)
    found = simulate(model, args.streams, args.seconds, drain=args.drain)
    print(
        f"{args.gpu}, {args.streams} streams: the device waits {100 * found['waited']:.1f} % of "
        f"the time; {found['joins']:.0f} joins a second, {found['step_ms']:.2f} ms a step"
    )


if __name__ == "__main__":
    main()
