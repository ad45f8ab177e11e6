"""Takes: attempts at utterances, each with its sound, its words and its pauses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from ...audio.samples import Samples
from ...audio.trim import speech_bounds
from ...model.generation import Cancellation, Delta, FinishReason, GenerationRequest
from ...model.merge_deltas import merge_deltas
from ...model.synthesis.synthesizer import Synthesizer
from ..assembly import WaveformAssembler
from ..attempts import MakeAlignment
from ..decode.schedules import PlaybackClock
from ..decode.utterance_decoder import UtteranceDecoder
from ..decode.worker import whole_schedule
from ..model import Model
from ..results import Fault, Word
from ..speech_lengths import Pace
from ..utterance import Utterance, UtteranceUpdate
from .take_pauses import Pause, find_pauses

# Seconds of the model's silence that stay around the sound of a take. Its borders are known to
# 10 ms, so speech begins and ends within 20 ms of its time.
_MARGIN = 0.005


@dataclass(frozen=True)
class TakeRequest:
    """A take that is wanted.

    Attributes:
        utterance: what is said.
        pace: how fast.
        request: for the engine; the takes of an utterance have different draws.
        text: the caller's text, in which the utterance's words have their characters.
    """

    utterance: Utterance
    pace: Pace
    request: GenerationRequest
    text: str


@dataclass(frozen=True)
class Take:
    """An attempt at an utterance. Places are samples of ``samples``.

    Attributes:
        pace: the pace that was asked for.
        delta: all its frames, with their finish reason.
        samples: float32 (n,) at 24 kHz, from its first sound to its last; empty without any.
        words, faults: with their places.
        pauses: in order.
        lead, tail: samples of silence that the model gave before and after.
    """

    pace: Pace
    delta: Delta
    samples: Samples
    words: tuple[Word, ...]
    faults: tuple[Fault, ...]
    pauses: tuple[Pause, ...]
    lead: int
    tail: int

    @property
    def badness(self) -> int:
        """The number of words that its faults concern; one that has no end has most."""
        words = sum(max(1, fault.words) for fault in self.faults)
        return words + (0 if self.delta.finish is FinishReason.STOP else 1000)


@dataclass(frozen=True)
class TakeDrawer:
    """Draws takes side by side.

    Attributes:
        size: takes of a batch, where the engine does not choose it.
    """

    model: Model
    synthesizer: Synthesizer
    align: MakeAlignment
    cancelled: Cancellation
    size: int

    def draw(self, requests: Sequence[TakeRequest]) -> list[Take | None]:
        """Return the take of each request; ``None`` for one that ended without sound.

        After a cancellation all of them are ``None``.
        """
        size = len(requests) if self.model.gpt.batches_itself else self.size
        takes: list[Take | None] = []
        for start in range(0, len(requests), max(1, size)):
            takes += self._batch(requests[start : start + size])
        return takes

    def _batch(self, requests: Sequence[TakeRequest]) -> list[Take | None]:
        utterances = [_alone(each.utterance, row) for row, each in enumerate(requests)]
        alignments = [self.align(utterance) for utterance in utterances]
        deltas: list[list[Delta]] = [[] for _ in requests]
        assembler = WaveformAssembler(
            self.model.decode_worker,
            utterances,
            len(requests),
            self._decoder,
            waits_for_consumer=False,
        )
        try:
            asked = [each.request for each in requests]
            for gained in self.model.gpt.generate(asked, self.cancelled):
                for delta in gained:
                    row = delta.index
                    deltas[row].append(_light(delta))
                    faults = alignments[row].push(delta)
                    assembler.push(
                        UtteranceUpdate(
                            utterances[row], delta, faults=faults, alignment=alignments[row]
                        )
                    )
            if self.cancelled.is_set():
                return [None] * len(requests)
            assembler.wait(lambda: assembler.is_complete or None)
        finally:
            assembler.leave()
        sounds = zip(requests, deltas, assembler.waveforms(), assembler.texts, strict=True)
        return [
            _take(
                each, merge_deltas(own), samples, row.utterances[0].words, row.utterances[0].faults
            )
            for each, own, samples, row in sounds
        ]

    def _decoder(self, utterance: Utterance, playback: PlaybackClock) -> UtteranceDecoder:
        return UtteranceDecoder(self.synthesizer, whole_schedule(self.synthesizer))


def _alone(utterance: Utterance, row: int) -> Utterance:
    """Return an utterance as a text of its own, without the silence around it."""
    return Utterance(
        row,
        0,
        utterance.spoken,
        first=utterance.number,
        words=utterance.words,
        speaker=utterance.speaker,
    )


def _light(delta: Delta) -> Delta:
    """Return a delta with what is wanted later: the codes, not what the sound is made from."""
    return replace(delta, hiddens=torch.empty(0, 0), attention=None)


def _take(
    request: TakeRequest,
    delta: Delta,
    samples: Samples,
    words: Sequence[Word],
    faults: Sequence[Fault],
) -> Take | None:
    start, stop = speech_bounds(samples, margin_s=_MARGIN)
    if stop <= start:
        return None
    sound = samples[start:stop]
    placed = tuple(word.shifted(-start) for word in words)
    return Take(
        request.pace,
        delta,
        sound,
        placed,
        tuple(fault.shifted(-start) for fault in faults),
        find_pauses(sound, placed, request.text),
        start,
        len(samples) - stop,
    )
