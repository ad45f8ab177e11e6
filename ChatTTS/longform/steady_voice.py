"""A voice that stays what it is: utterances that leave its usual manner are spoken again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..audio.samples import Samples
from ..pipeline.results import Word
from ..pipeline.speech_lengths import SPEED_TAG
from ..text.emphasis import has_emphasis
from ..utils.locks import new_lock
from .attempts import FIRST, Attempt, AttemptingVoice, tell_faults
from .line_store import SpokenLine, SpokenPart
from .planned import PlannedLine, Reference
from .steadiness import Trait, Usual, heard_in

# Attempts, in all, at a line in which something is not steady. The first ones have other draws
# alone, the others continue a sample of the voice: some texts draw an unsteady voice elsewhere in
# every attempt, but not from there.
_PLAIN_ATTEMPTS, _MOST_ATTEMPTS = 2, 4
# A fault that the guard found weighs more than any strange trait.
_FAULT = 100.0


@dataclass(frozen=True, eq=False)
class _Unit:
    """A part of a line that one attempt gives: an utterance, or all of a line that fits its time.

    Attributes:
        parts: its utterances.
        samples: float32 (n,).
        words: their times count from its beginning.
        strange: the traits that leave their bounds, each with how far.
    """

    parts: tuple[SpokenPart, ...]
    samples: Samples
    words: tuple[Word, ...]
    strange: dict[Trait, float]

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of its utterances."""
        return tuple(part.text for part in self.parts)

    @property
    def badness(self) -> float:
        """The weight of its strange traits and faults; 0 for none."""
        return sum(self.strange.values()) + _FAULT * sum(len(part.faults) for part in self.parts)


@dataclass(frozen=True)
class _Standard:
    """The standard by which the lines of a reference are judged.

    Attributes:
        usual: the usual traits.
        sample: a sample prompt in the usual voice, if the model takes one.
    """

    usual: Usual
    sample: Mapping[str, str] | None


class SteadyVoice:
    """A :class:`.line_speaker.LineVoice` that compares each utterance with the voice's usual ones.

    What is usual are the medians over the reference of a line, which is spoken at its first use. A
    line with an utterance that leaves the bounds is spoken again, and of each utterance the attempt
    with the least wrong is kept.

    Args:
        voice: speaks the attempts.
        mends: whether anything is spoken again; otherwise it is only told.
        warn: called with each warning, which names its line.
    """

    def __init__(self, voice: AttemptingVoice, mends: bool, warn: Callable[[str], None]) -> None:
        self._voice, self._mends, self._warn = voice, mends, warn
        self._known: dict[Reference, _Standard | None] = {}
        self._lock = new_lock()
        self._locks: dict[Reference, threading.Lock] = {}

    def speak(self, planned: PlannedLine, stop: threading.Event) -> SpokenLine | None:
        """Return the speech of a line: see :class:`.line_speaker.LineVoice`."""
        standard = self._standard(planned, stop)
        spoken = self._voice.attempt(planned, stop, FIRST)
        if spoken is None or stop.is_set():
            return None
        if standard is not None:
            units = list(_units(planned, spoken, standard.usual))
            for number in range(1, _MOST_ATTEMPTS if self._mends else 1):
                if not any(unit.strange for unit in units):
                    break
                sample = None if number < _PLAIN_ATTEMPTS else standard.sample
                again = self._voice.attempt(planned, stop, Attempt(number, sample or {}))
                if again is None:
                    return None
                units = _better(units, list(_units(planned, again, standard.usual)))
            for unit in units:
                self._tell(planned, unit)
            spoken = _joined(units)
        tell_faults(planned, spoken, self._warn)
        return spoken

    def _standard(self, planned: PlannedLine, stop: threading.Event) -> _Standard | None:
        """Return what a line is compared with; ``None`` if that cannot be told."""
        reference = planned.reference
        if reference is None:
            return None
        with self._lock:
            own = self._locks.setdefault(reference, new_lock())
        with own:  # lines of other voices need not wait
            if reference not in self._known:
                sounds = self._voice.sounds(planned, reference, stop)
                if sounds is None:
                    return None
                self._known[reference] = self._found(sounds)
            return self._known[reference]

    def _found(self, sounds: Sequence[tuple[Samples, str]]) -> _Standard | None:
        heard = [heard_in(sound, text) for sound, text in sounds]
        usual = Usual.of([each for each in heard if each is not None])
        if usual is None:
            return None
        best = usual.most_usual(heard)
        sample = None if best is None else self._voice.sample(*sounds[best])
        return _Standard(usual, sample)

    def _tell(self, planned: PlannedLine, unit: _Unit) -> None:
        for trait in unit.strange:
            text = " ".join(unit.texts)
            self._warn(f"{planned.line.place}: the {trait.value} is not the usual one in {text!r}")


def _units(planned: PlannedLine, spoken: SpokenLine, usual: Usual) -> Iterator[_Unit]:
    """Yield the units of an attempt at a line, in order."""
    line = planned.line
    # Emphasis, durations and tags of speed change these on purpose.
    judged = {Trait.VOICE, Trait.LOUDNESS, Trait.PACE}
    if has_emphasis(line.text):
        judged -= {Trait.LOUDNESS, Trait.PACE}
    if line.duration is not None or SPEED_TAG.search(line.text):
        judged -= {Trait.PACE}
    groups = [spoken.parts] if line.duration is not None else [(part,) for part in spoken.parts]
    first = 0
    for parts in groups:
        last = first + sum(part.samples for part in parts)
        samples = spoken.samples[first:last]
        heard = heard_in(samples, " ".join(part.text for part in parts))
        found = {} if heard is None else usual.strangeness(heard)
        strange = {trait: far for trait, far in found.items() if trait in judged and far > 1}
        is_last = last == len(spoken.samples)
        words = (
            word.shifted(-first)
            for word in spoken.words
            if first <= word.start_sample and (word.start_sample < last or is_last)
        )
        yield _Unit(parts, samples, tuple(words), strange)
        first = last


def _better(units: Sequence[_Unit], others: Sequence[_Unit]) -> list[_Unit]:
    """Return of each unit the attempt with less wrong, the first one of equals.

    Another attempt of a refine pass may have other texts; it cannot replace a unit.
    """
    if [unit.texts for unit in units] != [unit.texts for unit in others]:
        return list(units)
    return [min(pair, key=lambda unit: unit.badness) for pair in zip(units, others, strict=True)]


def _joined(units: Sequence[_Unit]) -> SpokenLine:
    """Return a line of units."""
    words: list[Word] = []
    length = 0
    for unit in units:
        words += [word.shifted(length) for word in unit.words]
        length += len(unit.samples)
    samples: Samples = np.concatenate([np.zeros(0, np.float32), *(unit.samples for unit in units)])
    return SpokenLine(samples, tuple(part for unit in units for part in unit.parts), tuple(words))
