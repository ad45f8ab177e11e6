"""What a run of streams comes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from statistics import median
from typing import Any

from ...common.report import FRAMES_PER_SECOND
from .player import Chunk, Playback

# Steps within which the first sound is asked for in exact mode, but for 100 ms.
ASKED_STEPS = 60
# Of these the most of the rounds counts, of all others the median.
_WORST = ("first_worst_s", "underruns", "silent_s", "delay_s")


@dataclass(frozen=True)
class Streamed:
    """One run of so many streams, all of ``frames`` frames (seconds, wall clock).

    Attributes:
        stream_s: from the call to the end of the last stream.
        chunks: of each stream.
        offline_s: the same side's whole ``infer`` of as many other texts, in the same round.
        generate_s: its generation alone.
    """

    streams: int
    frames: int
    stream_s: float
    chunks: Sequence[Sequence[Chunk]]
    offline_s: float
    generate_s: float

    @cached_property
    def playbacks(self) -> list[Playback]:
        """What the players of the streams gave."""
        return [Playback.of(own) for own in self.chunks]

    @property
    def first_s(self) -> float:
        """From the call to the first sound: the median of the streams."""
        return median(own[0].seconds for own in self.chunks)

    @property
    def figures(self) -> dict[str, float]:
        """What the run comes to.

        ``steps`` are those that the engine had made when the first sound came, and ``beyond_ms``
        what the first sound took beside them; ``beyond_60_ms`` is the same for the steps that are
        asked for. The real-time factors are of all streams together. Underruns and silence are
        those of all players, ``delay_s`` is what the one of them needs that needs most.
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
            "beyond_60_ms": 1000 * (self.first_s - ASKED_STEPS * step),
            "rtf": self.stream_s / audio,
            "offline_rtf": self.offline_s / audio,
            "rtf_ratio": self.stream_s / self.offline_s,
            "underruns": sum(playback.underruns for playback in self.playbacks),
            "silent_s": sum(playback.silent_s for playback in self.playbacks),
            "delay_s": max(playback.delay_s for playback in self.playbacks),
        }

    @property
    def record(self) -> dict[str, Any]:
        """Figures and all that they come from; chunks as seconds, samples, frames generated."""
        return {
            **self.figures,
            "stream_s": self.stream_s,
            "offline_s": self.offline_s,
            "generate_s": self.generate_s,
            "chunks": [[list(astuple(chunk)) for chunk in own] for own in self.chunks],
        }


def summary(rounds: Sequence[Streamed]) -> dict[str, float]:
    """Each figure's median over the rounds, or the most of them where the worst counts."""
    return {
        name: (max if name in _WORST else median)(r.figures[name] for r in rounds)
        for name in rounds[0].figures
    }


def ratios(ours: Sequence[Streamed], peer: Sequence[Streamed]) -> dict[str, dict[str, float]]:
    """How many times sooner and faster ours is, for pairs of neighbouring rounds."""
    pairs = list(zip(ours, peer, strict=True))
    found: Mapping[str, list[float]] = {
        "first sound": [p.first_s / o.first_s for o, p in pairs],
        "whole stream": [p.stream_s / o.stream_s for o, p in pairs],
    }
    return {
        name: {"median": median(values), "min": min(values), "max": max(values)}
        for name, values in found.items()
    }
