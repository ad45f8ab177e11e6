"""Faults are found in made attention, and as a slow reference finds them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import numpy as np
import pytest
from numpy.typing import NDArray

from ChatTTS.pipeline.alignment.faults import FaultFinder, FaultKind, FrameFault, Limits
from ChatTTS.pipeline.alignment.word_aligner import LAG, WordAligner
from ChatTTS.text.alignment import TextColumns
from ChatTTS.text.spoken_words import CallerWord

# Five words of four letters, a space after each but the last, a mark, and the end of the text.
OWNERS = [*(owner for word in range(5) for owner in (word,) * 4 + (-1,)), -1]
MARK = len(OWNERS) - 2
WORDS = {word: range(5 * word, 5 * word + 5) for word in range(5)}
PACE = 3  # frames for each position


def columns(owners: list[int] = OWNERS, tags: frozenset[int] = frozenset()) -> TextColumns:
    words = tuple(CallerWord(str(i), i, i + 1) for i in range(max(owners, default=-1) + 1))
    return TextColumns(words, np.array(owners, dtype=np.int64), tags)


def said(*words: int) -> list[int]:
    """Return where each frame looks that speaks these words."""
    return [place for word in words for place in WORDS[word] for _ in range(PACE)]


END = [MARK] * 8


def attention(looks: list[int], width: int = len(OWNERS)) -> NDArray[np.float32]:
    frames = np.full((len(looks), 2, width), 0.002, dtype=np.float32)
    frames[np.arange(len(looks)), :, looks] = 0.9
    return frames


def faults(looks: list[int], text: TextColumns | None = None) -> list[tuple[str, int, int]]:
    text = text or columns()
    finder = FaultFinder(text)
    aligner = WordAligner(text, finder)
    aligner.push(attention(looks, len(text.owners)))
    aligner.flush()
    return [(fault.kind.value, fault.first, fault.past) for fault in finder.faults(Limits())]


def test_good_speech_has_no_fault() -> None:
    assert faults(said(0, 1, 2, 3, 4) + END) == []
    slow = [place for place in said(0, 1, 2, 3, 4) for _ in range(4)]
    assert faults(slow + [MARK] * 15) == []


@pytest.mark.parametrize("word", [0, 1, 3])
def test_a_skipped_word(word: int) -> None:
    rest = [other for other in range(5) if other != word]
    assert faults(said(*rest) + END) == [("skipped", word, word + 1)]


def test_skipped_words_in_a_row_are_one_fault() -> None:
    assert faults(said(0, 3, 4) + END) == [("skipped", 1, 3)]


def test_skipped_words_are_known_soon() -> None:
    """The path is decided so many frames later, and never goes back."""
    text = columns()
    finder = FaultFinder(text)
    aligner = WordAligner(text, finder)
    frames = attention(said(0, 3, 4) + END)
    known: dict[int, list[FrameFault]] = {}
    for number, frame in enumerate(frames):
        aligner.push(frame[None])
        if found := finder.new_leaps(Limits()):
            known[number] = found
    [(number, [fault])] = known.items()
    assert (fault.kind.value, fault.first, fault.past) == ("skipped", 1, 3)
    assert number == fault.start + LAG


def test_an_end_before_the_last_word() -> None:
    assert faults(said(0, 1, 2)) == [("cut", 3, 5)]
    assert faults(said(0, 1, 2, 3, 4)[:-4]) == [("cut", 4, 5)], "cut within the word"


def test_a_repeated_word() -> None:
    found = faults(said(0, 1, 2, 1, 2, 3, 4) + END)
    assert {kind for kind, _, _ in found} == {"repeated"}
    assert {(first, past) for _, first, past in found} <= {(1, 2), (2, 3), (1, 3)}


def test_sound_that_goes_on() -> None:
    assert faults(said(0, 1, 2, 3, 4) + [MARK] * 60) == [("tail", 5, 5)]
    laugh = columns([*OWNERS[:-1], -1, -1], frozenset({MARK + 1}))
    assert faults(said(0, 1, 2, 3, 4) + END + [MARK + 1] * 60, laugh) == []


def test_a_word_that_is_held() -> None:
    looks = said(0, 1, 2, 3, 4) + END
    held = looks[:20] + [looks[20]] * 60 + looks[20:]
    assert faults(held) == [("wordless", 1, 2)]


def test_frames_that_look_at_no_text() -> None:
    text, finder = columns(), FaultFinder(columns())
    frames = attention(said(0, 1, 2, 3, 4) + END)
    frames[40:60] = 0.001
    aligner = WordAligner(text, finder)
    aligner.push(frames)
    aligner.flush()
    assert FaultKind.WORDLESS in {fault.kind for fault in finder.faults(Limits())}


def test_an_utterance_without_words_or_frames_has_no_fault() -> None:
    assert faults([0] * 90, columns([-1, -1])) == []
    assert faults([]) == []


def test_a_word_that_the_model_was_not_given_is_no_fault() -> None:
    owners = [0, 0, 0, 0, -1, 2, 2, 2, 2, -1, -1]
    looks = [place for place in range(9) for _ in range(PACE)]
    assert faults(looks + [9] * 8, columns(owners)) == []


# ---------------------------------------------------------------- the slow reference


def reference(
    weights: NDArray[np.float64], path: list[int], text: TextColumns, limits: Limits
) -> list[FrameFault]:
    """Return the faults, from all attention at once."""
    owners, count = text.owners.tolist(), len(text.words)
    found: list[FrameFault] = []
    missing = []
    leapt: set[int] = set()

    def add_gone(first: int, past: int, frame: int) -> None:
        kind = FaultKind.CUT if past - 1 == last else FaultKind.SKIPPED
        found.append(FrameFault(kind, first, past, frame, frame))

    last = max(owners)
    behind = max(place for place, owner in enumerate(owners) if owner == last)
    for frame, (a, b) in enumerate(zip([-1, *path], path, strict=False)):
        if b - a - 1 > limits.max_left_out:
            fresh = set(owners[a + 1 : b]) - {-1} - leapt
            leapt |= fresh
            for first, past in stretches([word in fresh for word in range(count)]):
                add_gone(first, past, frame)
    for word in range(count):
        own = [place for place, owner in enumerate(owners) if owner == word]
        heard = sum(weights[frame, place] for frame in range(len(path)) for place in own)
        at_end = sum(place > behind for place in path)
        missing.append(
            bool(own)
            and word not in leapt
            and (heard < limits.min_heard * len(own) or (word == last and at_end < limits.min_end))
        )
    for first, past in stretches(missing):
        final = max(place for place, owner in enumerate(owners) if owner == past - 1)
        add_gone(first, past, sum(place <= final for place in path))
    looks = [int(np.argmax(frame)) for frame in weights]
    for start, end in stretches([abs(a - b) > 1 for a, b in zip(looks, path, strict=True)]):
        words = {owners[look] for look in looks[start:end]} - {-1}
        if end - start > limits.max_away and words:
            found.append(FrameFault(FaultKind.REPEATED, min(words), max(words) + 1, start, end))
    for place in sorted(set(path)):
        start, size = path.index(place), path.count(place)
        if place > behind and place not in text.tags and size > limits.max_tail:
            found.append(FrameFault(FaultKind.TAIL, count, count, start, start + size))
        elif owners[place] >= 0 and size > limits.max_held:
            word = owners[place]
            found.append(FrameFault(FaultKind.WORDLESS, word, word + 1, start, start + size))
    for start, end in stretches([sum(frame) < 0.5 for frame in weights]):
        if end - start > limits.max_blind:
            word = min((o for o in owners[path[start] :] if o >= 0), default=count)
            found.append(FrameFault(FaultKind.WORDLESS, word, word, start, end))
    return sorted(found, key=lambda fault: (fault.start, fault.end, fault.first))


def stretches(flags: list[bool]) -> Iterator[tuple[int, int]]:
    place = 0
    for flag, run in groupby(flags):
        size = len(list(run))
        if flag:
            yield place, place + size
        place += size


@pytest.mark.parametrize("seed", range(30))
def test_faults_are_those_of_the_reference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    text = columns([*OWNERS, -1], frozenset({MARK + 1}))
    path = np.sort(rng.integers(0, len(text.owners), size=rng.integers(1, 160))).tolist()
    scale = rng.uniform(0.3, 1.0, size=(len(path), 1))
    weights = rng.dirichlet(np.full(len(text.owners), 0.05), size=len(path)) * scale
    weights[rng.random(len(path)) < 0.5] *= 0.1
    limits = Limits(0.9 if seed % 2 else 0.01, 2, 3, 1, 6, 6, 2)
    finder = FaultFinder(text)
    leaps: list[FrameFault] = []
    for number, (frame, place) in enumerate(zip(weights, path, strict=True)):
        finder.push(frame, place)
        fresh = finder.new_leaps(limits) if number % 3 else []
        assert all(number - 1 <= leap.start <= number for leap in fresh)
        leaps += fresh
    leaps += finder.new_leaps(limits)
    found = finder.faults(limits)
    assert all(leap in found for leap in leaps)
    assert len(leaps) == len(set(leaps))
    assert found == reference(weights, path, text, limits)
    assert found


@pytest.mark.parametrize("seed", range(30))
def test_random_words_said_in_any_order(seed: int) -> None:
    """Only the words in their order, each once, are good."""
    rng = np.random.default_rng(seed)
    order = rng.integers(0, 5, size=rng.integers(3, 8)).tolist()
    assert bool(faults(said(*order) + END)) == (order != [0, 1, 2, 3, 4])
