"""Speech of a text by a voice of the teacher, with the time at which each character begins.

The teacher speaks one sentence at a time. The pauses of control tags, and those between sentences,
are exact silence that is inserted between its words.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import soxr
from numpy.typing import NDArray

from ChatTTS.errors import TextError

from . import flite
from .counter_rng import CounterRng
from .flite import Phone, Sound, teacher
from .types import DEFAULT_SPEED, FRAME_SAMPLES, SAMPLE_RATE, SOUNDS, SPEEDS, VOICES, Spoken

Samples = NDArray[np.float32]

UV_BREAK, LBREAK, LAUGH = "[uv_break]", "[lbreak]", "[laugh]"
TAGS = (UV_BREAK, LBREAK, LAUGH)
PAUSE_SECONDS = {UV_BREAK: (0.2, 0.4), LBREAK: (0.5, 0.7)}  # shortest and longest
SENTENCE_PAUSE_SECONDS = (0.25, 0.35)  # at the default speed
LEAD_SECONDS = 0.06  # silence before the first sound
TAIL_SECONDS = 0.12  # at least; the end is on the boundary of a frame
LOUDNESS = 0.08  # root mean square of the speech without pauses
PEAK = 0.95
RATE_STEP = 1.08  # factor of the tempo between [speed_n] and [speed_n+1]

_MARGIN = 0.03  # seconds kept around the words: sounds begin and end softly
_FADE = 80  # samples
_PIECE = re.compile(
    rf"(?P<tag>{'|'.join(map(re.escape, TAGS))})|(?P<word>[a-z']+)|(?P<mark>[,.?])| "
)
# By voice, the stretch that makes a "ha" last a fifth of a second.
_LAUGH_STRETCH = {"rms": 0.9, "slt": 0.75, "awb": 1.8, "kal16": 1.1}


@dataclass
class _Word:
    text: str
    place: int  # index of the first character
    mark: str = ""
    breaks: list[int] = field(default_factory=list)  # places of the tags before it


@dataclass
class _Sentence:
    words: list[_Word] = field(default_factory=list)


@dataclass(frozen=True)
class _Tag:
    name: str
    place: int


def stretch(speed: int) -> float:
    """Return the factor of all durations for ``[speed_n]``: 1 at the default, less for higher n."""
    return float(RATE_STEP ** (DEFAULT_SPEED - speed))


def speak(text: str, voice: str, speed: int = DEFAULT_SPEED) -> Spoken:
    """Speak ``text``; equal arguments give equal bytes.

    Args:
        text: lower-case words, spaces, ``,.?'``, and the tags ``TAGS``.
        voice: one of ``VOICES``.
        speed: 0 to 9.

    Raises:
        TextError: the text contains anything else, or neither a word nor a laugh; or the voice or
            the speed is unknown.
        EngineUnavailableError: flite is not installed.
    """
    return speak_with_times(text, voice, speed)[0]


def speak_with_times(
    text: str, voice: str, speed: int = DEFAULT_SPEED
) -> tuple[Spoken, NDArray[np.float64]]:
    """Return what :func:`speak` does, and float64 [characters], the second at which each begins.

    The times of ``Spoken`` are these, rounded down to frames.
    """
    if voice not in VOICES or speed not in range(SPEEDS):
        raise TextError(f"voice {voice!r} at speed {speed}: use one of {VOICES} and 0 to 9")
    key = zlib.crc32(f"{voice} {speed} {text}".encode())
    tape = _Tape(text, voice, stretch(speed), CounterRng(key, 0))
    previous: _Sentence | _Tag | None = None
    for part in _parts(text):
        if isinstance(part, _Sentence):
            if isinstance(previous, _Sentence):
                tape.sentence_pause()
            tape.sentence(part)
        elif part.name == LAUGH:
            tape.laugh(part.place)
        else:
            tape.pause(part)
        previous = part
    samples, starts, sounds = tape.finish()
    return Spoken(text, voice, speed, samples, starts, sounds), tape.starts / flite.SAMPLE_RATE


def to_int16(samples: Samples) -> NDArray[np.int16]:
    """Convert samples within -1 to 1 to 16-bit integers."""
    rounded: NDArray[np.int16] = np.rint(samples * np.float32(32767)).astype(np.int16)
    return rounded


def to_float(samples: NDArray[np.int16]) -> Samples:
    """Convert 16-bit samples to floats; this inverts ``to_int16`` for samples of 16 bits."""
    scaled: Samples = (samples / np.float32(32767)).astype(np.float32)
    return scaled


class _Tape:
    """A recording that grows sound by sound, and the time at which each character begins."""

    def __init__(self, text: str, voice: str, stretch: float, rng: CounterRng) -> None:
        self._voice = voice
        self._stretch = stretch
        self._rng = rng
        self._starts = np.full(len(text), -1, dtype=np.int64)
        self._pieces: list[Samples] = []
        self._sounding: list[Samples] = []
        self._phones: list[tuple[int, int, int]] = []  # first sample, end, index in SOUNDS
        self._length = 0
        self._silence(LEAD_SECONDS)

    def sentence(self, sentence: _Sentence) -> None:
        words = sentence.words
        sound = teacher().say(
            " ".join(word + mark for word, mark in _spelling(words)),
            self._voice,
            stretch=self._stretch,
            seed=self._rng.below(2**31),
        )
        spans = _spans(sound, len(words))
        cut = max(0, spans[0][0] - _samples(_MARGIN))
        for i, (word, (start, end)) in enumerate(zip(words, spans, strict=True)):
            if word.breaks and i:
                middle = (spans[i - 1][1] + start) // 2
                self._sound(sound.samples[cut:middle])
                cut = middle
            for place in word.breaks:
                self.pause(_Tag(UV_BREAK, place))
            offset = self._length - cut
            own = [phone for phone in sound.phones if phone.token == i]
            self._note(own, offset)
            letters = _letters(own, len(word.text))
            self._starts[word.place : word.place + len(letters)] = letters + offset
            if (behind := word.place + len(word.text)) < len(self._starts):
                self._starts[behind] = end + offset  # also all characters up to the next word
        self._sound(sound.samples[cut : spans[-1][1] + _samples(_MARGIN)])

    def laugh(self, place: int) -> None:
        self._silence(0.06)
        self._starts[place] = self._length
        for i in range(self._rng.integer(2, 4)):
            sound = teacher().say(
                "hh aa",
                self._voice,
                stretch=_LAUGH_STRETCH[self._voice],
                pitch=1.5 - 0.12 * i,  # the pitch of laughter falls
                phones=True,
                seed=self._rng.below(2**31),
            )
            self._note(sound.phones, self._length)
            self._sound(sound.samples * np.float32(0.9**i))
        self._silence(0.1)

    def pause(self, tag: _Tag) -> None:
        if self._starts[tag.place] < 0:
            self._starts[tag.place] = self._length
        self._silence(self._rng.between(*PAUSE_SECONDS[tag.name]))

    def sentence_pause(self) -> None:
        self._silence(self._rng.between(*SENTENCE_PAUSE_SECONDS) * self._stretch)

    @property
    def starts(self) -> NDArray[np.int64]:
        """The sample of the teacher in which each character begins, [characters]."""
        return np.maximum.accumulate(self._starts.clip(0))

    def finish(self) -> tuple[Samples, NDArray[np.int32], NDArray[np.int8]]:
        """Return the speech, the frame in which each character begins, and each frame's sound.

        They are float32 [n] at 24 kHz (n is a whole number of frames), int32 [characters] and int8
        [frames].
        """
        self._silence(TAIL_SECONDS)
        sounding = np.concatenate(self._sounding)
        peak = float(np.abs(sounding).max())
        gain = min(LOUDNESS / float(np.sqrt(np.mean(sounding**2))), PEAK / peak)
        wave = soxr.resample(
            np.concatenate(self._pieces) * np.float32(gain), flite.SAMPLE_RATE, SAMPLE_RATE
        )
        frames = -(-len(wave) // FRAME_SAMPLES)
        wave = np.pad(wave, (0, frames * FRAME_SAMPLES - len(wave)))
        # Rounded to 16 bits, so that speech from a shard equals speech made now.
        wave = to_float(to_int16(wave.clip(-1, 1)))
        starts = self.starts * SAMPLE_RATE // flite.SAMPLE_RATE // FRAME_SAMPLES
        sounds = np.zeros(self._length, dtype=np.int8)
        for begin, end, sound in self._phones:
            sounds[begin:end] = sound
        middles = (np.arange(frames) * 2 + 1) * FRAME_SAMPLES * flite.SAMPLE_RATE
        middles = (middles // (2 * SAMPLE_RATE)).clip(0, self._length - 1)
        return wave, starts.clip(0, frames - 1).astype(np.int32), sounds[middles]

    def _note(self, phones: Iterable[Phone], offset: int) -> None:
        """Add sounds whose times count from sample ``offset`` of the recording."""
        for phone in phones:
            begin, end = _samples(phone.start) + offset, _samples(phone.end) + offset
            self._phones.append((begin, end, SOUNDS.index(phone.name)))

    def _sound(self, samples: Samples) -> None:
        samples = samples.copy()
        fade = min(_FADE, len(samples) // 2)
        ramp = np.linspace(0, 1, fade, dtype=np.float32)
        samples[:fade] *= ramp
        samples[len(samples) - fade :] *= ramp[::-1]
        self._sounding.append(samples)
        self._append(samples)

    def _silence(self, seconds: float) -> None:
        self._append(np.zeros(_samples(seconds), dtype=np.float32))

    def _append(self, samples: Samples) -> None:
        self._pieces.append(samples)
        self._length += len(samples)


def _parts(text: str) -> list[_Sentence | _Tag]:
    """Split a text into sentences and the tags between them."""
    parts: list[_Sentence | _Tag] = []
    sentence, breaks, place = _Sentence(), list[int](), 0

    def close() -> None:
        nonlocal sentence
        if sentence.words:
            parts.append(sentence)
        parts.extend(_Tag(UV_BREAK, at) for at in breaks)
        breaks.clear()
        sentence = _Sentence()

    while place < len(text):
        match = _PIECE.match(text, place)
        if not match:
            raise TextError(f"the teacher cannot speak {text[place]!r} in {text!r}; leave it out")
        if match["word"]:
            sentence.words.append(_Word(match["word"], place, breaks=[*breaks]))
            breaks.clear()
        elif match["mark"] and sentence.words:
            sentence.words[-1].mark = match["mark"]
            if match["mark"] != ",":
                close()
        elif match["tag"] == UV_BREAK:
            breaks.append(place)
        elif match["tag"]:
            close()
            parts.append(_Tag(match["tag"], place))
        place = match.end()
    close()
    if all(isinstance(part, _Tag) and part.name != LAUGH for part in parts):
        raise TextError(f"nothing to speak in {text!r}; it needs a word")
    return parts


def _spelling(words: list[_Word]) -> list[tuple[str, str]]:
    """Return the words, spelled so that flite reads them correctly, and the marks after them."""
    spelling = []
    for word, following in zip(words, [*words[1:], None], strict=True):
        # the letter, not the article: "a m", "u s a"
        is_letter = word.text == "a" and following and re.fullmatch("[b-hj-z]", following.text)
        mark = word.mark or ("," if following and following.breaks else "" if following else ".")
        spelling.append(("ay" if is_letter else word.text, mark))
    return spelling


def _spans(sound: Sound, count: int) -> list[tuple[int, int]]:
    """Return the first and last sample of each word; a word without sounds has length 0."""
    spans: list[tuple[int, int]] = []
    for i in range(count):
        own = [phone for phone in sound.phones if phone.token == i]
        before = spans[-1][1] if spans else _samples(sound.phones[0].end)
        spans.append((_samples(own[0].start), _samples(own[-1].end)) if own else (before, before))
    return spans


def _letters(own: list[Phone], count: int) -> NDArray[np.int64]:
    """Return the sample at which each letter of a word begins: letters share sounds in order."""
    if not own:
        return np.zeros(0, dtype=np.int64)
    return np.array([_samples(own[i * len(own) // count].start) for i in range(count)])


def _samples(seconds: float) -> int:
    return round(seconds * flite.SAMPLE_RATE)
