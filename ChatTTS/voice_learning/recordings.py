"""Recordings to learn from: read, checked, at 24 kHz, with a table of what was left out and why."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..audio.files import header, read
from ..audio.reference import check_kind, reference_audio
from ..audio.samples import SAMPLE_RATE, Samples
from ..audio.trim import trim_silence
from ..errors import AudioError, VoiceError
from ..utils.progress import progress
from .sound_checks import fault_of
from .transcripts import Transcribed, find_transcribed

_THRESHOLD_DB, _MARGIN_S = -40.0, 0.1  # of the silence at both ends that is cut off
# Three times as many as in fast speech. The time that a model takes grows with their square.
_MOST_CHARACTERS = 60  # of a transcript, a second


@dataclass(frozen=True)
class Limits:
    """The limits of recordings.

    Attributes:
        least_seconds, most_seconds: of one recording.
        least_rate: samples a second of a file.
        most_total: seconds of all recordings together.
        enough: seconds after which no further recordings are read; ``None`` reads all.
    """

    least_seconds: float = 1.0
    most_seconds: float = 30.0
    least_rate: int = 16_000
    most_total: float = 1800.0
    enough: float | None = None


@dataclass(frozen=True, eq=False)
class Recording:
    """A recording that can be learned from.

    Attributes:
        name: the file's name within its folder, as it can be printed.
        path: of the file.
        text: its transcript, as it was written.
        samples: float32 [n] at 24 kHz, mono, without the silence at both ends.
    """

    name: str
    path: Path
    text: str
    samples: Samples

    @property
    def seconds(self) -> float:
        """Its length."""
        return len(self.samples) / SAMPLE_RATE


@dataclass(frozen=True)
class LeftOut:
    """A recording that is not used, and why."""

    name: str
    reason: str


@dataclass(frozen=True, eq=False)
class Recordings:
    """The recordings of a folder: those that are used, and those that are not."""

    kept: tuple[Recording, ...]
    left_out: tuple[LeftOut, ...] = ()

    @property
    def seconds(self) -> float:
        """Seconds of all that are used."""
        return sum(recording.seconds for recording in self.kept)

    def without(self, faults: Sequence[LeftOut]) -> Recordings:
        """Return the recordings without those that ``faults`` name."""
        names = {fault.name for fault in faults}
        kept = tuple(each for each in self.kept if each.name not in names)
        return replace(self, kept=kept, left_out=(*self.left_out, *faults))

    def rows(self) -> list[tuple[str, str, str]]:
        """Return a table: name, seconds or nothing, and what became of each recording."""
        used = [(each.name, f"{each.seconds:.1f}", "used") for each in self.kept]
        return used + [(each.name, "", f"left out: {each.reason}") for each in self.left_out]

    def checked(self) -> Recordings:
        """Return these recordings, if there are any.

        Raises:
            VoiceError: all were left out; the message has the reasons.
        """
        if self.kept:
            return self
        reasons = "; ".join(f"{each.name}: {each.reason}" for each in self.left_out[:5])
        more = f"; and {len(self.left_out) - 5} more" if len(self.left_out) > 5 else ""
        raise VoiceError(f"none of the recordings can be used: {reasons}{more}")


def read_recordings(
    source: str | os.PathLike[str],
    text: str | None = None,
    *,
    limits: Limits | None = None,
    show_tqdm: bool = False,
) -> Recordings:
    """Read and check the recordings of a folder, or one file and its text.

    Headers are read first, so that a day of sound is refused before it is decoded.

    Args:
        source: see :func:`~.transcripts.find_transcribed`.
        text: the transcript of one file.
        limits: what recordings may be.
        show_tqdm: show a progress bar on a terminal.

    Raises:
        VoiceError: there are no transcripts, there is too much sound, or nothing can be used.
    """
    bounds = limits or Limits()
    found = find_transcribed(source, text)
    if bounds.enough is None:
        _check_total(found, source, bounds)
    kept: list[Recording] = []
    left_out: list[LeftOut] = []
    seconds = 0.0
    for number, each in enumerate(_shown(found, show_tqdm)):
        if bounds.enough is not None and seconds >= bounds.enough:
            rest = f"{each.name} and all after it ({len(found) - number})"
            left_out.append(LeftOut(rest, f"{bounds.enough:g} s were there without them"))
            break
        recording = _read(each, bounds)
        if isinstance(recording, LeftOut):
            left_out.append(recording)
        else:
            kept.append(recording)
            seconds += recording.seconds
    return Recordings(tuple(kept), tuple(left_out)).checked()


def _shown(found: Sequence[Transcribed], show: bool) -> Iterator[Transcribed]:
    with progress("read", "recording", show, total=len(found)) as bar:
        for each in found:
            yield each
            bar.update()


def _check_total(
    found: Sequence[Transcribed], source: str | os.PathLike[str], bounds: Limits
) -> None:
    total = 0.0
    for each in found:
        try:
            total += header(each.path).seconds
        except AudioError:
            continue  # named when it is read
    if total > bounds.most_total:
        length = f"{total / 3600:.1f} hours" if total >= 3600 else f"{total / 60:.1f} minutes"
        raise VoiceError(
            f"{os.fspath(source)} has {length} of sound, more than {bounds.most_total / 60:g} "
            "minutes, and a minute is enough for a voice: give the number of seconds to use, or "
            "give a folder with fewer recordings"
        )


def _read(each: Transcribed, bounds: Limits) -> Recording | LeftOut:
    if each.text is None:
        return LeftOut(each.name, "it has no transcript")
    try:
        said = header(each.path)
        if said.rate < bounds.least_rate:
            return LeftOut(
                each.name,
                f"it has {said.rate} samples a second, fewer than {bounds.least_rate}: it lacks "
                "the higher half of speech",
            )
        check_kind(said, str(each.path))
        if said.seconds > bounds.most_seconds:
            return LeftOut(each.name, _too_long(said.seconds, bounds))
        samples, rate = read(each.path, longest=bounds.most_seconds)
        # The reference checks find silence, NaN and offsets.
        wave = trim_silence(reference_audio(samples, rate), _THRESHOLD_DB, _MARGIN_S)
    except AudioError as error:
        message = str(error).removeprefix("the reference audio ").removeprefix(f"{each.path} ")
        return LeftOut(each.name, f"it {message}" if message != str(error) else message)
    seconds = len(wave) / SAMPLE_RATE
    if seconds < bounds.least_seconds:
        return LeftOut(
            each.name,
            f"it has {seconds:.2f} s between the silence at its ends, less than "
            f"{bounds.least_seconds:g} s",
        )
    if len(each.text) > _MOST_CHARACTERS * seconds:
        return LeftOut(
            each.name,
            f"its transcript has {len(each.text)} characters, too many to be said in "
            f"{seconds:.1f} s",
        )
    fault = fault_of(samples, wave)
    if fault is not None:
        return LeftOut(each.name, fault)
    return Recording(each.name, each.path, each.text, wave)


def _too_long(seconds: float, bounds: Limits) -> str:
    return (
        f"it lasts {seconds:.1f} s, more than {bounds.most_seconds:g} s: cut it between sentences"
    )
