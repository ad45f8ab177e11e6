"""A written form, the places that it stands in, and whether a text was read as it may be."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

_SENSE = re.compile(r"[^\w.?!。？！]|_")  # spaces, and marks that only pause
_STOPS = str.maketrans("。？！", ".?!")
_PAUSING = re.compile(r"[,;:，；：、（）()\n—–-]")


class Form(NamedTuple):
    """One way to write one value.

    Attributes:
        kind: its class.
        text: as people write it, with the words that make its meaning plain.
        reading: a regular expression of every way to say it; white space does not count.
        pauses: whether a reader may pause in it where nothing is written, as between groups.
    """

    kind: str
    text: str
    reading: str
    pauses: bool = False


class Place(NamedTuple):
    """What stands around a form, and how that is said; ``written`` changes the form itself."""

    name: str
    before: str
    after: str
    said_before: str
    said_after: str
    written: Callable[[str], str] = str


class Case(NamedTuple):
    """A form in a place."""

    form: Form
    place: Place

    @property
    def text(self) -> str:
        return self.place.before + self.place.written(self.form.text) + self.place.after

    def is_read(self, said: str) -> bool:
        """Return whether ``said`` is a right reading.

        Neither case nor spaces count. Each end of a sentence does, and so does a pause that
        nothing in the text stands for.
        """
        pattern = f"{self.place.said_before} (?:{self.form.reading}) {self.place.said_after}"
        key = _SENSE.sub("", said.lower().translate(_STOPS)).rstrip(".")
        pauses = len(re.findall("[,，、;；:：]", said))
        return re.fullmatch(
            re.sub(r"\s", "", pattern.lower()).removesuffix(r"\."), key
        ) is not None and (self.form.pauses or pauses <= len(_PAUSING.findall(self.text)))


def cases(forms: Sequence[Form], places: Sequence[Place], each: int | None = None) -> list[Case]:
    """Return every form in every place, or each form in only ``each`` places, in turn."""
    if each is None:
        return [Case(form, place) for form in forms for place in places]
    return [
        Case(form, places[(number * each + turn) % len(places)])
        for number, form in enumerate(forms)
        for turn in range(each)
    ]
