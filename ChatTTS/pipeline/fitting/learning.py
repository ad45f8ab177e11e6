"""Learn how long a checkpoint speaks, from sentences that it speaks at every pace."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from ...audio.samples import SAMPLE_RATE
from ...audio.tempo import check_tempo
from ...config import AlignmentHeads
from ...errors import GenerationError
from ...model.generation import Cancellation
from ...model.lora.names import BASE
from ...params import InferCodeParams
from ...text.spoken_words import caller_words
from ...utils.progress import progress
from ..aligning import aligner
from ..model import Model
from ..sample_sentences import sample_sentences, short_sentences
from ..speech_lengths import SPEED_TAG, Pace, SpeechLengths, Units, units_of
from ..speech_pass import SpeechPass
from ..utterance import Utterance
from .fitted_pass import with_pace
from .takes import Take, TakeDrawer, TakeRequest
from .times import Fitting

logger = logging.getLogger(__name__)

_SEED = 0
# Twice what a slow speaker needs for a sample sentence.
_MAX_FRAMES = 768
# Sentences of each language at each of the model's paces, and at each pair of them.
_OF_PACE, _OF_PAIR = 2, 1
# Two paces that differ by more leave a gap between them, which pairs of tags may close: pauses and
# tempo make up for about half of it on both sides.
_GAP = 1.045
# Tags that change the length by less than this, from the fastest to the slowest, have no effect.
_EFFECT = 1.1
# For each level of a tag between those of a pair, so much of a gap's width is preferred to others.
_APART = 0.05
# Seconds of a unit, where the sentences do not tell.
_LEAST = 0.01


@dataclass(frozen=True)
class _Learner:
    """Speaks sentences at paces.

    Attributes:
        sentences: those of all languages, by turns.
    """

    model: Model
    heads: AlignmentHeads
    cancelled: Cancellation
    sentences: Sequence[str]

    def seconds(self, paces: Sequence[str], count: int) -> dict[str, dict[int, float]] | None:
        """Return for each pace the seconds of the first sentences that were spoken without faults.

        Returns:
            By the tags of a pace and the number of a sentence; ``None`` if cancelled.
        """
        numbers = range(min(count, len(self.sentences)))
        keys = [(pace, number) for pace in paces for number in numbers]
        takes = self._takes(keys)
        if self.cancelled.is_set():
            return None
        found: dict[str, dict[int, float]] = {pace: {} for pace in paces}
        for (pace, number), take in zip(keys, takes, strict=True):
            if take is not None and not take.badness:
                found[pace][number] = len(take.samples) / SAMPLE_RATE
        return found

    def _takes(self, keys: Sequence[tuple[str, int]]) -> list[Take | None]:
        defaults = self.model.config.defaults
        voices: list[str | None] = [*defaults.speakers] or [None]
        synthesizer = self.model.synthesizer(use_decoder=True)
        align = aligner(self.model, str, synthesizer.samples_per_frame, finds_faults=True)
        drawer = TakeDrawer(self.model, synthesizer, align, self.cancelled, size=len(keys))
        requests = []
        for pace, number in keys:
            text = self.sentences[number]
            utterance = Utterance(number, 0, text, words=caller_words(text))
            params = InferCodeParams(
                spk_emb=voices[number % len(voices)],
                max_new_token=_MAX_FRAMES,
                show_tqdm=False,
                adapter=BASE,  # what is learned is kept for the checkpoint, whatever is beside it
            ).with_defaults(defaults.code)
            speech = SpeechPass(
                self.model,
                [utterance],
                params,
                _SEED,
                batch_size=1,
                cancelled=self.cancelled,
                alignment_heads=self.heads,
            )
            own = Pace(pace, 1.0)
            request = speech.request(utterance, with_pace(params.prompt, own))
            requests.append(TakeRequest(utterance, own, request, text))
        return drawer.draw(requests)


def speech_lengths(
    model: Model, heads: AlignmentHeads, cancelled: Cancellation, *, show: bool = True
) -> SpeechLengths | None:
    """Return how long the checkpoint speaks.

    The first call for a checkpoint without such a file learns it, which takes a while.

    Args:
        heads: of the alignment.
        show: whether to show the progress on a terminal.

    Returns:
        The lengths; ``None`` if ``cancelled`` was set meanwhile.

    Raises:
        GenerationError: the checkpoint speaks none of the sample sentences.
    """

    def learn() -> SpeechLengths | None:
        logger.info("learning how long this checkpoint speaks, once")
        found = learn_lengths(model, heads, cancelled, show=show)
        if found is not None:
            file = model.learned_lengths.put(found, found)
            where = "not stored" if file is None else f"in {file}"
            logger.info("speech lengths: %d paces (%s)", len(found.paces), where)
        return found

    return model.learned_lengths.get(learn, cancelled)


def fitting_of(
    model: Model,
    heads: AlignmentHeads,
    texts: Sequence[str],
    durations: Sequence[float | None],
    cancelled: Cancellation,
    *,
    may_be_late: bool,
    show: bool,
) -> Fitting | None:
    """Return the times of a call's texts.

    Args:
        may_be_late: give out texts that do not fit, as short as can be.
        model, heads, cancelled, show: as in :func:`speech_lengths`, whose errors are raised, too.

    Returns:
        The times; ``None`` if ``cancelled`` was set meanwhile.

    Raises:
        AudioError: PyAV, which changes the tempo, is not installed.
    """
    check_tempo()
    lengths = speech_lengths(model, heads, cancelled, show=show)
    if lengths is None:
        return None
    return Fitting(tuple(texts), tuple(durations), lengths, may_be_late)


def learn_lengths(
    model: Model, heads: AlignmentHeads, cancelled: Cancellation, *, show: bool = True
) -> SpeechLengths | None:
    """Let the model speak sentences at its paces, and learn how long it takes.

    Args, returns and errors are those of :func:`speech_lengths`; nothing is kept.
    """
    languages = len(_by_turns(model.config.defaults.language, 1))
    sentences = _by_turns(model.config.defaults.language)
    learner = _Learner(model, heads, cancelled, sentences)
    levels = [f"[speed_{level}]" for level in range(10)]
    levels = [tag for tag in levels if tag in model.tokenizer.control_tokens]
    usual = "".join(SPEED_TAG.findall(model.config.defaults.code.get("prompt", "[speed_5]")))
    usual = usual if usual in levels else levels[len(levels) // 2] if levels else ""
    with progress("learning lengths of speech", "step", show, 3) as bar:
        spoken = learner.seconds([usual], len(sentences))
        bar.update()
        if spoken is None:
            return None
        base = spoken[usual]
        if not base:
            raise GenerationError(
                "the time that speech takes is learned from what the checkpoint speaks, and it "
                "spoke none of the sample sentences: leave duration out"
            )
        others = [tag for tag in levels if tag != usual]
        single = learner.seconds(others, _OF_PACE * languages)
        bar.update()
        if single is None:
            return None
        factors = {usual: 1.0, **_factors(single, base)}
        if _has_gaps(factors):
            pairs = ["".join(pair) for pair in combinations(levels, 2)]
            double = learner.seconds(pairs, _OF_PAIR * languages)
            bar.update()
            if double is None:
                return None
            factors |= _closing(factors, _factors(double, base))
    paces = sorted((Pace(tags, round(factor, 4)) for tags, factor in factors.items()), key=_factor)
    units = [units_of(model.tokenizer, sentences[number]) for number in base]
    han, letter, mark, utterance = _fitted(units, np.array(list(base.values()))).round(5).tolist()
    return SpeechLengths(han, letter, mark, utterance, tuple(paces))


def _factor(pace: Pace) -> float:
    return pace.factor


def _by_turns(language: str | None, count: int | None = None) -> list[str]:
    """Return sample sentences, one of each language by turns; the first ``count`` of each."""
    codes = ("en", "zh") if language not in ("en", "zh") else (language,)
    lists = [(*sample_sentences(code), *short_sentences(code)) for code in codes]
    rows = zip(*lists, strict=False)
    found = [sentence for row in rows for sentence in row]
    return found if count is None else found[: count * len(codes)]


def _factors(
    spoken: Mapping[str, Mapping[int, float]], base: Mapping[int, float]
) -> dict[str, float]:
    """Return the factor of each pace at which all its sentences were spoken well."""
    found = {}
    for pace, seconds in spoken.items():
        ratios = [seconds[number] / base[number] for number in seconds if number in base]
        if ratios and len(seconds) == max(map(len, spoken.values())):
            found[pace] = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return found


def _has_gaps(factors: Mapping[str, float]) -> bool:
    ordered = sorted(factors.values())
    wide = any(slower / faster > _GAP for faster, slower in pairwise(ordered))
    return wide and ordered[-1] / ordered[0] > _EFFECT


def _closing(factors: Mapping[str, float], pairs: Mapping[str, float]) -> dict[str, float]:
    """Return the pairs that close the gaps between paces, each at most so wide as ``_GAP``."""
    kept: dict[str, float] = {}
    for faster, slower in pairwise(sorted(factors.values())):
        for wanted in _between(faster, slower):
            inside = {tags: f for tags, f in pairs.items() if faster < f < slower}
            best = min(inside, key=lambda tags: _cost(tags, inside[tags], wanted), default=None)
            if best is not None:
                kept[best] = pairs[best]
    return kept


def _between(faster: float, slower: float) -> Iterator[float]:
    parts = math.ceil(math.log(slower / faster) / math.log(_GAP))
    for number in range(1, parts):
        yield faster * (slower / faster) ** (number / parts)


def _cost(tags: str, factor: float, wanted: float) -> float:
    """Return how far a pair is from a wanted factor, and how much its tags differ."""
    first, second = (int(tag[-2]) for tag in SPEED_TAG.findall(tags))
    return abs(math.log(factor / wanted)) / math.log(_GAP) + _APART * abs(first - second)


def _fitted(units: Sequence[Units], seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the seconds of each unit and of an utterance; relative errors are squared."""
    rows = np.array([(each.han, each.letters, each.marks, 1.0) for each in units])
    # A little is added to the diagonal, for units that the sentences do not have.
    weighted = np.vstack([rows / seconds[:, None], 0.01 * np.eye(4)])
    wanted = np.concatenate([np.ones(len(seconds)), np.zeros(4)])
    found: NDArray[np.float64] = np.linalg.lstsq(weighted, wanted, rcond=None)[0]
    return np.maximum(found, (_LEAST, _LEAST, 0.0, 0.0))
