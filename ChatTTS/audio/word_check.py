"""Check with a speech recogniser that a recording has every word of a text, once and in order.

The recogniser is pocketsphinx with its English model, which knows nothing of this package. It is
not asked for the words that it hears, since it would mishear some of any speaker. It is given the
text and finds the likeliest way through it, where a word may be skipped or said again at a price.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ..errors import AudioError
from ..text.tags import without_tags
from .files import read
from .samples import SAMPLE_RATE, Samples, check_rate, is_path, resample, to_mono

_RATE = 16_000  # samples a second that the recogniser takes
_FRAMES = 100  # its frames a second
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")
# Prices, as probabilities beside the 1 of the next word. Results hardly depend on them, since a
# wrong word costs the recogniser far more. It gives up ways that fall 1e-29 behind.
_DETOUR = 1e-4  # for each word that is skipped or said again
_LONG_DETOUR = 1e-8  # at most, for each row of up to _WIDEST words
_WIDEST = 20
_SOUND = 1e-6  # for each sound of a word that the dictionary does not have
# The sounds of the recogniser's model; any row of them may stand for an unknown word.
_SOUNDS = tuple(
    re.findall(
        r"\w+",
        "AA AE AH AO AW AY B CH D DH EH ER EY F G HH IH IY JH K L M N NG OW OY P R S SH T TH UH "
        "UW V W Y Z ZH",
    )
)

_Transition = tuple[int, int, float] | tuple[int, int, float, str]


@dataclass(frozen=True)
class CheckedWord:
    """A word of a text and where it was heard.

    Attributes:
        text: the word in lower case.
        times: start and end of each time that it was heard, in seconds.
        known: whether the recogniser's dictionary has it. Another word is never heard, and counts
            as no fault.
    """

    text: str
    times: tuple[tuple[float, float], ...]
    known: bool = True


@dataclass(frozen=True)
class WordCheck:
    """The result of :func:`check_words`; ``str()`` gives a readable summary.

    Attributes:
        words: of the text, in order.
    """

    words: tuple[CheckedWord, ...]

    @property
    def skipped(self) -> tuple[int, ...]:
        """Places of the words that were not heard."""
        return tuple(
            place for place, word in enumerate(self.words) if word.known and not word.times
        )

    @property
    def repeated(self) -> tuple[int, ...]:
        """Places of the words that were heard more than once.

        Sound that is not in the text counts as words of the text that it resembles.
        """
        return tuple(place for place, word in enumerate(self.words) if len(word.times) > 1)

    @property
    def good(self) -> bool:
        """Return whether every word was heard once."""
        return not self.skipped and not self.repeated

    def __str__(self) -> str:
        known = sum(word.known for word in self.words)
        lines = [f"{known - len(self.skipped)} of {known} words heard"]
        lines += [f"  skipped   {self._quoted(run)}" for run in _runs(self.skipped)]
        lines += [f"  repeated  {self._quoted(run)}" for run in _runs(self.repeated)]
        unknown = sorted({word.text for word in self.words if not word.known})
        if unknown:
            lines.append(f"  not in the recogniser's dictionary: {', '.join(unknown)}")
        return "\n".join(lines)

    def _quoted(self, run: range) -> str:
        said = " ".join(self.words[place].text for place in run)
        after = " ".join(word.text for word in self.words[max(0, run.start - 3) : run.start])
        again = [start for start, _ in self.words[run.start].times[1:]]
        return (
            f'"{said}"'
            + (f' after "{after}"' if after else " at the beginning")
            + (f", again at {again[0]:.2f} s" if again else "")
        )


def check_words(wav: Any, text: str, *, sample_rate: int = SAMPLE_RATE) -> WordCheck:
    """Find the words of an English text in a recording.

    Args:
        wav: a sound file's path, or a waveform: array, tensor or list of shape ``(n,)``, ``(1, n)``
            or ``(n, 1)``, float (full scale 1) or int16.
        text: as it is spoken, so with numbers as words; control tags and marks do not count.
        sample_rate: of an array, in Hz; a file has its own.

    Raises:
        AudioError: pocketsphinx is not installed, the text has no English word, or the waveform
            cannot be used.
    """
    words = _WORD.findall(without_tags(text).lower().replace("\u2019", "'"))
    if not words:
        raise AudioError(
            f"the text {text[:60]!r} has no English word, and the recogniser supports only English"
        )
    recogniser = _recogniser()
    known = [recogniser.lookup_word(word) is not None for word in words]
    times: list[list[tuple[float, float]]] = [[] for _ in words]
    for place, start, end in _heard(recogniser, _samples(wav, sample_rate), words, known):
        times[place].append((start / _FRAMES, end / _FRAMES))
    return WordCheck(tuple(map(CheckedWord, words, map(tuple, times), known)))


def _samples(wav: Any, sample_rate: int) -> Samples:
    if is_path(wav):
        samples, sample_rate = read(wav)
    else:
        samples, sample_rate = to_mono(wav), check_rate(sample_rate)
    return resample(samples, sample_rate, _RATE)


def _recogniser() -> Any:
    """Return a new recogniser, which has not adapted to any speaker."""
    try:
        from pocketsphinx import Decoder
    except ImportError as error:
        raise AudioError(
            "checking words needs pocketsphinx: pip install 'chattts-velocity[check]'"
        ) from error
    return Decoder(samprate=_RATE, loglevel="FATAL", lm=None)


def _heard(
    recogniser: Any, samples: Samples, words: Sequence[str], known: Sequence[bool]
) -> Iterator[tuple[int, int, int]]:
    """Yield the place, first frame and end frame of each word that is heard, in time's order."""
    if not len(samples):
        return
    names = [_name(recogniser, place, word) for place, word in enumerate(words)]
    for sound in _SOUNDS:
        recogniser.add_word(_sound_name(sound), sound, True)
    grammar = recogniser.create_fsg("text", 0, len(words), list(_transitions(names, known)))
    recogniser.add_fsg("text", grammar)
    recogniser.activate_search("text")
    recogniser.start_utt()
    pcm = (np.clip(samples, -1, 1) * 32767).astype(np.int16)
    recogniser.process_raw(pcm.tobytes(), full_utt=True)
    recogniser.end_utt()
    for segment in recogniser.seg() or ():
        if matched := re.match(r"word(\d+)", segment.word):
            yield int(matched[1]), segment.start_frame, segment.end_frame + 1


def _name(recogniser: Any, place: int, word: str) -> str:
    """Add a word under a name of its own, so that equal words at two places differ."""
    name, variant = f"word{place}", 1
    pronunciation = recogniser.lookup_word(word)
    while pronunciation is not None:
        suffix = "" if variant == 1 else f"({variant})"
        recogniser.add_word(name + suffix, pronunciation, False)
        variant += 1
        pronunciation = recogniser.lookup_word(f"{word}({variant})")
    return name


def _sound_name(sound: str) -> str:
    return f"sound-{sound}"


def _transitions(names: Sequence[str], known: Sequence[bool]) -> Iterator[_Transition]:
    """Yield the ways from state to state; in state ``i``, word ``i`` comes next."""
    end = len(names)
    for state in range(end + 1):
        for place in range(max(0, state - _WIDEST), min(state + _WIDEST, end)):
            if known[place]:
                yield state, place + 1, _price(abs(place - state)), names[place]
        if state < end:  # a wider skip is a row of these
            width = min(_WIDEST, end - state)
            yield state, state + width, _price(width)
        if state < end and not known[state]:
            yield state, state + 1, 1.0
            for sound in _SOUNDS:
                yield state, state, _SOUND, _sound_name(sound)


def _price(words: int) -> float:
    return max(_DETOUR**words, _LONG_DETOUR)


def _runs(places: Sequence[int]) -> Iterator[range]:
    """Yield the runs of neighbouring places."""
    if not places:
        return
    borders = [0, *(i + 1 for i, (a, b) in enumerate(pairwise(places)) if b != a + 1), len(places)]
    for first, end in pairwise(borders):
        yield range(places[first], places[end - 1] + 1)
