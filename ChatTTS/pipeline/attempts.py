"""Attempts at utterances: a batch is generated, and what failed in it is generated again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import torch

from ..model.generation import Cancellation, Delta, FinishReason, GenerationRequest
from ..model.merge_deltas import merge_deltas
from ..params import RefineTextParams
from .alignment.utterance_alignment import UtteranceAlignment
from .decode.schedules import FRAMES_PER_SECOND
from .model import Model
from .results import Fault
from .routines import Routine, Tell
from .utterance import Utterance, UtteranceUpdate

logger = logging.getLogger(__name__)

# Attempts, in all, at an utterance that ends at its first frame.
MAX_ATTEMPTS = 5
# Attempts, in all, at an utterance that finds no end. Fewer, since each takes long.
MAX_RUNAWAYS = 3
# Attempts, in all, at an utterance in which the guard finds faults.
MAX_FAULTY = 4

# Makes the alignment of an attempt at an utterance.
MakeAlignment = Callable[[Utterance], UtteranceAlignment]


class Failure(Enum):
    """A reason to generate an utterance again."""

    EMPTY = "it ended at its first frame"
    RUNAWAY = "it found no end"
    FAULTY = "the guard found faults"


@dataclass
class Attempt:
    """An attempt at an utterance.

    Attributes:
        number: counts the attempts at the utterance, from 0.
        alignment: of its frames, if the times of words or faults are wanted.
        has_begun: whether it has a frame.
        deltas: its frames, if the utterance may be generated again because of faults.
        faults: those found up to now, likewise.
        failure: why it failed, or ``None``.
    """

    utterance: Utterance
    request: GenerationRequest
    number: int
    alignment: UtteranceAlignment | None
    has_begun: bool = False
    deltas: list[Delta] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    failure: Failure | None = None

    @property
    def is_faulty(self) -> bool:
        """Return whether it is over and has faults; one that the caller ended is not judged."""
        ended = self.deltas[-1].finish not in (None, FinishReason.ABORT)
        return ended and bool(self.faults)

    @property
    def badness(self) -> int:
        """The number of words that its faults concern; one without words counts as one."""
        return sum(max(1, fault.words) for fault in self.faults)

    def update(self, delta: Delta, faults: Sequence[Fault]) -> UtteranceUpdate:
        """Return the update with some of its frames and faults."""
        return UtteranceUpdate(
            self.utterance,
            delta,
            faults=tuple(faults),
            attempts=self.number + 1,
            alignment=self.alignment,
        )


@dataclass(frozen=True)
class BatchGenerator:
    """Runs a batch, then tries again, one by one, the utterances that failed.

    An utterance fails where it ends at its first frame, where it finds no end, or where the guard
    finds faults in it. Of faulty attempts the one with the fewest faulty words is kept, the
    earliest one of several.

    Attributes:
        runaways: attempts, in all, at an utterance that finds no end.
        align: makes the alignments, if the times of words or faults are wanted.
        mends: whether an utterance with faults is generated again.
        holds_back: whether to tell of an utterance that may be tried again only when it is kept.
    """

    model: Model
    params: RefineTextParams
    cancelled: Cancellation
    runaways: int = 1
    align: MakeAlignment | None = None
    mends: bool = False
    holds_back: bool = False

    def run(
        self, requests: Mapping[Utterance, GenerationRequest], tell: Tell[UtteranceUpdate]
    ) -> Routine[None]:
        """Generate the utterances of ``requests``, and tell of their new frames."""
        attempts = [self._attempt(u, request, 0) for u, request in requests.items()]
        yield from self._generate(attempts, tell)
        for attempt in attempts:
            if attempt.failure is not None:
                yield from self._retry(attempt, attempt.failure, tell)

    def _attempt(self, utterance: Utterance, request: GenerationRequest, number: int) -> Attempt:
        """Return an attempt, not begun; each one has other draws."""
        request = replace(request, key=replace(request.key, attempt=number))
        alignment = None if self.align is None else self.align(utterance)
        return Attempt(utterance, request, number, alignment)

    def _retry(self, first: Attempt, reason: Failure, tell: Tell[UtteranceUpdate]) -> Routine[None]:
        """Try one utterance again until it ends well or has no attempts left.

        Args:
            first: the first attempt.
            reason: how it failed.
        """
        utterance, request = first.utterance, first.request
        tries = {
            Failure.EMPTY: MAX_ATTEMPTS if self.params.ensure_non_empty else 1,
            Failure.RUNAWAY: self.runaways,
            Failure.FAULTY: MAX_FAULTY,
        }
        if request.sampling.is_greedy:
            tries[Failure.EMPTY] = 1
        attempt = first
        best = first if reason is Failure.FAULTY else None
        while attempt.number + 1 < tries[reason]:
            attempt = self._attempt(utterance, request, attempt.number + 1)
            yield from self._generate([attempt], _restarting(tell))
            if attempt.failure is None:
                return
            reason = attempt.failure
            if reason is Failure.FAULTY:
                best = min(best or attempt, attempt, key=lambda each: each.badness)
        kept = best or self._empty(utterance, request)
        joined = merge_deltas(kept.deltas)
        self._warn_of_cut(kept, joined)
        update = kept.update(joined, kept.faults)
        tell(replace(update, is_restart=True, attempts=attempt.number + 1))

    def _empty(self, utterance: Utterance, request: GenerationRequest) -> Attempt:
        """Return an attempt that ended without a frame."""
        attempt = self._attempt(utterance, request, 0)
        ids = torch.empty(0, len(request.sampling.temperature), dtype=torch.int64)
        hiddens = torch.empty(0, self.model.config.gpt.hidden_size)
        attempt.deltas.append(Delta(0, ids, hiddens, FinishReason.STOP))
        if attempt.alignment is not None:
            attempt.alignment.push(attempt.deltas[0])
        return attempt

    def _generate(self, attempts: Sequence[Attempt], tell: Tell[UtteranceUpdate]) -> Routine[None]:
        """Run attempts, and tell of new frames; those that fail have a reason afterwards."""
        running = len(attempts)
        requests = [attempt.request for attempt in attempts]
        while running:
            deltas = yield requests
            requests = []  # only the next step
            for delta in deltas:
                running -= delta.finish is not None
                if (update := self._push(attempts[delta.index], delta)) is not None:
                    tell(update)

    def _push(self, attempt: Attempt, delta: Delta) -> UtteranceUpdate | None:
        """Give an attempt its next frames; return the update to tell, if there is one."""
        attempt.has_begun |= len(delta.ids) > 0
        if delta.finish is FinishReason.STOP and not attempt.has_begun:
            attempt.failure = Failure.EMPTY
            return None
        if self._is_runaway(attempt, delta) and attempt.number + 1 < self.runaways:
            attempt.failure = Failure.RUNAWAY
            return None
        faults = () if attempt.alignment is None else attempt.alignment.push(delta)
        # Another greedy attempt would be equal.
        if self.mends and not attempt.request.sampling.is_greedy:
            attempt.deltas.append(delta)
            attempt.faults += faults
            if attempt.is_faulty:
                attempt.failure = Failure.FAULTY
                return None
            if self.holds_back:
                if delta.finish is None:
                    return None
                delta, faults = merge_deltas(attempt.deltas), tuple(attempt.faults)
        self._warn_of_cut(attempt, delta)
        return attempt.update(delta, faults)

    def _is_runaway(self, attempt: Attempt, delta: Delta) -> bool:
        """Return whether the length of the text ended the frames, not the caller's limit."""
        bounded = attempt.request.sampling.max_new < self.params.max_new_token
        return delta.finish is FinishReason.LENGTH and bounded

    def _warn_of_cut(self, attempt: Attempt, delta: Delta) -> None:
        """Warn of a runaway that is kept."""
        if self._is_runaway(attempt, delta):
            logger.warning(
                "%r found no end and was cut after %.0f s: try another seed, or other words",
                attempt.utterance.shown[:40],
                attempt.request.sampling.max_new / FRAMES_PER_SECOND,
            )


def _restarting(tell: Tell[UtteranceUpdate]) -> Tell[UtteranceUpdate]:
    """Return what tells updates on, the first of them as a restart."""
    is_first = True

    def restarting(update: UtteranceUpdate) -> None:
        nonlocal is_first
        tell(replace(update, is_restart=is_first))
        is_first = False

    return restarting
