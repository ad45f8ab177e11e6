"""Failures of a CUDA device: too little memory, errors that last, and work that never ends."""

from __future__ import annotations

import logging
import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor

from ...errors import ConfigError, DeviceLostError, shown
from .driver import driver_wait

PATIENCE_VARIABLE = "CHATTTS_DEVICE_TIMEOUT"
# A step takes some thousandths of a second. What shares the GPU may take it for seconds.
_USUAL_SECONDS = 60.0
# A thread that never sleeps takes a core from the threads that it waits beside.
_AWAKE_SECONDS, _POLL_SECONDS = 5e-5, 5e-5
# The longest call of C that waits: Ctrl-C has an effect between two.
_TURN_SECONDS = 0.1
# Whether this process has lost a GPU: a call of CUDA that waits for it would never return.
LOST = threading.Event()
_NO_MEMORY = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
# As torch, its libraries and Triton call an error of the device.
_OF_DEVICE = ("CUDA error", "CUDA driver error", "Triton Error [CUDA]", "cuDNN error")


class Submitted(Protocol):
    """Work that a device was given: the event behind it.

    One of CUDA also has its handle, ``cuda_event``.
    """

    def query(self) -> bool:
        """Return whether all of the work is done.

        Raises:
            RuntimeError: an error ended it.
        """
        ...


def patience() -> float:
    """Return for how many seconds a device may be waited for; infinity for ever.

    The environment variable ``CHATTTS_DEVICE_TIMEOUT`` has it; 0 stands for ever.

    Raises:
        ConfigError: the variable holds no such number.
    """
    given = os.environ.get(PATIENCE_VARIABLE, "").strip()
    if not given:
        return _USUAL_SECONDS
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise ConfigError(
            f"{PATIENCE_VARIABLE} must be seconds from 0 on (0: wait for ever), not {shown(given)}"
        )
    return seconds or math.inf


def wait_for(work: Submitted, seconds: float) -> None:
    """Wait until a device has done its work.

    Nothing ends a call of CUDA that waits, not even the end of the process. So this asks again and
    again: at first without a pause, then between short sleeps. C code asks where it can, without
    the interpreter's lock.

    Raises:
        DeviceLostError: it takes longer than ``seconds``.
        RuntimeError: an error ended the work.
    """
    began = time.monotonic()
    handle: int = getattr(work, "cuda_event", 0)
    wait = driver_wait() if handle else None
    while True:
        # In this order: a process that was stopped for long looks once more.
        waited = time.monotonic() - began
        is_late = waited > seconds
        if work.query():
            return
        if is_late:
            LOST.set()
            raise DeviceLostError(
                f"the GPU has not answered for {seconds:g} s ({PATIENCE_VARIABLE}), and only "
                "another process may use it again: nvidia-smi and the system's log tell more"
            )
        if wait is None:
            time.sleep(0 if waited < _AWAKE_SECONDS else _POLL_SECONDS)
        elif wait(
            handle, min(seconds - waited, _TURN_SECONDS), _AWAKE_SECONDS - waited, _POLL_SECONDS
        ):
            wait = None  # the work is done or has failed: the query above tells which


def on_host(values: Tensor) -> Tensor:
    """Return what a device computes, once it has done all work of the current stream.

    Raises:
        DeviceLostError: the device does not answer.
    """
    if values.is_cuda:
        wait_for(torch.cuda.current_stream(values.device).record_event(), patience())
    return values.cpu()


def leave_if_lost(status: int) -> None:
    """End the process at once, with ``status``, if it has lost a GPU.

    The interpreter's end would free what is on the device, and wait for it.
    """
    if not LOST.is_set():
        return
    try:
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:  # a reader that has gone must not bring the interpreter's end
        os._exit(status)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether memory was the reason. Ending a failed capture raises another error on top."""
    return any(text in str(each) for each in _reasons(error) for text in _NO_MEMORY)


def is_lasting(error: BaseException | None) -> bool:
    """Return whether the process cannot use its device any more.

    After an error in a kernel CUDA refuses all work of the process, also that of a model which is
    loaded again.
    """
    if is_out_of_memory(error):
        return False
    return any(
        isinstance(each, DeviceLostError) or any(text in str(each) for text in _OF_DEVICE)
        for each in _reasons(error)
    )


def _reasons(error: BaseException | None) -> Iterator[BaseException]:
    """Give an error, and those that it came from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
