"""How many words are lost with and without the guard."""

from __future__ import annotations

import numpy as np
import pytest

from recipes.voice.evaluation.guarded import Heard, Spoken, listen, measure, table
from recipes.voice.evaluation.subject import Subject

NOTHING = np.zeros(0, dtype=np.float32)


def spoken(faults: int, attempts: int = 1) -> Spoken:
    return Spoken("we went home.", NOTHING, faults, attempts, 1)


@pytest.mark.smoke
def test_figures_of_requests() -> None:
    rows = [
        (spoken(0), Heard(3, 0)),
        (spoken(1, attempts=4), Heard(3, 0)),
        (spoken(2), Heard(3, 2)),
        (spoken(0), Heard(3, 1)),
    ]
    assert list(table(rows).values()) == [
        "3 of 12 (25.00 %)",
        "2 of 4",
        "1",
        "1 of 2",
        "7 at 4 utterances",
    ]


def test_without_sound_every_word_is_lost() -> None:
    assert listen(spoken(0)) == Heard(3, 3)


@pytest.mark.slow
def test_the_voice_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pocketsphinx")
    measure(Subject(), ["we went to the market to buy some bread."] * 2, None, 0)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("guard=")]
    assert sum("of 18 (" in line for line in lines) == 2
