"""A store of spoken lines in a folder, each under the hash of everything that decides it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..audio.samples import Samples
from ..errors import AudioError
from ..pipeline.results import Word
from ..utils.cache_files import UNFINISHED, atomic_write, remove_unfinished

_MAGIC = b"chattts-line-1 "
_ENDING = ".line"
_DIGITS = 64  # of the hash
# The longest line has 1500 characters, some minutes of speech.
_MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class SpokenPart:
    """An utterance of a line.

    Attributes:
        text: as it was spoken.
        samples: their number.
        faults: what is wrong with it, as text for a reader.
    """

    text: str
    samples: int
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class SpokenLine:
    """The speech of one line, as the model gave it.

    Attributes:
        samples: float32 (n,) at 24 kHz.
        parts: its utterances, which follow one another in the samples.
        words: where their times were asked for.
    """

    samples: Samples
    parts: tuple[SpokenPart, ...]
    words: tuple[Word, ...] = ()


class LineStore:
    """A folder of spoken lines.

    A file appears under its name when it is complete, and its content is checked by a hash when it
    is read. So a process may be killed at any moment, and several may share the folder.

    Args:
        folder: created where it is missing.

    Raises:
        AudioError: the folder cannot be created.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Keys of the files that are complete: they were written or read by this process.
        self._whole: set[str] = set()
        with self._explained("cannot be used"):
            folder.mkdir(parents=True, exist_ok=True)
        remove_unfinished(folder)

    def save(self, key: str, spoken: SpokenLine) -> None:
        """Keep a line.

        Raises:
            AudioError: the disk is full, or refuses otherwise; nothing kept before is lost.
        """
        about = {
            "parts": [asdict(part) for part in spoken.parts],
            "words": [asdict(word) for word in spoken.words],
        }
        head = json.dumps(about).encode() + b"\n"
        samples = spoken.samples.astype("<f4", copy=False).tobytes()
        digest = hashlib.sha256(head)
        digest.update(samples)
        with self._explained("takes no more lines"), atomic_write(self._path(key)) as file:
            file.write(_MAGIC + digest.hexdigest().encode() + b"\n" + head)
            file.write(samples)
        self._whole.add(key)

    def has(self, key: str) -> bool:
        """Return whether a line is kept and its file is not damaged; each file is read once."""
        if key not in self._whole and self.load(key) is not None:
            self._whole.add(key)
        return key in self._whole and key in self

    def load(self, key: str) -> SpokenLine | None:
        """Return a kept line; ``None`` if there is none, or its file is damaged.

        Its samples are a view of the bytes of the file, and cannot be changed.
        """
        path = self._path(key)
        try:
            if path.stat().st_size > _MOST_BYTES:
                return None
            data = path.read_bytes()
        except OSError:
            return None
        head = len(_MAGIC) + _DIGITS + 1
        body = memoryview(data)[head:]
        digest = hashlib.sha256(body).hexdigest().encode()
        if data[:head] != _MAGIC + digest + b"\n":
            return None
        end = data.index(b"\n", head)
        values: dict[str, Any] = json.loads(data[head:end])
        return SpokenLine(
            np.frombuffer(data, dtype="<f4", offset=end + 1).astype(np.float32, copy=False),
            tuple(map(_part, values["parts"])),
            tuple(Word(**word) for word in values["words"]),
        )

    def began(self, keys: Iterable[str]) -> float | None:
        """Return when the first of these lines was kept, in seconds since 1970; ``None`` for none.

        It is the time of its file, which stays while a reading is stopped.
        """
        times = []
        for key in keys:
            with suppress(OSError):
                times.append(self._path(key).stat().st_mtime)
        return min(times, default=None)

    def take_over(self, folder: Path, key: str) -> int:
        """Move a line here from the folder of other kept lines, which does not keep it any more.

        Returns:
            The bytes of its file; 0 if that folder has no such line.
        """
        path = folder / self._path(key).name
        try:
            size = path.stat().st_size
            path.replace(self._path(key))
        except OSError:  # it may be deleted at any moment
            return 0
        return size

    def __len__(self) -> int:
        return sum(path.suffix == _ENDING for path in self.folder.iterdir())

    def __contains__(self, key: str) -> bool:
        return self._path(key).is_file()

    def remove(self) -> None:
        """Delete the kept lines, and the folder if nothing else is in it."""
        with suppress(OSError):
            for path in self.folder.iterdir():
                if path.suffix == _ENDING or path.name.startswith(UNFINISHED):
                    path.unlink(missing_ok=True)
            self.folder.rmdir()

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{_ENDING}"

    @contextmanager
    def _explained(self, problem: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise AudioError(
                f"the folder {self.folder} {problem}: {error.strerror or error}; the lines in it "
                "are not lost, and the next run continues from them"
            ) from error


def _part(values: dict[str, Any]) -> SpokenPart:
    """Return an utterance as a file has it."""
    return SpokenPart(**{**values, "faults": tuple(values.get("faults", ()))})
