"""The fitted pass: utterances to speech of exact length, text by text.

Of each utterance several takes are drawn side by side, at the paces that are predicted to fit. The
nearest good one is kept, or others are drawn. Pauses and tempo make up for the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from ...audio.samples import SAMPLE_RATE
from ...errors import shown
from ...model.generation import Cancellation, Delta, FinishReason
from ...model.tokenizer import spoken_part
from ..model import Model
from ..results import DurationError, Fit
from ..speech_lengths import SPEED_TAG, Pace, SpeechLengths, units_of
from ..speech_pass import SpeechPass
from ..utterance import Sound, Utterance, UtteranceUpdate
from .goals import TAKES, Candidate, Goal, parts_of
from .shaping import Shaped, ShapedPart, shape
from .takes import Take, TakeDrawer, TakeRequest
from .times import Timed

logger = logging.getLogger(__name__)

# Draws of takes, in all, for an utterance.
_ROUNDS = 3
# Takes that are drawn side by side, at most, unless one text has more.
_MOST_TAKES = 64

Refine = Callable[[Sequence[Utterance]], Sequence[Utterance]]


class FittedPass:
    """Speaks texts in the time that each of them has.

    Args:
        texts: with their times.
        speech: makes the requests of their utterances.
        drawer: draws the takes.
        lengths: predicts the seconds of utterances.
        settings: the control tags of the speech pass; the paces replace those of the speed.
        refine: refines the texts of utterances first, if it is asked for.
        raises: raise where a text cannot fit, before its sound; otherwise its fit tells.
    """

    def __init__(
        self,
        model: Model,
        texts: Sequence[Timed],
        speech: SpeechPass,
        drawer: TakeDrawer,
        lengths: SpeechLengths,
        cancelled: Cancellation,
        *,
        settings: str,
        refine: Refine | None = None,
        raises: bool = False,
    ) -> None:
        self._model, self._texts, self._speech = model, texts, speech
        self._drawer, self._lengths, self._cancelled = drawer, lengths, cancelled
        self._settings = settings
        self._refine, self._raises = refine, raises

    def updates(self) -> Iterator[UtteranceUpdate]:
        """Yield one update for each utterance, with its sound, text by text.

        Raises:
            DurationError: with ``raises``, a text cannot fit.
        """
        for group in self._groups():
            if self._refine is not None:
                refined = self._refine([u for text in group for u in text.utterances])
                group = [replace(text, utterances=_of(text, refined)) for text in group]
            for text, candidates, takes in self._spoken(group):
                if self._cancelled.is_set():
                    yield from (_silent(u, FinishReason.ABORT, 1) for u in text.utterances)
                else:
                    yield from self._shaped(text, candidates, takes)

    def _groups(self) -> Iterator[list[Timed]]:
        """Yield the texts whose takes are drawn side by side."""
        group: list[Timed] = []
        for text in self._texts:
            if group and TAKES * sum(len(t.utterances) for t in [*group, text]) > _MOST_TAKES:
                yield group
                group = []
            group.append(text)
        if group:
            yield group

    def _spoken(
        self, group: Sequence[Timed]
    ) -> Iterator[tuple[Timed, list[Candidate], list[Take | None]]]:
        """Yield each text with the takes to keep."""
        firsts, rests = [], []
        for text in group:
            candidates = [self._candidate(u) for u in text.utterances]
            # Where the first utterance is the sample prompt of the others, it is chosen before.
            leads = 1 if self._speech.is_followed(text.utterances[0]) else len(candidates)
            expected = [each.predicted for each in candidates]
            share = sum(expected[:leads]) / max(1e-6, sum(expected))
            firsts.append(Goal(candidates[:leads], round(text.target * share)))
            rests.append(candidates[leads:])
        self._draw(group, firsts)
        chosen = [goal.chosen() for goal in firsts]
        following = [number for number, rest in enumerate(rests) if rest]
        goals = []
        for number in following:
            first = chosen[number][0]
            used = 0
            if first is not None:
                self._speech.follow(firsts[number].candidates[0].utterance, [first.delta.ids])
                used = len(first.samples) + sum(firsts[number].candidates[0].fixed)
            goals.append(Goal(rests[number], group[number].target - used))
        self._draw([group[number] for number in following], goals)
        for number, goal in zip(following, goals, strict=True):
            chosen[number] += goal.chosen()
        for text, goal, rest, takes in zip(group, firsts, rests, chosen, strict=True):
            yield text, goal.candidates + rest, takes

    def _draw(self, texts: Sequence[Timed], goals: Sequence[Goal]) -> None:
        """Draw takes for all goals until each is met, or has had its rounds."""
        open_goals = list(zip(texts, goals, strict=True))
        for _ in range(_ROUNDS):
            requests = [
                (candidate, self._request(text, candidate, pace))
                for text, goal in open_goals
                for candidate, paces in zip(
                    goal.candidates,
                    goal.paces(self._lengths, is_greedy=self._speech.is_greedy),
                    strict=True,
                )
                for pace in paces
            ]
            if not requests:
                return
            takes = self._drawer.draw([request for _, request in requests])
            if self._cancelled.is_set():
                return
            for (candidate, _), take in zip(requests, takes, strict=True):
                if take is not None:
                    candidate.takes.append(take)
            open_goals = [(text, goal) for text, goal in open_goals if not goal.is_met()]

    def _candidate(self, utterance: Utterance) -> Candidate:
        units = units_of(self._model.tokenizer, spoken_part(utterance.spoken))
        return Candidate(
            utterance,
            self._lengths.seconds(units),
            utterance.silence_around(),
        )

    def _request(self, text: Timed, candidate: Candidate, pace: Pace) -> TakeRequest:
        """Return the request of the next take; each one of an utterance has other draws."""
        number = len(candidate.drawn)
        candidate.drawn.append(pace.tags)
        settings = with_pace(self._settings, pace)
        request = self._speech.request(candidate.utterance, settings, sample=number)
        return TakeRequest(candidate.utterance, pace, request, text.text)

    def _shaped(
        self, text: Timed, candidates: Sequence[Candidate], takes: Sequence[Take | None]
    ) -> Iterator[UtteranceUpdate]:
        """Yield the utterances of a text with their sound."""
        if not any(takes):
            yield from (_update(each, None, None, None) for each in candidates)
            return
        parts = parts_of(candidates, takes)
        if sum(part.shortest for part in parts) > text.target:
            takes = [each.quickest for each in candidates]
            parts = parts_of(candidates, takes)
        shaped = shape(parts, text.target)
        kept = [(c, t) for c, t in zip(candidates, takes, strict=True) if t is not None]
        fit = self._fit(text, candidates, [take for _, take in kept], shaped)
        if fit.late and self._raises:
            raise DurationError([text.text], [fit], None)
        sounds = {id(c): part for (c, _), part in zip(kept, shaped.parts, strict=True)}
        for candidate, take in zip(candidates, takes, strict=True):
            yield _update(candidate, take, sounds.get(id(candidate)), fit)

    def _fit(
        self, text: Timed, candidates: Sequence[Candidate], takes: Sequence[Take], shaped: Shaped
    ) -> Fit:
        length = sum(len(part.samples) for part in shaped.parts)
        quickest = parts_of(candidates, [each.quickest for each in candidates])
        slowest = parts_of(candidates, [each.slowest for each in candidates])
        fit = Fit(
            duration=text.seconds,
            late=max(0, length - text.target) / SAMPLE_RATE,
            silence=shaped.silence / SAMPLE_RATE,
            shortest=sum(part.shortest for part in quickest) / SAMPLE_RATE,
            longest=sum(part.longest for part in slowest) / SAMPLE_RATE,
            tempo=shaped.tempo,
            pauses=shaped.pauses / SAMPLE_RATE,
            speeds=tuple(take.pace.tags for take in takes),
        )
        if not fit.late and not fit.fits:
            logger.warning(
                "%s is too short for its %g s: the last %.2f s are silence",
                shown(text.text),
                text.seconds,
                fit.silence,
            )
        return fit


def with_pace(settings: str, pace: Pace) -> str:
    """Return control tags of the speech pass with a pace in place of their speed."""
    return SPEED_TAG.sub("", settings) + pace.tags


def _of(text: Timed, utterances: Sequence[Utterance]) -> list[Utterance]:
    index = text.utterances[0].text_index
    return sorted((u for u in utterances if u.text_index == index), key=lambda u: u.index)


def _update(
    candidate: Candidate, take: Take | None, part: ShapedPart | None, fit: Fit | None
) -> UtteranceUpdate:
    """Return the update with the sound of an utterance; it is empty without a take."""
    if take is None or part is None:
        return _silent(candidate.utterance, FinishReason.STOP, len(candidate.drawn))
    sound = Sound(
        part.samples,
        tuple(word.moved(part.moved) for word in take.words),
        fit,
    )
    return UtteranceUpdate(
        candidate.utterance,
        take.delta,
        faults=tuple(fault.moved(part.moved) for fault in take.faults),
        attempts=len(candidate.drawn),
        sound=sound,
    )


def _silent(utterance: Utterance, finish: FinishReason, attempts: int) -> UtteranceUpdate:
    """Return the update of an utterance without sound."""
    delta = Delta(0, torch.empty(0, 0, dtype=torch.int64), torch.empty(0, 0), finish)
    nothing = Sound(np.zeros(0, dtype=np.float32), (), None)
    return UtteranceUpdate(utterance, delta, attempts=attempts, sound=nothing)
