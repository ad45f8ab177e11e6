"""The choice of captured launches that move many utterances on, each by its own frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

from ...errors import ConfigError


@dataclass(frozen=True)
class DecoderLaunch:
    """One launch of a captured shape.

    Attributes:
        size: utterances that it has room for.
        chunk: frames of each that it has room for.
        counts: frames by which each utterance in it moves on, by the utterance's number.
    """

    size: int
    chunk: int
    counts: dict[int, int]


@dataclass(frozen=True)
class LaunchShapes:
    """The shapes of launches: pairs of a size and a chunk that have at most ``max_frames``.

    Attributes:
        sizes: utterances in a launch, ascending.
        chunks: frames of each, ascending.
        max_frames: of all utterances in a launch.
        launch_frames: frames that a device decodes in the time that each launch takes beside its
            frames. The default is that of an H100, by the model of its steps.

    Raises:
        ConfigError: sizes or chunks are empty, not positive or do not ascend, or the longest chunk
            of the smallest size has more than ``max_frames``.
    """

    sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    chunks: tuple[int, ...] = (2, 8, 24, 64, 128)
    max_frames: int = 2048
    launch_frames: int = 320

    def __post_init__(self) -> None:
        for name, values in (("sizes", self.sizes), ("chunks", self.chunks)):
            if not values or values[0] < 1 or list(values) != sorted(set(values)):
                raise ConfigError(f"{name} of launches must ascend from at least 1, not {values}")
        if self.sizes[0] * self.chunks[-1] > self.max_frames:
            raise ConfigError(
                f"max_frames must be at least {self.sizes[0] * self.chunks[-1]} for launches of "
                f"{self.chunks[-1]} frames, not {self.max_frames}"
            )

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """All shapes of launches, size and chunk; those of the fewest frames first."""
        pairs = [pair for pair in product(self.sizes, self.chunks) if self._fits(*pair)]
        return tuple(sorted(pairs, key=prod))

    def plan(self, needs: Sequence[int]) -> Iterator[DecoderLaunch]:
        """Yield launches that move each utterance on by the frames that it needs.

        Utterances share a launch where they need the same chunk. Those that need fewer frames share
        it, too, where the room that they waste there costs less than a launch of their own.
        """
        left = dict(enumerate(needs))
        while left := {number: need for number, need in left.items() if need}:
            chunk = self._chunk(max(left.values()))
            counts = {number: min(left[number], chunk) for number in self._sharing(left, chunk)}
            yield DecoderLaunch(_least(self.sizes, len(counts)), chunk, counts)
            for number, count in counts.items():
                left[number] -= count

    def _sharing(self, left: Mapping[int, int], chunk: int) -> list[int]:
        """Return the utterances of the next launch, by the frames that they all need."""
        most = max(size for size in self.sizes if self._fits(size, chunk))
        alike: dict[int, list[int]] = {}
        for number, need in left.items():
            alike.setdefault(self._chunk(need), []).append(number)
        sharing = alike.pop(chunk)[:most]
        for fewer, others in sorted(alike.items(), reverse=True):
            both = sharing + others
            apart = self._room(sharing, chunk) + self.launch_frames + self._room(others, fewer)
            if len(both) <= most and self._room(both, chunk) <= apart:
                sharing = both
        return sharing

    def _room(self, utterances: Sequence[int], chunk: int) -> int:
        """Return the frames of a launch of these utterances, with those that it wastes."""
        return _least(self.sizes, len(utterances)) * chunk

    def _fits(self, size: int, chunk: int) -> bool:
        return size * chunk <= self.max_frames

    def _chunk(self, need: int) -> int:
        return _least(self.chunks, need)


def _least(sizes: Sequence[int], wanted: int) -> int:
    """Return the smallest of ascending sizes that is enough, or the largest."""
    return next((size for size in sizes if size >= wanted), sizes[-1])
