"""A caller's view of the outputs of its requests: those that it read, and those of an end."""

from __future__ import annotations

from collections.abc import Sequence

from ..generation import GenerationRequest
from ..sampling_params import SamplingParams
from .llm_engine import LLMEngine
from .output import RequestOutput
from .output_queue import Item, OutputQueue, outputs_of


class OutputReader:
    """Reads the items of an output queue.

    Once the caller has cancelled its requests, the next outputs end every sample that still runs,
    and outputs that were not read yet are dropped.

    Args:
        requests: checked ones, whose outputs the queue gets.
    """

    def __init__(
        self, engine: LLMEngine, requests: Sequence[GenerationRequest], output_queue: OutputQueue
    ) -> None:
        self._engine, self._queue = engine, output_queue
        self._requests = {request.request_id: request for request in requests}
        # For each request the samples that still run, with their log-probabilities so far.
        self._running = {
            request.request_id: dict.fromkeys(range(_num_outputs(request.sampling)), 0.0)
            for request in requests
        }

    @property
    def is_over(self) -> bool:
        """Return whether every request has ended for the reader."""
        return not self._running

    def read(self, item: Item) -> Sequence[RequestOutput]:
        """Return the outputs of an item, or those of the cancellation; none once all is over.

        Raises:
            EngineDeadError: an error ended the engine.
        """
        if self._queue.is_cancelled:
            return self.cancelled()
        outputs = outputs_of(item)
        for output in outputs:
            samples = self._running[output.request_id]
            for delta in output.deltas:
                samples[delta.index] = delta.logprob
                if delta.finish is not None:
                    del samples[delta.index]
            if output.finished:
                del self._running[output.request_id]
        return outputs

    def cancelled(self) -> list[RequestOutput]:
        """Return the outputs that end all requests."""
        ends = [
            self._engine.aborted(self._requests[name], samples)
            for name, samples in self._running.items()
        ]
        self._running.clear()
        return ends


def _num_outputs(sampling: SamplingParams) -> int:
    """Return how many samples the caller gets."""
    return 1 if sampling.best else sampling.n
