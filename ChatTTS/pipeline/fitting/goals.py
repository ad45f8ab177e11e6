"""A goal: utterances that together have a time, the paces to draw, and the takes to keep."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from ...audio.samples import SAMPLE_RATE
from ..speech_lengths import Pace, SpeechLengths
from ..utterance import Utterance
from .shaping import Part
from .take_pauses import Pause, pause_between
from .takes import Take

# Takes of an utterance that are drawn at once.
TAKES = 4
# The first takes of an utterance are at paces so far from the predicted one, as factors: the
# prediction errs by some percent.
_SPREAD = (1.0, 0.95, 1.05, 1.0)
# Seconds between two utterances, for the first prediction.
_BORDER = 0.35


@dataclass
class Candidate:
    """An utterance with the takes that were drawn for it.

    Attributes:
        predicted: its seconds at the usual pace, as the texts alone tell them.
        fixed: samples of silence that the text puts around it.
        drawn: the tags of the takes that were asked for, in order.
        takes: those that have sound.
    """

    utterance: Utterance
    predicted: float
    fixed: tuple[int, int]
    drawn: list[str] = field(default_factory=list)
    takes: list[Take] = field(default_factory=list)

    @property
    def usable(self) -> list[Take]:
        """The takes with the fewest faulty words."""
        least = min((take.badness for take in self.takes), default=0)
        return [take for take in self.takes if take.badness == least]

    @property
    def expected(self) -> float:
        """Its seconds at the usual pace, as its takes tell them where there are any."""
        seconds = [len(take.samples) / SAMPLE_RATE / take.pace.factor for take in self.usable]
        return median(seconds) if seconds else self.predicted

    @property
    def quickest(self) -> Take | None:
        """The take that can be made shortest."""
        return min(self.usable, key=lambda take: _part(take).shortest, default=None)

    @property
    def slowest(self) -> Take | None:
        """The take that can be made longest."""
        return max(self.usable, key=lambda take: _part(take).longest, default=None)


@dataclass
class Goal:
    """Utterances that follow one another, and the samples that they shall have together.

    Attributes:
        target: samples, with all silence in and around them.
    """

    candidates: list[Candidate]
    target: int

    @property
    def _seconds(self) -> float:
        """The seconds of the takes, without the silence around and between them."""
        fixed = sum(sum(each.fixed) for each in self.candidates)
        return (self.target - fixed) / SAMPLE_RATE - _BORDER * (len(self.candidates) - 1)

    def paces(self, lengths: SpeechLengths, *, is_greedy: bool) -> list[list[Pace]]:
        """Return the paces of the takes to draw next, for each utterance.

        Args:
            is_greedy: whether all takes of a pace are equal.
        """
        seconds = max(0.01, self._seconds)
        factor = seconds / max(0.01, sum(each.expected for each in self.candidates))
        return [
            _wanted(lengths.paces, factor, each, is_greedy=is_greedy) for each in self.candidates
        ]

    def chosen(self) -> list[Take | None]:
        """Return the take to keep of each utterance; ``None`` for one without any.

        Each takes its share of the samples that are left; what it misses is left to the others.
        """
        seconds = self._seconds
        left = sum(each.expected for each in self.candidates)
        takes: list[Take | None] = []
        for each in self.candidates:
            wanted = max(0.0, seconds) * each.expected / max(1e-6, left)
            take = _nearest(each.usable, wanted)
            takes.append(take)
            left -= each.expected
            seconds -= wanted if take is None else len(take.samples) / SAMPLE_RATE
        return takes

    def is_met(self) -> bool:
        """Return whether the chosen takes are good, and can be given the target's length."""
        takes = self.chosen()
        if any(take is None or take.badness for take in takes):
            return False
        parts = parts_of(self.candidates, takes)
        shortest = sum(part.shortest for part in parts)
        longest = sum(part.longest for part in parts)
        return shortest <= self.target <= longest


def parts_of(candidates: Sequence[Candidate], takes: Sequence[Take | None]) -> list[Part]:
    """Return the parts of a text that are spoken by takes; those without a take are left out."""
    spoken = [
        (each, take) for each, take in zip(candidates, takes, strict=True) if take is not None
    ]
    parts = []
    for number, (each, take) in enumerate(spoken):
        border: Pause | None = None
        if number + 1 < len(spoken):
            border = pause_between(take.tail + spoken[number + 1][1].lead)
        parts.append(Part(take.samples, take.pauses, *each.fixed, border))
    return parts


def _part(take: Take) -> Part:
    return Part(take.samples, take.pauses)


def _nearest(takes: Sequence[Take], seconds: float) -> Take | None:
    """Return the take that can be given a length, or nearly; of several, the nearest one."""
    wanted = seconds * SAMPLE_RATE

    def distance(take: Take) -> tuple[float, float]:
        part = _part(take)
        beyond = max(part.shortest - wanted, wanted - part.longest, 0.0)
        return beyond, abs(len(take.samples) - wanted)

    return min(takes, key=distance, default=None)


def _wanted(
    paces: Sequence[Pace], factor: float, candidate: Candidate, *, is_greedy: bool
) -> list[Pace]:
    """Return the paces of the next takes of an utterance.

    The first ones are spread around the predicted pace; later ones are the nearest below and above
    it, since the first have told how long this voice takes.
    """

    def distance(pace: Pace, wanted: float) -> float:
        return abs(math.log(pace.factor / wanted))

    if not candidate.takes:
        found = [
            min(paces, key=lambda pace, by=by: distance(pace, factor * by))  # type: ignore[misc]
            for by in _SPREAD
        ]
    else:
        nearest = sorted(paces, key=lambda pace: distance(pace, factor))
        faster = [pace for pace in nearest if pace.factor <= factor][:1]
        slower = [pace for pace in nearest if pace.factor > factor][:1]
        both = faster + slower
        found = (both * TAKES)[:TAKES]
    if is_greedy:
        fresh = dict.fromkeys(pace for pace in found if pace.tags not in candidate.drawn)
        return list(fresh)
    return found
