"""How many forms are read wrong, by class and by place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from ChatTTS.text import Normalizer

from . import english, mandarin
from .form import Case, cases
from .places import ENGLISH, MANDARIN


@dataclass
class Table:
    """Cases of one language: how many there are and how many are wrong, by class and by place."""

    kinds: Counter[str] = field(default_factory=Counter)
    wrong_kinds: Counter[str] = field(default_factory=Counter)
    places: Counter[str] = field(default_factory=Counter)
    wrong_places: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[Case, str]] = field(default_factory=list)

    @property
    def share(self) -> float:
        """The share of wrong readings, from 0 to 1."""
        return len(self.wrong) / self.kinds.total()


def cases_of(language: str, seed: int = 0, each: int | None = None) -> list[Case]:
    """Return the cases of "en" or "zh"; ``each`` is in how many places a form is put."""
    if language == "en":
        return cases(english.forms(seed), ENGLISH, each)
    return cases(mandarin.forms(seed), MANDARIN, each)


def table_of(every: Sequence[Case]) -> Table:
    """Read each case, and count."""
    table = Table()
    for case in every:
        said = _reader()(case.text)
        table.kinds[case.form.kind] += 1
        table.places[case.place.name] += 1
        if not case.is_read(said):
            table.wrong_kinds[case.form.kind] += 1
            table.wrong_places[case.place.name] += 1
            table.wrong.append((case, said))
    return table


@cache
def _reader() -> Normalizer:
    return Normalizer(characters="'?")
