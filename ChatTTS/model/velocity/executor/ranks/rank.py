"""One rank: its part of the model, which runs the plans that the engine sends."""

from __future__ import annotations

import traceback
from dataclasses import replace
from typing import Any

import torch

from .....errors import ChatTTSError
from .....version import __version__
from ...worker import Worker
from .communicator import DistributedCommunicator
from .messages import Allocate, Allocated, Failed, Loaded, Ran, Run, Start, decode, encode


class Rank:
    """Answers the messages of an engine, one after the other."""

    def __init__(self) -> None:
        self._worker: Worker | None = None

    def answer(self, message: bytes) -> bytes:
        """Do what a message says, and return the reply; an error is one as well."""
        try:
            return encode(self._answer(decode(message)))
        except Exception as error:
            if not isinstance(error, ChatTTSError):
                traceback.print_exc()
            return encode(Failed(type(error).__name__, str(error)))

    def _answer(self, message: Any) -> Any:
        if isinstance(message, Start):
            return self._start(message)
        assert self._worker is not None
        if isinstance(message, Allocate):
            self._worker.init_cache(message.cache)
            return Allocated()
        assert isinstance(message, Run)
        return Ran(self._worker.execute_model(message.plan, message.drawn)())

    def _start(self, start: Start) -> Loaded:
        torch.set_num_threads(start.threads)
        device = torch.device(start.device)
        if device.type == "cuda":
            torch.cuda.set_device(device)
        parallel = start.config.parallel
        ranks, stages = parallel.tensor_parallel_size, parallel.pipeline_parallel_size
        stage, rank = divmod(start.rank, ranks)
        communicator = DistributedCommunicator(
            start.address,
            start.port,
            rank=rank,
            ranks=ranks,
            stage=stage,
            stages=stages,
            device=device,
        )
        model = replace(start.config.model, device=start.device, num_threads=start.threads)
        config = replace(start.config, model=model)
        self._worker = worker = Worker(config, rank=start.rank, communicator=communicator)
        return Loaded(
            version=__version__,
            block_bytes=worker.model.llama.block_bytes,
            max_blocks=worker.max_blocks(),
            gives_attention=worker.model.gives_attention,
            about=_about(worker.model.how, device),
        )


def _about(how: str, device: torch.device) -> str:
    """Return what decides the bits of a rank: its kernels, dtype and kind of device."""
    if device.type != "cuda":
        return how
    kind = torch.cuda.get_device_name(device)
    return f"{how.replace(str(device), device.type)}, {kind}"
