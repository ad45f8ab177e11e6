"""The state that the scheduler keeps of a request and of each of its samples.

There is no prefill phase and no decode phase. A sequence has some positions, and some of them are
computed; the others are still to be computed.
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
    """The state of a sequence; the comments say where its keys and values are."""

    WAITING = "waiting"  # nowhere
    RUNNING = "running"  # in device blocks
    SWAPPED = "swapped"  # in host blocks
    FINISHED = "finished"  # nowhere


class Sequence:
    """One sample of a prompt, with the scheduler's state of it.

    Attributes:
        seq_id: a unique id, never used again.
        group: the request that it belongs to.
        sample: its index among the request's samples.
        key: the key of its draws.
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
        known: whether the worker has been sent its data.
        rank: its place in the order of the policy; the lowest comes first.
        wanted: the blocks that it needed when there were last too few; 0 otherwise.
    """

    __slots__ = (
        "aborted",
        "block_table",
        "cached",
        "computed",
        "drawing",
        "error",
        "finish",
        "group",
        "host_table",
        "ids",
        "key",
        "known",
        "logprob",
        "plans_in_flight",
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
        self.plans_in_flight = 0
        self.drawing = 0
        self.known = False
        self.rank: tuple[float, int, int] = (0.0, 0, sample)
        self.wanted = 0

    def __len__(self) -> int:
        """Return the number of positions, of the prompt and of what was generated."""
        return self.group.prompt_length + len(self.ids)

    @property
    def data(self) -> SequenceData:
        """Return what the worker needs to know of it."""
        return SequenceData(self.seq_id, self.group.prompt, self.group.sampling, self.key)

    def tokens(self, start: int, stop: int) -> tuple[Token, ...]:
        """Return what is at positions ``start`` to ``stop``, as the prefix cache compares it."""
        length = self.group.prompt_length
        if stop <= length:
            return tuple(self.group.tokens[start:stop])
        ids = self.ids[max(0, start - length) : stop - length]
        generated = ids if self.group.key.kind is Pass.CODE else [text_id for (text_id,) in ids]
        return (*self.group.tokens[start:], *generated)


class SequenceGroup:
    """One request: ``n`` samples of one prompt.

    Args:
        request_id: unique among the requests that have not ended.
        prompt: the prompt of all samples.
        sampling: the settings of the draws.
        key: of the first sample's draws; sample ``i`` has ``key.sample + i``. ``key.kind`` tells
            whether frames or text ids are generated.
        end_id: the id that ends a sequence: in any codebook of a frame, or as a text id.
        seq_ids: an iterator over unused sequence ids.
        priority: a finite number; lower comes first, if the policy is ``priority``.

    Attributes:
        sequences: the samples.
        followers: samples that wait for the first one to compute the prompt.
        donor: the last sample that computed the prompt; others may share its blocks.
        unfinished: how many samples have not ended.
        arrival: when the scheduler added it, by the scheduler's clock.
        limit: the most tokens or frames of a sample; set when the scheduler adds it.
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
        """Return the prompt as the prefix cache compares it: text ids, and frames as tuples.

        A position with the speaker vector differs from one with its text id, so it is a negative
        number there, which no id is.
        """
        prompt = self.prompt
        ids = prompt.text.astype(np.int64, copy=False)  # of an unsigned type ~ is not negative
        text: list[Token] = np.where(prompt.speaker_slots, ~ids, ids).tolist()
        return text + [tuple(frame) for frame in prompt.codes.tolist()]

    @cached_property
    def root(self) -> bytes:
        """Return the parent key of the first block; prompts with other speakers have another."""
        speaker = self.prompt.speaker
        return b"" if speaker is None else hashlib.blake2b(speaker.tobytes()).digest()

    def drawn(self, ids: list[int]) -> tuple[int, ...]:
        """Return a frame's codes from drawn ids [num_codebooks], or the one text id."""
        return tuple(ids) if self.key.kind is Pass.CODE else (ids[0],)

    def is_end(self, drawn: tuple[int, ...]) -> bool:
        """Return whether a frame or text id ends its sequence."""
        return self.end_id in drawn
