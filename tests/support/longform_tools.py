"""A fake of ``Chat.infer`` for the tests of long works."""

from __future__ import annotations

import hashlib
import threading
from typing import Any

import numpy as np

from ChatTTS.audio.samples import SAMPLE_RATE, Samples
from ChatTTS.errors import ConfigError
from ChatTTS.model.generation import FinishReason
from ChatTTS.pipeline.results import (
    Fit,
    SpokenText,
    SpokenUtterance,
    Waveforms,
    Word,
)


class Speaks:
    """Replaces ``Chat.infer``: a tone for each text, whose pitch and length are its hash.

    Attributes:
        said: the texts, in the order in which they began.
        seeds: those of the texts.
        searches: one item for each search for attention heads.
        most: calls that were running at once.
        fails_at: a text whose call raises.
        durations: the times that texts were given, likewise.
    """

    def __init__(self) -> None:
        self.said: list[str] = []
        self.seeds: list[int] = []
        self.searches: list[int] = []
        self.durations: list[float] = []
        self.most = self._running = 0
        self.fails_at: str | None = None
        self.seconds: float | None = None
        self.together: threading.Barrier | None = None
        self._lock = threading.Lock()

    def __call__(self, text: str, **arguments: Any) -> Waveforms:
        with self._lock:
            self.said.append(text)
            self.seeds.append(arguments["params_infer_code"]["manual_seed"])
            self._running += 1
            self.most = max(self.most, self._running)
        try:
            if self.together is not None:
                self.together.wait(10)
            if text == self.fails_at:
                raise ConfigError("no such thing")
            duration = arguments.get("duration")
            if duration is None:
                return self.spoken(text)
            assert arguments["may_be_late"]
            return self.fitted(text, duration)
        finally:
            with self._lock:
                self._running -= 1

    def fitted(self, text: str, duration: float) -> Waveforms:
        """Speak for exactly that time; for a second at least."""
        self.durations.append(duration)
        seconds = max(duration, 1.0)
        samples = tone(200, seconds)
        words = [Word(text, 0.0, seconds, 0, len(samples), 0, len(text), 1.0)]
        utterance = SpokenUtterance(text, len(samples), FinishReason.STOP, words)
        late = seconds - duration
        fit = Fit(duration, late, 0.0, 1.0, 60.0, 1.0, 0.0, ("[speed_5]",))
        return Waveforms([samples], [SpokenText([utterance], fit=fit)])

    def spoken(self, text: str) -> Waveforms:
        number = hashlib.sha256(text.encode()).digest()[0]
        seconds = self.seconds or 0.6 + number / 500
        sound = tone(100 + number, seconds)
        silence = np.zeros(4800, dtype=np.float32)
        samples = np.concatenate([silence, sound, silence])
        end = len(samples) - 4800
        words = [Word(text, 0.2, end / SAMPLE_RATE, 4800, end, 0, len(text), 1.0)]
        utterance = SpokenUtterance(text, len(samples), FinishReason.STOP, words)
        return Waveforms([samples], [SpokenText([utterance])])


def noise(text: str, voice: float = 1.0, level: float = 0.1, pace: float = 0.04) -> Samples:
    """Return noise as long as a text, with the spectrum of a voice: the higher, the darker."""
    count = round(sum(map(str.isalnum, text)) * pace * SAMPLE_RATE)
    drawn = np.random.default_rng(len(text)).standard_normal(count)
    spectrum = np.fft.rfft(drawn) / (1 + voice * np.arange(count // 2 + 1) * 20 / count) ** 2
    sound = np.fft.irfft(spectrum, count)
    result: Samples = (sound * level / np.sqrt(np.square(sound).mean())).astype(np.float32)
    return result


def tone(pitch: float, seconds: float, level: float = 0.2) -> Samples:
    times = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    wave: Samples = (level * np.sin(2 * np.pi * pitch * times)).astype(np.float32)
    return wave
