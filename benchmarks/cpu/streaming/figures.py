"""Figures of a run of streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from statistics import median
from typing import Any

from ...common.report import FRAMES_PER_SECOND
from .player import Chunk, Playback

# The target of exact mode: the first sound comes at most 100 ms after so many steps.
TARGET_STEPS = 60
# Figures that are summed up by the maximum of the rounds; all others are by the median.
_WORST = ("first_worst_s", "underruns", "silent_s", "delay_s")


@dataclass(frozen=True)
class Streamed:
    """One run of ``streams`` streams with ``frames`` frames each. Times are in seconds.

    Attributes:
        stream_s: from the call to the end of the last stream.
        chunks: the chunks of each stream.
        offline_s: the side's ``infer`` without a stream, of as many other texts in this round.
        generate_s: the side's generation alone.
    """

    streams: int
    frames: int
    stream_s: float
    chunks: Sequence[Sequence[Chunk]]
    offline_s: float
    generate_s: float

    @cached_property
    def playbacks(self) -> list[Playback]:
        """The simulated playback of each stream."""
        return [Playback.of(own) for own in self.chunks]

    @property
    def first_s(self) -> float:
        """Seconds from the call to the first sound, median of the streams."""
        return median(own[0].seconds for own in self.chunks)

    @property
    def figures(self) -> dict[str, float]:
        """The figures of the run.

        ``steps`` is the number of steps before the first sound, and ``beyond_ms`` the time until
        the first sound less the time of these steps; ``beyond_60_ms`` subtracts 60 steps instead.
        The real-time factors are of all streams together. Underruns and silence are summed over
        all players; ``delay_s`` is that of the player that needs the longest delay.
        """
        step = self.generate_s / self.frames
        steps = median(own[0].generated for own in self.chunks) / self.streams
        audio = self.streams * self.frames / FRAMES_PER_SECOND
        return {
            "first_s": self.first_s,
            "first_worst_s": max(own[0].seconds for own in self.chunks),
            "step_ms": 1000 * step,
            "steps": steps,
            "beyond_ms": 1000 * (self.first_s - steps * step),
            "beyond_60_ms": 1000 * (self.first_s - TARGET_STEPS * step),
            "rtf": self.stream_s / audio,
            "offline_rtf": self.offline_s / audio,
            "rtf_ratio": self.stream_s / self.offline_s,
            "underruns": sum(playback.underruns for playback in self.playbacks),
            "silent_s": sum(playback.silent_s for playback in self.playbacks),
            "delay_s": max(playback.delay_s for playback in self.playbacks),
        }

    @property
    def record(self) -> dict[str, Any]:
        """The figures and the values behind them; a chunk is [seconds, samples, frames]."""
        return {
            **self.figures,
            "stream_s": self.stream_s,
            "offline_s": self.offline_s,
            "generate_s": self.generate_s,
            "chunks": [[list(astuple(chunk)) for chunk in own] for own in self.chunks],
        }


def summary(rounds: Sequence[Streamed]) -> dict[str, float]:
    """Return each figure's median over the rounds, or its maximum if it is one of ``_WORST``."""
    return {
        name: (max if name in _WORST else median)(r.figures[name] for r in rounds)
        for name in rounds[0].figures
    }


def ratios(ours: Sequence[Streamed], peer: Sequence[Streamed]) -> dict[str, dict[str, float]]:
    """Return the peer's times divided by ours, for each pair of rounds: median, least and most."""
    pairs = list(zip(ours, peer, strict=True))
    found: Mapping[str, list[float]] = {
        "first sound": [p.first_s / o.first_s for o, p in pairs],
        "whole stream": [p.stream_s / o.stream_s for o, p in pairs],
    }
    return {
        name: {"median": median(values), "min": min(values), "max": max(values)}
        for name, values in found.items()
    }
