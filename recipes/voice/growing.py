"""Corpora that grow while a training reads them.

What a step reads depends on how many files there are then. :class:`GrowingCorpus` notes each growth
with the step that saw it first; a run that goes on from an earlier step finds the corpus of that
time. :class:`LatestCorpus` notes nothing: several processes may read it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .coded import Coded, read_codes, read_space

_LOOK_SECONDS = 30.0


@dataclass(frozen=True)
class Growth:
    """From ``step`` on, the corpus is the files with these names, and those known before."""

    step: int
    names: tuple[str, ...]


class GrowingCorpus:
    """The coded utterances of a folder.

    Args:
        folder: of the codes.
        note: file of the growths, JSON lines.
        clock: returns the time in seconds.
    """

    def __init__(
        self, folder: Path, note: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder, self._note, self._clock = folder, note, clock
        self._looked = -_LOOK_SECONDS
        self._growths = _read(note)
        self._corpora: list[list[Coded]] = []  # after each growth
        for growth in self._growths:
            self._load(growth)

    def at(self, step: int) -> list[Coded]:
        """Return the utterances that ``step`` may read.

        Steps after all known growths look for new files, twice a minute.
        """
        is_latest = not self._growths or step >= self._growths[-1].step
        if is_latest and self._clock() - self._looked >= _LOOK_SECONDS:
            self._looked = self._clock()
            self._look(step)
        seen = sum(growth.step <= step for growth in self._growths)
        return self._corpora[seen - 1] if seen else []

    def _look(self, step: int) -> None:
        known = {name for growth in self._growths for name in growth.names}
        found = sorted({path.stem for path in self._folder.glob("[0-9]*.npz")} - known)
        if not found:
            return
        growth = Growth(step, tuple(found))
        self._load(growth)
        self._growths.append(growth)
        self._note.parent.mkdir(parents=True, exist_ok=True)
        with self._note.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": growth.step, "names": growth.names}) + "\n")

    def _load(self, growth: Growth) -> None:
        places = read_space(self._folder)
        items = list(self._corpora[-1]) if self._corpora else []
        for name in growth.names:
            items += read_codes(self._folder / f"{name}.npz", places)
        self._corpora.append(items)


class LatestCorpus:
    """The coded utterances that a folder has by now; a copy for another process begins empty.

    Args:
        folder: of the codes.
        clock: returns the time in seconds.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._clock = folder, clock
        self._names: set[str] = set()
        self._items: list[Coded] = []
        self._looked = -_LOOK_SECONDS

    def __reduce__(self) -> tuple[type[LatestCorpus], tuple[Path]]:
        return LatestCorpus, (self._folder,)

    def __call__(self, step: int) -> list[Coded]:
        """Return the utterances that any step may read; look for new files twice a minute."""
        if self._clock() - self._looked >= _LOOK_SECONDS or not self._items:
            self._looked = self._clock()
            found = {path.stem for path in self._folder.glob("[0-9]*.npz")} - self._names
            if found:
                places = read_space(self._folder)
                new = [read_codes(self._folder / f"{name}.npz", places) for name in sorted(found)]
                self._items = [*self._items, *(item for items in new for item in items)]
                self._names |= found
        return self._items


def _read(note: Path) -> list[Growth]:
    if not note.exists():
        return []
    lines = note.read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return [Growth(one["step"], tuple(one["names"])) for one in found]
