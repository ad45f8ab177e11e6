"""Playing while more is spoken, on a sound device.

The device asks for samples in a thread of its own (PortAudio's blocking calls are not there, or
not sound, on every system), so what is written waits for it in a short queue.
"""

from __future__ import annotations

import weakref
from collections import deque
from types import TracebackType
from typing import Any

import numpy as np

from ..errors import AudioError
from ..utils.locks import ChangeNotifier, WakeSignal, new_rlock
from .devices import SoundDevice, find_sound_device, import_sounddevice, portaudio_lock
from .samples import SAMPLE_RATE, Samples, to_mono

# Samples that wait for the device: enough that a short pause of whoever writes is not heard.
_AHEAD_SECONDS = 0.3
_BLOCK = SAMPLE_RATE // 50
# A device that asks for nothing for so long is gone.
_PATIENCE_SECONDS = 5.0


class Player:
    """Plays mono samples at 24 kHz as they come; a writer like ``PCMWriter``.

    Leaving it by ``with`` waits until all is heard; leaving it by an exception, Ctrl-C too, stops
    the sound at once.

    Args:
        device: PortAudio's number of a device, or a part of its name; the system's default device
            by default.
        latency: seconds of sound inside the device. Fewer are heard sooner; with too few a busy
            machine is too late for it.

    Attributes:
        device: what it plays on. One that refuses 24 kHz gets the samples at its own rate.
        samples_written: samples that were taken, at 24 kHz; they are heard within half a second.

    Raises:
        AudioError: sounddevice or its PortAudio is missing, or the device cannot be opened.
    """

    def __init__(self, device: int | str | None = None, *, latency: float = 0.1) -> None:
        library = import_sounddevice()
        self.device = find_sound_device(device)
        self.samples_written = 0
        self._resampler = _resampler(self.device.rate)
        self._feed = _Feed(self.device, library.CallbackStop)
        try:
            with portaudio_lock:
                self._stream: Any = library.OutputStream(
                    samplerate=self.device.rate,
                    device=device,
                    channels=self.device.channels,
                    dtype="float32",
                    latency=latency,
                    callback=self._feed.fill,
                    finished_callback=self._feed.end,
                )
                self._end = weakref.finalize(self, _end, self._stream)
                self._end.atexit = False  # the library ends its streams by itself
                # It plays silence from now on: the first samples need not wait for its start.
                self._stream.start()
        except library.PortAudioError as error:
            raise AudioError(
                f"the sound device {self.device.name} cannot be opened ({error}); close what else "
                "uses it, or choose another"
            ) from error

    @property
    def underruns(self) -> int:
        """How often there was a gap, because the next samples were not there in time."""
        return self._feed.underruns

    def write(self, samples: Any) -> None:
        """Play one chunk after those before it; waits while the device has enough.

        Args:
            samples: ``(n,)``, ``(1, n)`` or ``(n, 1)``, float (full scale 1) or int16; an empty
                chunk plays nothing.

        Raises:
            AudioError: the samples cannot be used, the device is gone, or the player is closed,
                perhaps by another thread meanwhile.
        """
        self._feed.check()
        chunk = to_mono(samples, "samples")
        for start in range(0, len(chunk), _BLOCK):
            block = chunk[start : start + _BLOCK]
            self._feed.put(self._resampled(block, last=False))
            self.samples_written += len(block)

    def close(self) -> None:
        """Wait until all is heard, and let go of the device. Closing twice is no error.

        Raises:
            AudioError: the device is gone.
        """
        if self._feed.is_closed:
            return
        try:
            if self.samples_written:
                rest = self._resampled(np.zeros(0, np.float32), last=True)
                # Some systems cut off what the device still holds when a stream ends.
                silence = np.zeros(round(self._stream.latency * self.device.rate), np.float32)
                self._feed.finish(np.concatenate([rest, silence]))
        finally:
            self.abort()

    def abort(self) -> None:
        """Stop the sound at once, and let go of the device; any thread may call this."""
        self._feed.close()
        self._end()

    def _resampled(self, samples: Samples, *, last: bool) -> Samples:
        """At the device's rate; the last ones with what the resampler kept back."""
        if self._resampler is None:
            return samples
        resampled: Samples = self._resampler.resample_chunk(samples, last=last)
        return resampled

    def __enter__(self) -> Player:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


class _Feed:
    """Samples that wait for a device, which takes them in a thread of its own.

    Args:
        device: what plays them.
        stop: what the thread raises to end the stream when all was taken.

    Attributes:
        waiting: samples at the device's rate.
        underruns: gaps in the sound.
        is_last: whether nothing comes any more.
        is_closed: whether what waits is not to be heard.
    """

    def __init__(self, device: SoundDevice, stop: type[Exception]) -> None:
        self.waiting = 0
        self.underruns = 0
        self.is_last = False
        self.is_closed = False
        self._device = device
        self._stop = stop
        self._blocks: deque[Samples] = deque()
        self._lock, self._notifier = new_rlock(), ChangeNotifier()
        self._has_begun = False
        self._is_dry = False
        self._has_ended = False

    @property
    def is_full(self) -> bool:
        """Whether the device has enough for now."""
        return self.waiting >= _AHEAD_SECONDS * self._device.rate

    def put(self, samples: Samples) -> None:
        """Append samples (n,), as soon as there is room."""
        waiter = WakeSignal()
        while True:
            with self._lock:
                self.check()
                if not self.is_full:
                    break
                self._notifier.subscribe(waiter)
            self._wait(waiter)
        if len(samples):
            with self._lock:
                self.check()
                # What was missing before the first samples is no gap.
                self.underruns += self._is_dry and self._has_begun
                self._has_begun, self._is_dry = True, False
                self._append(samples)

    def finish(self, rest: Samples) -> None:
        """Append the last samples (n,), and wait until all is heard."""
        with self._lock:
            self.check()
            self._append(rest)
            self.is_last = True
        waiter = WakeSignal()
        while True:
            with self._lock:
                if self._has_ended:
                    return
                self.check()
                self._notifier.subscribe(waiter)
            self._wait(waiter)

    def close(self) -> None:
        """Drop what waits; whoever writes gets an error."""
        with self._lock:
            self.is_closed = True
            self._blocks.clear()
            self._notifier.notify()

    def check(self) -> None:
        """Raise AudioError if nothing can be played any more."""
        if self.is_closed:
            raise AudioError("the player is closed; nothing more can be played")
        if self._has_ended:
            raise AudioError(f"the sound device {self._device.name} has ended the sound")

    def fill(self, out: Samples, frames: int, time: Any, status: Any) -> None:
        """What the device calls for samples: ``out`` (frames, channels)."""
        with self._lock:
            filled = 0
            while filled < frames and self._blocks:
                block = self._blocks.popleft()
                part = block[: frames - filled]
                out[filled : filled + len(part)] = part[:, None]
                filled += len(part)
                if len(part) < len(block):
                    self._blocks.appendleft(block[len(part) :])
            out[filled:] = 0
            self.waiting -= filled
            self.underruns += bool(status.output_underflow) and self._has_begun
            self._is_dry = filled < frames
            self._notifier.notify()
            if self.is_last and self._is_dry:
                raise self._stop

    def end(self) -> None:
        """What the device calls when it has played everything, or has failed."""
        with self._lock:
            self._has_ended = True
            self._notifier.notify()

    def _append(self, samples: Samples) -> None:
        self._blocks.append(samples)
        self.waiting += len(samples)

    def _wait(self, waiter: WakeSignal) -> None:
        """Until something changed."""
        if not waiter.wait(_PATIENCE_SECONDS):
            raise AudioError(f"the sound device {self._device.name} takes no samples any more")


def _end(stream: Any) -> None:
    """Let go of a device, whatever state it is in."""
    with portaudio_lock:
        stream.abort()
        stream.close()


def _resampler(rate: int) -> Any:
    """From 24 kHz to ``rate`` bit by bit; ``None`` where that is the same."""
    if rate == SAMPLE_RATE:
        return None
    import soxr

    return soxr.ResampleStream(SAMPLE_RATE, rate, 1, dtype="float32")
