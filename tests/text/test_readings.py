"""The table of readings: each text is read as the table says, and nearly all are read well."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import NamedTuple

import pytest

from ChatTTS.text import Normalizer

from ..support.places import ROOT

TABLE = ROOT / "tests" / "data" / "readings.tsv"
LEAST_SHARE = 0.95


class Row(NamedTuple):
    """A line of the table; ``better`` is what a good reader says where that is something else."""

    language: str
    kind: str
    text: str
    reading: str
    better: str


def rows() -> list[Row]:
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    return [Row(*line.split("\t")) for line in lines[1:]]


KINDS = list(dict.fromkeys((row.language, row.kind) for row in rows()))


@cache
def reader(language: str) -> Normalizer:
    return Normalizer(characters="'?", language=language)


@pytest.mark.parametrize(("language", "kind"), KINDS, ids=map("-".join, KINDS))
def test_every_reading_is_exact(language: str, kind: str) -> None:
    read = reader(language)
    chosen = [row for row in rows() if (row.language, row.kind) == (language, kind)]
    assert {row.text: read(row.text) for row in chosen} == {row.text: row.reading for row in chosen}


def test_nearly_all_are_read_as_a_good_reader_reads() -> None:
    table = rows()
    assert len(table) > 600
    exceptions = [row for row in table if row.better]
    assert all(row.better != row.reading for row in exceptions)
    assert len(exceptions) <= (1 - LEAST_SHARE) * len(table)


def test_no_text_is_twice() -> None:
    counts = Counter((row.language, row.text) for row in rows())
    assert max(counts.values()) == 1


def test_the_exceptions_are_listed() -> None:
    document = (ROOT / "docs" / "text.md").read_text(encoding="utf-8")
    missing = [
        row.text
        for row in rows()
        if row.better and f"| `{row.text}` | {row.reading} | {row.better} |" not in document
    ]
    assert missing == []
