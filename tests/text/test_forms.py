"""Written forms are read right, in every place: ``python -m tests.text.forms`` prints the table."""

from __future__ import annotations

import pytest

from .forms.form import Case, Form, Place
from .forms.places import ENGLISH
from .forms.table import Table, cases_of, table_of

# The share of wrong cases that a class may have, and that of the classes that are open.
MOST_WRONG = 0.03
OPEN: dict[str, dict[str, float]] = {"en": {}, "zh": {}}


def problems(language: str, table: Table) -> list[str]:
    """Return the classes that are read wrong too often, with a reading of each."""
    found = []
    for kind, wrong in table.wrong_kinds.items():
        if wrong > OPEN[language].get(kind, MOST_WRONG) * table.kinds[kind]:
            case, said = next(each for each in table.wrong if each[0].form.kind == kind)
            found.append(f"{kind}: {wrong} of {table.kinds[kind]}; {case.text!r} is {said!r}")
    return found


@pytest.mark.parametrize("language", ["en", "zh"])
def test_each_form_is_read_right_in_some_places(language: str) -> None:
    assert problems(language, table_of(cases_of(language, each=1))) == []


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "zh"])
def test_each_form_is_read_right_in_every_place(language: str) -> None:
    assert problems(language, table_of(cases_of(language, seed=1))) == []


@pytest.mark.parametrize(
    "said",
    [
        "They wrote two. five.",  # an end of a sentence
        "They wrote two, five.",  # a pause
        "They wrote five.",
        "They wrote two point five. And more.",
    ],
)
def test_a_wrong_reading_is_found(said: str) -> None:
    case = Case(Form("number", "2.5", "two point five"), ENGLISH[0])
    assert case.is_read("They wrote two point five.")
    assert not case.is_read(said)


def test_a_place_may_change_how_a_form_is_written() -> None:
    wide = next(place for place in ENGLISH if place.name == "full width digits")
    assert isinstance(wide, Place)
    assert Case(Form("number", "2 cats", "two cats"), wide).text == "They wrote ２ cats there."
