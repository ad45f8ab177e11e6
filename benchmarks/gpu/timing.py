"""Time work on a device, and the rate of its memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from statistics import median
from typing import Any

import torch

from ChatTTS.model.cuda.capture_thread import Capturable

from .scale import Scale

_MOST_CAPTURING = 60.0  # seconds


def device_seconds(work: Callable[[], Any], device: torch.device, rounds: int) -> list[float]:
    """Return the seconds that ``work`` takes on the device, for each round after a warm-up."""
    _once(work, device)
    return [_once(work, device) for _ in range(rounds)]


def wall_seconds(work: Callable[[], Any], device: torch.device, rounds: int) -> list[float]:
    """Return the seconds from the call of ``work`` until the device is done, by the host's clock.

    The list has one item for each round after a warm-up.
    """
    seconds = []
    for _ in range(rounds + 1):
        synchronize(device)
        began = time.perf_counter()
        work()
        synchronize(device)
        seconds.append(time.perf_counter() - began)
    return seconds[1:]


class DeviceSpan:
    """The time that a device takes from the creation of this object to :meth:`seconds`."""

    def __init__(self, device: torch.device) -> None:
        self._began = time.perf_counter()
        self._events: list[Any] = []
        if device.type == "cuda":
            new_event: Callable[..., Any] = torch.cuda.Event
            self._events = [new_event(enable_timing=True) for _ in range(2)]
            self._events[0].record()

    def seconds(self) -> float:
        """Return the seconds of all work that was queued since the beginning."""
        if not self._events:
            return time.perf_counter() - self._began
        start, end = self._events
        end.record()
        end.synchronize()
        milliseconds: float = start.elapsed_time(end)
        return milliseconds / 1000


def wait_for_captures(parts: Iterable[Capturable | None]) -> float:
    """Wait until a thread has captured what a start leaves to it; return the seconds.

    Raises:
        RuntimeError: it takes more than a minute.
    """
    began = time.perf_counter()
    given = [part for part in parts if part is not None]
    while any(part.left for part in given):
        if time.perf_counter() - began > _MOST_CAPTURING:
            raise RuntimeError("the launches behind the start are not captured: the log tells why")
        time.sleep(0.01)
    return time.perf_counter() - began


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished all queued work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def spread(seconds: list[float], scale: float = 1000.0) -> dict[str, float]:
    """Return median, least and most of ``seconds`` times ``scale``; by default milliseconds."""
    middle, least, most = median(seconds), min(seconds), max(seconds)
    return {"median": scale * middle, "min": scale * least, "max": scale * most}


def copy_rate(scale: Scale) -> float:
    """Return the bytes a second that a large copy on the device reads and writes together."""
    device = torch.device(scale.device)
    source = torch.randn(scale.copy_bytes // 4, device=device)
    target = torch.empty_like(source)
    seconds = device_seconds(lambda: target.copy_(source), device, 10)
    return 2 * scale.copy_bytes / median(seconds)


def _once(work: Callable[[], Any], device: torch.device) -> float:
    span = DeviceSpan(device)
    work()
    return span.seconds()
