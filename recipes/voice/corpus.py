"""The corpus: lines that the teacher speaks, in the voices of many people and at many speeds.

A take is a function of the seed, its index and the lines alone, so a corpus that was stopped goes
on as if it had not been, and two processes make a half each.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np

from ChatTTS.errors import AssetError

from .counter_rng import CounterRng
from .run import Run
from .styles import CAST, COORDINATES, RANDOM_SPREAD, VOICES, Floats, StyleSpace, mixture
from .takes import Line, Take, is_whole, write_shard
from .teacher import Teacher, assemble

logger = logging.getLogger(__name__)

SHARD = 32  # takes; about three minutes of speech
DEFAULT_SPEED, SPEEDS = 5, 10  # n of [speed_n]
_FASTER = 1.08  # for each n


@dataclass(frozen=True)
class Shares:
    """The frequencies of kinds of speakers and of speeds.

    Attributes:
        cast: share of takes by a named voice.
        random: share of takes by a draw such as ``sample_random_speaker()`` makes; all others are
            by one to four of the teacher's voices.
        abroad: share of the takes of named voices that are not in their own language.
        default: how many times as often the first voice of each language comes as another.
        plain: share of takes at the default speed.
    """

    cast: float = 0.45
    random: float = 0.35
    abroad: float = 0.25
    default: float = 2.0
    plain: float = 0.6


@dataclass(frozen=True, eq=False)
class Request:
    """A line to speak, the weights of the speaker [voices], and n of ``[speed_n]``."""

    line: Line
    weights: Floats
    speed: int

    @property
    def pace(self) -> float:
        """The teacher's speed; the lengths at neighbouring n differ by the factor 1.08."""
        return _FASTER ** (self.speed - DEFAULT_SPEED)


class Plan:
    """The requests of a corpus, by index.

    Args:
        seed: of all draws.
        lines: by language.
        space: where random speakers are drawn.
        shares: how often each kind of speaker and speed comes.
    """

    def __init__(
        self,
        seed: int,
        lines: Mapping[str, Sequence[Line]],
        space: StyleSpace,
        shares: Shares = Shares(),
    ) -> None:
        self.seed, self.lines, self.space, self.shares = seed, lines, space, shares

    def __getitem__(self, index: int) -> Request:
        """Return request ``index``, from 0 on; there is no last one."""
        rng = CounterRng(self.seed, index)
        language = rng.pick(sorted(self.lines))
        line = rng.pick(self.lines[language])
        is_plain = rng.bernoulli(self.shares.plain)
        speed = DEFAULT_SPEED if is_plain else rng.below(SPEEDS)
        return Request(line, self._speaker(rng, language), speed)

    def _speaker(self, rng: CounterRng, language: str) -> Floats:
        kind = rng.fraction()
        if kind < self.shares.cast:
            return self._named(rng, language)
        if kind < self.shares.cast + self.shares.random:
            return self.space.weights(drawn_place(rng))
        return _blend(rng)

    def _named(self, rng: CounterRng, language: str) -> Floats:
        is_abroad = rng.bernoulli(self.shares.abroad)
        people = [p for p in CAST.values() if (p.language == language) != is_abroad]
        chosen = rng.below(len(people) + round(self.shares.default) - 1)
        return mixture(people[max(0, chosen - round(self.shares.default) + 1)].weights)


def _blend(rng: CounterRng) -> Floats:
    """Return weights of one to four of the teacher's voices, whatever their languages."""
    chosen = rng.sample(VOICES, rng.integer(1, 4))
    # Exponential draws over their sum are spread evenly over all mixtures.
    return mixture({voice: -math.log(1 - rng.fraction()) for voice in chosen})


def drawn_place(rng: CounterRng) -> Floats:
    """Return the coordinates of a random speaker, drawn as ``sample_random_speaker()`` does."""
    normal = NormalDist(0.0, RANDOM_SPREAD)
    # A fraction of 0 has no finite place.
    return np.array([normal.inv_cdf(max(rng.fraction(), 1e-9)) for _ in range(COORDINATES)])


def speak(
    teacher: Teacher, plan: Plan, folder: Path, shards: int, part: int = 0, parts: int = 1
) -> None:
    """Speak the shards that are missing in ``folder``.

    Args:
        teacher: who speaks.
        plan: what is spoken.
        folder: of the takes.
        shards: number of shards of the whole corpus.
        part, parts: this process speaks every ``parts``-th shard, from ``part`` on.
    """
    for shard in range(part, shards, parts):
        if is_whole(folder, shard):
            continue
        first = shard * SHARD
        takes = [_take(teacher, plan[index]) for index in range(first, first + SHARD)]
        write_shard(folder, shard, takes)
        logger.info("shard %d of %d: %.0f s", shard, shards, sum(t.seconds for t in takes))


def _take(teacher: Teacher, request: Request) -> Take:
    return teacher.speak(request.line, request.weights, request.pace)


def read_lines(folder: Path) -> dict[str, list[Line]]:
    """Return the lines of each language, from ``LANGUAGE.jsonl`` with one JSON object a line.

    Raises:
        AssetError: there are none.
    """
    found = {
        path.stem: [Line(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]
        for path in sorted(folder.glob("*.jsonl"))
    }
    if not found:
        raise AssetError(f"{folder} has no lines to speak (en.jsonl, zh.jsonl)")
    return found


def main(run: Run) -> None:
    """Speak the corpus."""
    parts = run.teacher_files()
    assemble(parts.model)
    teacher = Teacher(parts)
    space = StyleSpace.of(teacher.tables)
    plan = Plan(run.seed, read_lines(run.lines), space)
    speak(teacher, plan, run.speech, run.shards, run.part, run.parts)
