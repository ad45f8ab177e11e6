"""A stand-in for the library sounddevice, with a sound device that can be watched."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest


class PortAudioError(Exception):
    """A stand-in for the library's error."""


class CallbackStop(Exception):  # noqa: N818
    """A stand-in for the library's exception that ends a stream."""


class FakeStream:
    """A stream to a device that asks for samples when there are some.

    Attributes:
        settings: the settings that it was opened with.
        events: ``start``, ``finished``, ``abort`` and ``close``, in order.
        blocks: the samples that the device got, float32 [n, channels] each.
    """

    latency = 0.1

    def __init__(self, library: FakeLibrary, **settings: Any) -> None:
        self.settings = settings
        self.events: list[str] = []
        self.blocks: list[np.ndarray] = []
        self._library = library
        self._queue = settings["callback"].__self__
        self._flags: Iterator[bool] = iter(library.underflows)
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self.events.append("start")
        if self._library.error_at_start is not None:
            raise self._library.error_at_start
        if self._library.asks:
            self._thread.start()

    def abort(self) -> None:
        self._has_ended.set()
        if self._thread.is_alive():
            self._thread.join(30)
        self.events.append("abort")

    def close(self) -> None:
        self.events.append("close")

    def ask(self, frames: int) -> np.ndarray:
        """Let the device ask for ``frames`` samples once; return what it got."""
        out = np.full((frames, self.settings["channels"]), np.nan, np.float32)
        status = SimpleNamespace(output_underflow=next(self._flags, False))
        try:
            self.settings["callback"](out, frames, SimpleNamespace(), status)
        except CallbackStop:
            self._end()
        self.blocks.append(out)
        return out

    def fail(self) -> None:
        """End the stream, as when the device is unplugged."""
        self._end()

    @property
    def frames(self) -> np.ndarray:
        """All samples that the device got, float32 [n, channels]."""
        return np.concatenate(self.blocks)

    @property
    def heard(self) -> np.ndarray:
        """The sound of one channel, without the silence that flushes the last samples."""
        assert self.events == ["start", "finished", "abort", "close"]
        # One more frame: the device asked once more and learned of the end.
        silence = round(self.latency * self.settings["samplerate"]) + 1
        assert not self.frames[-silence:].any()
        return self.frames[:-silence, 0]

    def _end(self) -> None:
        self.events.append("finished")
        self._has_ended.set()
        self.settings["finished_callback"]()

    def _run(self) -> None:
        taken, most = 0, self._library.ctrl_c_after
        while not self._has_ended.wait(0.0005):
            # The device asks for no more than there is, as if it were always in time.
            # What an aborted player still holds is never taken, so that it waits for ever.
            while (waiting := self._queue.waiting) and (most is None or taken < most):
                if self._has_ended.is_set():
                    return
                taken += len(self.ask(min(waiting, 256)))
            if most is not None and taken >= most and self._queue.is_full:
                os.kill(os.getpid(), signal.SIGINT)
                return
            if self._queue.is_last and not self._queue.waiting:
                self.ask(1)


class FakeLibrary(ModuleType):
    """A machine with one output device, ``Speaker``, and a microphone.

    Attributes:
        takes: the pairs of rate and channels that the device accepts.
        asks: whether the device asks for samples by itself.
        underflows: the underflow flag of each request for samples.
        ctrl_c_after: frames after which it stops asking and sends Ctrl-C once the player is
            full; ``None`` for never.
        error_at_start: raised when a stream is started.
        streams: the streams that were opened.
    """

    PortAudioError = PortAudioError
    CallbackStop = CallbackStop

    def __init__(self) -> None:
        super().__init__("sounddevice")
        self.has_device = True
        self.takes = {(24_000, 1), (48_000, 1), (24_000, 2), (48_000, 2)}
        self.asks = True
        self.underflows: Iterable[bool] = ()
        self.ctrl_c_after: int | None = None
        self.error_at_start: Exception | None = None
        self.streams: list[FakeStream] = []

    @classmethod
    def installed(cls, monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
        """Return a fake that is imported in the place of the library."""
        library = cls()
        monkeypatch.setitem(sys.modules, "sounddevice", library)
        return library

    @property
    def stream(self) -> FakeStream:
        """The only stream that was opened."""
        (only,) = self.streams
        return only

    def OutputStream(self, **settings: Any) -> FakeStream:  # noqa: N802
        self.check_output_settings(
            settings["device"],
            settings["channels"],
            settings["dtype"],
            samplerate=settings["samplerate"],
        )
        self.streams.append(FakeStream(self, **settings))
        return self.streams[-1]

    def query_devices(self, device: Any = None, kind: str | None = None) -> Any:
        speaker = {"name": "Speaker", "max_output_channels": 2, "default_samplerate": 48_000.0}
        if kind is None:
            microphone = {**speaker, "name": "Microphone", "max_output_channels": 0}
            return (microphone, speaker) if self.has_device else ()
        if not self.has_device:
            raise PortAudioError("Error querying device -1")
        if device not in (None, 1, "Speaker"):
            raise ValueError(f"No {kind} device matching {device!r}")
        return speaker

    def check_output_settings(
        self, device: Any, channels: int, dtype: str, *, samplerate: int
    ) -> None:
        assert dtype == "float32"
        if (samplerate, channels) not in self.takes:
            raise PortAudioError("Invalid sample rate")


class _NoPortAudio:
    """An importer of a library that does not find PortAudio."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "sounddevice":
            raise OSError("PortAudio library not found")


def hide_portaudio(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the import of the library fail as on Linux without PortAudio."""
    monkeypatch.delitem(sys.modules, "sounddevice", raising=False)
    monkeypatch.setattr(sys, "meta_path", [_NoPortAudio(), *sys.meta_path])
