"""References: a sound beside the test, and what is known of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path

from ..audio.files import read, save, write_file
from ..audio.samples import digest_of
from ..errors import AudioError
from .origin import Origin
from .sounds import Sound, TimedText, length_of

_BLOCKS = 10  # a second
_BLOCK_DIGITS = 4


@dataclass(frozen=True)
class Reference:
    """The facts that are kept of a sound.

    Attributes:
        sha256: of its rate and its float32 samples, in hexadecimal digits.
        blocks: the first digits of the hash of each tenth of a second, one after another.
        samples: how many they are.
        sample_rate: in Hz.
        origin: what it came from.
        words: those whose times were known.
    """

    sha256: str
    blocks: str
    samples: int
    sample_rate: int
    origin: Origin
    words: tuple[TimedText, ...] = ()

    @classmethod
    def of(cls, sound: Sound, origin: Origin) -> Reference:
        """Return the reference that a sound makes."""
        size = _block_size(sound.rate)
        blocks = (sound.samples[at : at + size] for at in range(0, len(sound.samples), size))
        return cls(
            digest_of(sound.samples, sound.rate).hex(),
            "".join(digest_of(block, sound.rate).hex()[:_BLOCK_DIGITS] for block in blocks),
            len(sound.samples),
            sound.rate,
            origin,
            sound.words,
        )

    def first_change(self, made: Reference) -> float:
        """Return the seconds of the first tenth of a second whose samples are not equal."""
        both = zip_longest(_digits(self.blocks), _digits(made.blocks))
        block = next((at for at, (old, new) in enumerate(both) if old != new), 0)
        return block * _block_size(self.sample_rate) / self.sample_rate

    @property
    def length(self) -> str:
        """The length, for messages."""
        return length_of(self.samples, self.sample_rate)


class ReferenceFiles:
    """The files of a reference: ``.json``, and ``.flac`` with the sound in 16 bits.

    Args:
        path: of the files, without an ending.
    """

    def __init__(self, path: Path) -> None:
        self.facts, self.sound = (
            path.with_name(f"{path.name}.json"),
            path.with_name(f"{path.name}.flac"),
        )

    def exists(self) -> bool:
        """Return whether there is a reference."""
        return self.facts.exists()

    def read(self) -> Reference:
        """Return the reference.

        Raises:
            AudioError: the file is damaged.
        """
        try:
            fields = json.loads(self.facts.read_text(encoding="utf-8"))
            words = tuple(TimedText(**word) for word in fields.pop("words"))
            return Reference(origin=Origin(**fields.pop("origin")), words=words, **fields)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise AudioError(
                f"{self.facts} is no reference ({error}); write it again with --update-speech"
            ) from error

    def read_sound(self) -> Sound | None:
        """Return the sound; ``None`` where the hash alone is kept."""
        return Sound(*read(self.sound)) if self.sound.exists() else None

    def write(self, sound: Sound, origin: Origin, *, keep_sound: bool) -> None:
        """Write a reference, unless this one is there; the sound with ``keep_sound``."""
        made = Reference.of(sound, origin)
        if self.exists() and self.read() == made and self.sound.exists() == keep_sound:
            return
        self.facts.parent.mkdir(parents=True, exist_ok=True)
        if keep_sound:
            save(self.sound, sound.samples, sound.rate)
        else:
            self.sound.unlink(missing_ok=True)
        text = json.dumps(asdict(made), indent=1, ensure_ascii=False)
        write_file(self.facts, f"{text}\n".encode())


def word_at(words: Iterable[TimedText], seconds: float) -> str | None:
    """Return the word that is spoken at a time; ``None`` between words."""
    return next((word.text for word in words if word.start <= seconds < word.end), None)


def _block_size(rate: int) -> int:
    return max(1, rate // _BLOCKS)


def _digits(blocks: str) -> list[str]:
    return [blocks[at : at + _BLOCK_DIGITS] for at in range(0, len(blocks), _BLOCK_DIGITS)]
