"""The state that the scheduler keeps of a request and of each of its samples.

There is no prefill phase and no decode phase. A sequence has some positions, and some of them are
computed; the others are still to be computed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

import numpy as np

from ..generation import FinishReason, GenerationRequest
from ..random_numbers import Pass
from .plan import SequenceData
from .prefix_cache import CachedBlock, Token


class SequenceStatus(Enum):
    """The state of a sequence; the comments say where its keys and values are."""

    WAITING = "waiting"  # nowhere
    RUNNING = "running"  # in device blocks
    SWAPPED = "swapped"  # in host blocks
    FINISHED = "finished"  # nowhere


@dataclass(slots=True, eq=False)
class Sequence:
    """One sample of a prompt, with the scheduler's state of it.

    Attributes:
        seq_id: a unique id, never used again.
        group: the request that it belongs to.
        sample: its index among the request's samples.
        request: the group's, with the key of this sample's draws.
        ids: what was generated: a tuple of codes for each frame, or of one id for each text token.
            The end is never among them.
        logprob: sum of the log-probabilities of ``ids``.
        computed: how many positions have their keys and values in its blocks.
        block_table: the device block of every logical block, while it runs.
        host_table: the host block of every logical block, while it is swapped out.
        cached: the prefix cache's entries for its first full blocks.
        status: see ``SequenceStatus``.
        finish: why it ended, or ``None`` while it goes on.
        error: what went wrong, if it ended with an error (``finish`` is ``ABORT`` then).
        aborted: whether it must end when the result of a plan in flight is there.
        plans_in_flight: how many plans in flight move it.
        drawing: how many ids it draws in these plans.
        order: its place in the order of the policy; the lowest comes first.
        wanted: the blocks that it needed when there were last too few; 0 otherwise.
        heard_from: when its first sound could be heard, by the scheduler's clock.
    """

    seq_id: int
    group: SequenceGroup
    sample: int
    request: GenerationRequest = field(init=False)
    ids: list[tuple[int, ...]] = field(default_factory=list)
    logprob: float = 0.0
    computed: int = 0
    block_table: list[int] = field(default_factory=list)
    host_table: list[int] = field(default_factory=list)
    cached: list[CachedBlock] = field(default_factory=list)
    status: SequenceStatus = SequenceStatus.WAITING
    finish: FinishReason | None = None
    error: str | None = None
    aborted: bool = False
    plans_in_flight: int = 0
    drawing: int = 0
    order: tuple[float, int, int] = (0.0, 0, 0)
    wanted: int = 0
    heard_from: float | None = None

    def __post_init__(self) -> None:
        request = self.request = self.group.request
        if self.sample:
            key = replace(request.key, sample=request.key.sample + self.sample)
            self.request = replace(request, key=key)

    def __len__(self) -> int:
        """Return the number of positions, of the prompt and of what was generated."""
        return self.group.prompt_length + len(self.ids)

    @property
    def data(self) -> SequenceData:
        """Return what the worker needs to know of it."""
        return SequenceData(self.seq_id, self.request)

    @property
    def is_awaited(self) -> bool:
        """Return whether its listener hears nothing yet."""
        listener = self.request.listener
        return listener is not None and listener.waits and len(self.ids) < listener.first

    @property
    def is_heard_soon(self) -> bool:
        """Return whether plans in flight draw the frames of which its listener hears the first."""
        listener = self.request.listener if self.is_awaited else None
        return listener is not None and len(self.ids) + self.drawing >= listener.first

    def seconds_buffered(self, now: float) -> float:
        """Return the seconds of sound that its listener has not played at ``now``.

        It is 0 where nothing is known to play.
        """
        listener = self.request.listener
        if listener is None or self.heard_from is None:
            return 0.0
        return (len(self.ids) - listener.first) / listener.rate - (now - self.heard_from)

    def tokens(self, start: int, stop: int) -> tuple[Token, ...]:
        """Return what is at positions ``start`` to ``stop``, as the prefix cache compares it."""
        length = self.group.prompt_length
        if stop <= length:
            return tuple(self.group.tokens[start:stop])
        ids = self.ids[max(0, start - length) : stop - length]
        generated = ids if self.request.key.kind is Pass.CODE else [text_id for (text_id,) in ids]
        return (*self.group.tokens[start:], *generated)


class SequenceGroup:
    """One request: ``n`` samples of one prompt.

    Args:
        request: checked; ``key.kind`` tells whether frames or text ids are generated.
        end_id: the id that ends a sequence: in any codebook of a frame, or as a text id.
        seq_ids: an iterator over unused sequence ids.

    Attributes:
        sequences: the samples.
        followers: samples that wait for the first one to compute the prompt.
        donor: the last sample that computed the prompt; others may share its blocks.
        unfinished: how many samples have not ended.
        arrival: when the scheduler added it, by the scheduler's clock.
        limit: the most tokens or frames of a sample; set when the scheduler adds it.
    """

    def __init__(self, request: GenerationRequest, *, end_id: int, seq_ids: Iterator[int]) -> None:
        self.request, self.request_id = request, request.request_id
        self.prompt_length = len(request.prompt)
        self.end_id = end_id
        self.sequences = [Sequence(next(seq_ids), self, i) for i in range(request.sampling.n)]
        self.followers = self.sequences[1:]
        self.donor: Sequence | None = None
        self.unfinished = request.sampling.n
        self.arrival = 0.0
        self.limit = 0

    @cached_property
    def tokens(self) -> list[Token]:
        """Return the prompt as the prefix cache compares it: text ids, and frames as tuples.

        A position with the speaker vector differs from one with its text id, so it is a negative
        number there, which no id is.
        """
        prompt = self.request.prompt
        ids = prompt.text.astype(np.int64, copy=False)  # of an unsigned type ~ is not negative
        text: list[Token] = np.where(prompt.speaker_slots, ~ids, ids).tolist()
        return text + [tuple(frame) for frame in prompt.codes.tolist()]

    @cached_property
    def root(self) -> bytes:
        """Return the parent key of the first block.

        Prompts with other speakers have another one, and so have those with other adapters, whose
        keys and values differ for equal tokens.
        """
        speaker, adapter = self.request.prompt.speaker, self.request.adapter
        if speaker is None and adapter is None:
            return b""
        # Of no adapter the key is empty, which no name is.
        key = b"" if adapter is None else hashlib.blake2b(adapter.encode("utf-8")).digest()
        spoken = b"" if speaker is None else speaker.tobytes()
        return hashlib.blake2b(spoken, key=key).digest()


@dataclass(frozen=True, slots=True)
class Advance:
    """The effect of a plan on a sequence that drew or ended.

    Attributes:
        sequence: its state after the plan; ``sequence.finish`` tells whether it ended.
        rows: the rows of the step's result that hold its new ids and their hidden states. The
            id that ends a sequence is not kept, so it is not among them.
    """

    sequence: Sequence
    rows: list[int]
