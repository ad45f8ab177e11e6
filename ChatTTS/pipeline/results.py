"""Results of ``infer`` and of streams: waveforms, pieces, and how each text ended."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..audio.samples import SAMPLE_RATE
from ..errors import ChatTTSError, TimeTooShortError, shown
from ..model.generation import FinishReason
from ..text.lexicon import LexiconUse

T = TypeVar("T", bound="_Timed")

# Seconds of silence that may be added at the end of speech that fits, beside 5 ms of the model's.
_WITHIN = 0.012


@dataclass(frozen=True)
class _Timed:
    """A part of the caller's text, and its place in the sound."""

    text: str
    start: float
    end: float
    start_sample: int
    end_sample: int
    start_character: int
    end_character: int

    def shifted(self: T, samples: int) -> T:
        """Return it as it is some samples later."""
        return self.moved(lambda place: place + samples)

    def moved(self: T, move: Callable[[int], int]) -> T:
        """Return it where the sound was changed; ``move`` tells where a sample is now."""
        first, last = move(self.start_sample), move(self.end_sample)
        return replace(
            self,
            start=first / SAMPLE_RATE,
            end=last / SAMPLE_RATE,
            start_sample=first,
            end_sample=last,
        )


@dataclass(frozen=True)
class Word(_Timed):
    """A word of the caller's text, and when it is spoken.

    Attributes:
        text: as the caller wrote it, without the marks around it.
        start, end: in seconds from the beginning of its waveform.
        start_sample, end_sample: these times in samples at 24 kHz.
        start_character, end_character: its characters in the caller's text.
        confidence: how clearly the model looked at the word while it spoke, from 0 to 1. It is 0
            for a word that was not spoken; start and end are equal then.
    """

    confidence: float


@dataclass(frozen=True)
class Fault(_Timed):
    """A fault of the speech, as the guard found it.

    Attributes:
        text: the words that were skipped, cut off, repeated or held, as the caller wrote them;
            empty for sound that belongs to no word.
        start, end: in seconds from the beginning of its waveform; equal for words that are not
            in the sound.
        start_sample, end_sample: these times in samples at 24 kHz.
        start_character, end_character: its words in the caller's text; without words, the place
            behind the word before.
        kind: ``skipped``, ``repeated``, ``tail`` (sound after the last word), ``cut`` (an end
            before the last word) or ``wordless`` (sound without words, or a word held too long).
        words: the number of its words.
    """

    kind: str
    words: int


@dataclass(frozen=True)
class Fit:
    """The changes by which a text was made to fit its time.

    Attributes:
        duration: the seconds that were asked for.
        late: seconds by which the waveform is longer than that, since no attempt was short enough.
        silence: seconds of silence at its end, since no attempt was long enough.
        shortest, longest: the seconds that the attempts drawn for it can be made to last.
        tempo: factor by which the tempo of the finished speech was changed, above 1 for faster.
        pauses: seconds by which its pauses together were lengthened; negative if shortened.
        speeds: for each utterance, the control tags of the attempt that was kept.
    """

    duration: float
    late: float
    silence: float
    shortest: float
    longest: float
    tempo: float
    pauses: float
    speeds: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Return whether its speech begins and ends within 20 ms of its time."""
        return not self.late and self.silence <= _WITHIN


@dataclass
class SpokenUtterance:
    """One utterance of a text: its words, its length, and how it ended.

    Attributes:
        text: as it went into the speech pass.
        samples: its length, in samples at 24 kHz.
        finish: how it ended; ``None`` while it is being generated.
        words: those that are final, where their times were asked for. Their times count from the
            beginning of the utterance.
        faults: those that the guard found, in the order in which they became known. Their times
            count from the beginning of the utterance.
        attempts: how many times it was generated until now.
    """

    text: str
    samples: int = 0
    finish: FinishReason | None = None
    words: list[Word] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    attempts: int = 1


@dataclass
class SpokenText:
    """The spoken utterances of one text, in order.

    Attributes:
        utterances: as above.
        lexicon_uses: where a lexicon replaced words of the text.
        left_out: what the voice cannot speak of the text, each once: letters and digits as they
            are read, and the beginnings of words that are too long.
        fit: how it was made to fit its time, if it was given one.
        speaker: name of the checkpoint's speaker that speaks, where the caller names no voice.
    """

    utterances: list[SpokenUtterance] = field(default_factory=list)
    lexicon_uses: tuple[LexiconUse, ...] = ()
    left_out: tuple[str, ...] = ()
    fit: Fit | None = None
    speaker: str | None = None

    @property
    def words(self) -> list[Word]:
        """The words that are final, in order; their times count from the text's beginning."""
        words: list[Word] = []
        for utterance in self.utterances:
            start = self.start_of(utterance)
            words += [word.shifted(start) for word in utterance.words]
            if utterance.finish is None:
                break  # where the next one begins is not known yet
        return words

    @property
    def faults(self) -> list[Fault]:
        """The faults that the guard found; their times count from the text's beginning."""
        faults: list[Fault] = []
        for utterance in self.utterances:
            start = self.start_of(utterance)
            faults += [fault.shifted(start) for fault in utterance.faults]
            if utterance.finish is None:
                break
        return faults

    def start_of(self, utterance: SpokenUtterance) -> int:
        """Return the samples of the text before an utterance, all of which must be decoded."""
        before = takewhile(lambda other: other is not utterance, self.utterances)
        return sum(other.samples for other in before)

    @property
    def finish_reason(self) -> str | None:
        """``stop``, ``length`` or ``abort``; ``None`` while an utterance is unfinished."""
        reasons = [u.finish for u in self.utterances]
        if None in reasons:
            return None
        for reason in (FinishReason.ABORT, FinishReason.LENGTH):
            if reason in reasons:
                return str(reason.value)
        return str(FinishReason.STOP.value)


class Waveforms(list[NDArray[np.float32]]):
    """A list with one 1-D float32 array at 24 kHz for each text.

    Attributes:
        rows: for each text, its utterances with their lengths and finish reasons.
    """

    def __init__(self, waveforms: Iterable[NDArray[np.float32]], rows: list[SpokenText]) -> None:
        super().__init__(waveforms)
        self.rows = rows

    @property
    def finish_reasons(self) -> list[str | None]:
        """The ending of each text: ``stop``, ``length`` or ``abort``."""
        return [row.finish_reason for row in self.rows]

    @property
    def words(self) -> list[list[Word]]:
        """The words of each text, where their times were asked for."""
        return [row.words for row in self.rows]

    @property
    def lexicon_uses(self) -> list[tuple[LexiconUse, ...]]:
        """The places of each text where a lexicon replaced words."""
        return [row.lexicon_uses for row in self.rows]

    @property
    def left_out(self) -> list[tuple[str, ...]]:
        """The parts of each text that the voice could not speak; see :class:`SpokenText`."""
        return [row.left_out for row in self.rows]

    @property
    def faults(self) -> list[list[Fault]]:
        """The faults of each text, where a guard looked for them."""
        return [row.faults for row in self.rows]

    @property
    def fits(self) -> list[Fit | None]:
        """The fit of each text to its time; ``None`` for one that was given none."""
        return [row.fit for row in self.rows]


@dataclass(frozen=True)
class Piece:
    """A piece of speech; all of it belongs to one utterance.

    Attributes:
        samples: float32 [n] at 24 kHz, n > 0.
        position: of the first sample in the whole.
        utterance: number of the utterance in the text, from 0.
        text: of the utterance, as it went into the speech pass.
        finish_reason: how the utterance ended, ``stop``, ``length`` or ``abort``, in its last
            piece; ``None`` in the others.
        words: those that became final since the piece before, where their times were asked for. A
            word is final about half a second after it ends, so it may come in a later piece.
        faults: those that a guard found since the piece before. Words that are left out are known
            about half a second later, other faults at the end of the utterance.
        attempts: how many times the utterance was generated until now.
    """

    samples: NDArray[np.float32]
    position: int
    utterance: int
    text: str
    finish_reason: str | None
    words: tuple[Word, ...] = ()
    faults: tuple[Fault, ...] = ()
    attempts: int = 1


class DurationError(TimeTooShortError):
    """Raised for texts that cannot be spoken in the time that they were given.

    Attributes:
        texts: those texts.
        fits: of each of them, with the shortest time that it can take.
        waveforms: of all texts of the call, with these as short as can be; ``None`` for a stream.
    """

    def __init__(
        self, texts: Sequence[str], fits: Sequence[Fit], waveforms: Waveforms | None
    ) -> None:
        needs = (
            f"{shown(text)} cannot be spoken in {fit.duration:g} s: the shortest time that it can "
            f"take is {math.ceil(fit.shortest * 100) / 100:.2f} s"
            for text, fit in zip(texts, fits, strict=True)
        )
        super().__init__(f"{'; '.join(needs)}. Give it that time, or fewer words")
        self.texts, self.fits = list(texts), list(fits)
        self.waveforms = waveforms


class EmptySpeechError(ChatTTSError):
    """Raised for utterances that the model ended at once in every attempt.

    Attributes:
        texts: those utterances.
        waveforms: of all the texts, so that no speech is lost; ``None`` at the end of a stream,
            which has given them already.
    """

    def __init__(self, texts: list[str], waveforms: Waveforms | None) -> None:
        listed = ", ".join(repr(t if len(t) <= 40 else t[:40] + "...") for t in texts)
        super().__init__(
            f"nothing was spoken for {listed}: the model ended at once in every attempt. Try "
            "another seed or more words, or take the empty result with ensure_non_empty=False"
        )
        self.texts = texts
        self.waveforms = waveforms
