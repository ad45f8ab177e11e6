"""What the scheduler knows of a request: its samples, how long each is and how far computed.

There are no phases. A sequence has so many positions, of which so many are computed; the rest is
its work.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from functools import cached_property

import numpy as np

from ..draws import DrawKey, Pass
from ..generation import FinishReason
from ..tokenizer import Prompt
from .plan import SequenceData
from .prefix_cache import CachedBlock, Token
from .sampling_params import SamplingParams


class SequenceStatus(Enum):
    """Where a sequence stands, and so where its keys and values lie."""

    WAITING = "waiting"  # nowhere
    RUNNING = "running"  # in device blocks
    SWAPPED = "swapped"  # in host blocks
    FINISHED = "finished"  # nowhere


class Sequence:
    """One sample of a prompt. The scheduler keeps its books in it.

    Attributes:
        seq_id: never given twice.
        group: the request that it belongs to.
        sample: its index among the request's samples.
        key: of its draws.
        ids: what was generated, a row of codes for each frame, or of one id for each text token.
            The end is never among them.
        logprob: sum over ``ids`` of their log-probabilities.
        computed: positions whose keys and values lie in its blocks.
        block_table: device block of every logical one, while it runs.
        host_table: host block of every logical one, while it is swapped out.
        cached: for each of its first full blocks, what the prefix cache knows it as.
        status: see ``SequenceStatus``.
        finish: why it ended, or ``None`` while it goes on.
        error: what went wrong, if its end was an error (``finish`` is ``ABORT`` then).
        aborted: whether it is to end as soon as a step in flight has returned.
        flights: plans in flight that move it.
        drawing: ids that it draws in these.
        known: whether the worker was told of it.
        rank: the total order of the policy; the lowest comes first.
        wanted: blocks that it needed when it last found too few.
    """

    __slots__ = (
        "aborted",
        "block_table",
        "cached",
        "computed",
        "drawing",
        "error",
        "finish",
        "flights",
        "group",
        "host_table",
        "ids",
        "key",
        "known",
        "logprob",
        "rank",
        "sample",
        "seq_id",
        "status",
        "wanted",
    )

    def __init__(self, seq_id: int, group: SequenceGroup, sample: int) -> None:
        self.seq_id = seq_id
        self.group = group
        self.sample = sample
        self.key = replace(group.key, sample=group.key.sample + sample)
        self.ids: list[tuple[int, ...]] = []
        self.logprob = 0.0
        self.computed = 0
        self.block_table: list[int] = []
        self.host_table: list[int] = []
        self.cached: list[CachedBlock] = []
        self.status = SequenceStatus.WAITING
        self.finish: FinishReason | None = None
        self.error: str | None = None
        self.aborted = False
        self.flights = 0
        self.drawing = 0
        self.known = False
        self.rank: tuple[float, int, int] = (0.0, 0, sample)
        self.wanted = 0

    def __len__(self) -> int:
        """Positions in all: of the prompt, and of what was generated."""
        return self.group.prompt_length + len(self.ids)

    @property
    def data(self) -> SequenceData:
        """What the worker must know of it."""
        return SequenceData(self.seq_id, self.group.prompt, self.group.sampling, self.key)

    def tokens(self, start: int, stop: int) -> tuple[Token, ...]:
        """What stands at positions ``start`` to ``stop``, as the prefix cache compares it."""
        length = self.group.prompt_length
        if stop <= length:
            return tuple(self.group.tokens[start:stop])
        rows = self.ids[max(0, start - length) : stop - length]
        generated = rows if self.group.key.kind is Pass.CODE else [row[0] for row in rows]
        return (*self.group.tokens[start:], *generated)


class SequenceGroup:
    """One request: ``n`` samples of one prompt.

    Args:
        request_id: unique among the requests that have not ended.
        prompt: what all samples start from.
        sampling: how to draw.
        key: of the first sample's draws; sample ``i`` has ``key.sample + i``. ``key.kind`` says
            whether frames or text ids are generated.
        end_id: the id that ends a sequence: in any codebook of a frame, or as a text id.
        seq_ids: gives an id for each sample, and never one twice.
        priority: lower comes first, where the policy looks at it; finite.

    Attributes:
        sequences: the samples.
        followers: samples that wait for the first one to compute the prompt.
        donor: the sample that computed the prompt last; others may share its blocks.
        unfinished: samples that have not ended.
        arrival: when the scheduler took it, by the scheduler's clock.
        limit: tokens or frames that a sample gets at most; known once the scheduler took it.
    """

    def __init__(
        self,
        request_id: str,
        prompt: Prompt,
        sampling: SamplingParams,
        key: DrawKey,
        *,
        end_id: int,
        seq_ids: Iterator[int],
        priority: float = 0,
    ) -> None:
        self.request_id = request_id
        self.prompt = prompt
        self.prompt_length = len(prompt)
        self.sampling = sampling
        self.key = key
        self.end_id = end_id
        self.priority = priority
        self.sequences = [Sequence(next(seq_ids), self, i) for i in range(sampling.n)]
        self.followers = self.sequences[1:]
        self.donor: Sequence | None = None
        self.unfinished = sampling.n
        self.arrival = 0.0
        self.limit = 0

    @cached_property
    def tokens(self) -> list[Token]:
        """The prompt as the prefix cache compares it: text ids as they are, frames as tuples.

        The place of a speaker vector is another thing than the text id that stands there, so it
        is a number that no id can be.
        """
        prompt = self.prompt
        ids = prompt.text.astype(np.int64, copy=False)  # of a type without a sign ~ is an id again
        text: list[Token] = np.where(prompt.speaker_slots, ~ids, ids).tolist()
        return text + [tuple(frame) for frame in prompt.codes.tolist()]

    @cached_property
    def root(self) -> bytes:
        """Where the prefixes of this prompt begin: nothing is shared between two speakers."""
        speaker = self.prompt.speaker
        return b"" if speaker is None else hashlib.blake2b(speaker.tobytes()).digest()

    def row(self, ids: list[int]) -> tuple[int, ...]:
        """What counts of drawn ids [num_codebooks]: a frame's codes, or the one text id."""
        return tuple(ids) if self.key.kind is Pass.CODE else (ids[0],)

    def is_end(self, row: tuple[int, ...]) -> bool:
        """Whether a row ends its sequence."""
        return self.end_id in row
