"""Playback on a sound device while more speech is generated.

PortAudio requests samples by a callback in a thread of its own. Its blocking calls are missing or
unreliable on some systems. So written samples wait for the callback in a short queue.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

import numpy as np

from ..errors import AudioError
from ..utils.locks import ChangeNotifier, WakeSignal, new_rlock
from .devices import SoundDevice, find_sound_device, import_sounddevice, portaudio_lock
from .samples import SAMPLE_RATE, Samples, to_mono

# Length of the queue: enough that a short pause of the writer is not heard.
_AHEAD_SECONDS = 0.3
_BLOCK = SAMPLE_RATE // 50
# A device that requests no samples for so long is treated as gone.
_PATIENCE_SECONDS = 5.0


class Player:
    """Plays mono samples at 24 kHz as they come; a writer like ``PCMWriter``.

    The end of a ``with`` block waits until all samples are played. An exception in it, such as
    Ctrl-C, stops the sound at once.

    Args:
        device: PortAudio's number of a device, or a part of its name; the system's default device
            by default.
        latency: seconds of sound inside the device. A smaller value plays sooner, but a busy
            machine may then be too late with the next samples.

    Attributes:
        device: the device. If it refuses 24 kHz, it gets the samples at its own rate.
        samples_written: samples taken so far, at 24 kHz; they are heard within half a second.

    Raises:
        AudioError: sounddevice or its PortAudio is missing, or the device cannot be opened.
    """

    def __init__(self, device: int | str | None = None, *, latency: float = 0.1) -> None:
        library = import_sounddevice()
        self.device = find_sound_device(device)
        self.samples_written = 0
        self._resampler = _resampler(self.device.rate)
        self._queue = _PlaybackQueue(self.device, library.CallbackStop)
        try:
            with portaudio_lock:
                self._stream: Any = library.OutputStream(
                    samplerate=self.device.rate,
                    device=device,
                    channels=self.device.channels,
                    dtype="float32",
                    latency=latency,
                    callback=self._queue.fill,
                    finished_callback=self._queue.end,
                )
                self._end = weakref.finalize(self, _end, self._stream)
                self._end.atexit = False  # sounddevice ends its streams by itself
                # It plays silence from now on, so the first samples do not wait for its start.
                self._stream.start()
        except library.PortAudioError as error:
            raise AudioError(
                f"the sound device {self.device.name} cannot be opened ({error}); close other "
                "programs that use it, or choose another"
            ) from error

    @property
    def underruns(self) -> int:
        """The number of gaps, where the next samples came too late."""
        return self._queue.underruns

    def write(self, samples: Any) -> None:
        """Play one chunk after the earlier ones; wait while the queue is full.

        Args:
            samples: ``(n,)``, ``(1, n)`` or ``(n, 1)``, float (full scale 1) or int16; an empty
                chunk plays nothing.

        Raises:
            AudioError: the samples cannot be used, the device is gone, or the player is closed,
                perhaps by another thread.
        """
        self._queue.check()
        chunk = to_mono(samples, "samples")
        for start in range(0, len(chunk), _BLOCK):
            block = chunk[start : start + _BLOCK]
            self._queue.put(self._resampled(block, last=False))
            self.samples_written += len(block)

    def close(self) -> None:
        """Wait until all samples are played, and release the device. Closing twice is no error.

        Raises:
            AudioError: the device is gone.
        """
        if self._queue.is_closed:
            return
        try:
            if self.samples_written:
                rest = self._resampled(np.zeros(0, np.float32), last=True)
                # Some systems drop the samples inside the device when a stream ends.
                silence = np.zeros(round(self._stream.latency * self.device.rate), np.float32)
                self._queue.finish(np.concatenate([rest, silence]))
        finally:
            self.abort()

    def abort(self) -> None:
        """Stop the sound at once, and release the device; any thread may call this."""
        self._queue.close()
        self._end()

    def _resampled(self, samples: Samples, *, last: bool) -> Samples:
        """Return samples at the device's rate; the last ones with the rest inside the resampler."""
        if self._resampler is None:
            return samples
        resampled: Samples = self._resampler.resample_chunk(samples, last=last)
        return resampled

    def __enter__(self) -> Player:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


class _PlaybackQueue:
    """The queue of samples for a device, which takes them in PortAudio's thread.

    Args:
        device: plays the samples.
        stop: the exception by which the callback ends the stream after the last sample.

    Attributes:
        waiting: samples in the queue, at the device's rate.
        underruns: gaps in the sound.
        is_last: whether no more samples come.
        is_closed: whether the queue was dropped.
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
        self._is_empty = False
        self._has_ended = False

    @property
    def is_full(self) -> bool:
        """Return whether the queue is full."""
        return self.waiting >= _AHEAD_SECONDS * self._device.rate

    def put(self, samples: Samples) -> None:
        """Append samples (n,) as soon as there is room."""
        signal = WakeSignal()
        while True:
            with self._lock:
                self.check()
                if not self.is_full:
                    break
                self._notifier.subscribe(signal)
            self._wait(signal)
        if len(samples):
            with self._lock:
                self.check()
                # Silence before the first samples is no gap.
                self.underruns += self._is_empty and self._has_begun
                self._has_begun, self._is_empty = True, False
                self._append(samples)

    def finish(self, rest: Samples) -> None:
        """Append the last samples (n,), and wait until all are played."""
        with self._lock:
            self.check()
            self._append(rest)
            self.is_last = True
        signal = WakeSignal()
        while True:
            with self._lock:
                if self._has_ended:
                    return
                self.check()
                self._notifier.subscribe(signal)
            self._wait(signal)

    def close(self) -> None:
        """Drop the queue; a waiting writer gets an error."""
        with self._lock:
            self.is_closed = True
            self._blocks.clear()
            self._notifier.notify()

    def check(self) -> None:
        """Raise AudioError if no more samples can be played."""
        if self.is_closed:
            raise AudioError("the player is closed; nothing more can be played")
        if self._has_ended:
            raise AudioError(f"the sound device {self._device.name} has stopped playing")

    def fill(self, out: Samples, frames: int, time: Any, status: Any) -> None:
        """Fill ``out`` (frames, channels); the callback of the device."""
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
            self._is_empty = filled < frames
            self._notifier.notify()
            if self.is_last and self._is_empty:
                raise self._stop

    def end(self) -> None:
        """Note the end of the stream; called by the device after the last sample or a failure."""
        with self._lock:
            self._has_ended = True
            self._notifier.notify()

    def _append(self, samples: Samples) -> None:
        self._blocks.append(samples)
        self.waiting += len(samples)

    def _wait(self, signal: WakeSignal) -> None:
        """Wait until the queue has changed."""
        if not signal.wait(_PATIENCE_SECONDS):
            raise AudioError(f"the sound device {self._device.name} accepts no more samples")


def _end(stream: Any) -> None:
    """Release a device in any state."""
    with portaudio_lock:
        stream.abort()
        stream.close()


def _resampler(rate: int) -> Any:
    """Return a resampler of chunks from 24 kHz to ``rate``; ``None`` where the rates are equal."""
    if rate == SAMPLE_RATE:
        return None
    import soxr

    return soxr.ResampleStream(SAMPLE_RATE, rate, 1, dtype="float32")
