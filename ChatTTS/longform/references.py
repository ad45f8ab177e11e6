"""The references of a plan: utterances of each voice, by which its lines are judged."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from ..pipeline.sample_sentences import sample_sentences
from .planned import PlannedLine, Reference
from .script import Style
from .steadiness import HAN

# Of a reference: enough for a median, and two seconds of work.
_UTTERANCES = 12
# Letters of an utterance that shows a voice well.
_SHORTEST, _LONGEST = 24, 160
_Group = tuple[str | None, Style, bool]


def with_references(plan: Sequence[PlannedLine], steady: str) -> tuple[PlannedLine, ...]:
    """Return the plan with a reference for each line that is spoken, which its key names too.

    Lines of one voice, style and kind of letters have one in common: a voice that speaks English
    and Chinese is not heard alike in both.

    Args:
        steady: what becomes of lines that leave the usual.
    """
    groups: dict[_Group, list[str]] = defaultdict(list)
    for planned in plan:
        groups[_group(planned)] += planned.texts
    references = {group: _reference(group, texts) for group, texts in groups.items()}
    return tuple(_referred(planned, references[_group(planned)], steady) for planned in plan)


def _group(planned: PlannedLine) -> _Group:
    line = planned.line
    return line.voice, line.style, any(map(HAN.search, planned.texts))


def _reference(group: _Group, texts: Sequence[str]) -> Reference:
    """Return utterances of a work, and sample sentences where it has not enough.

    They are chosen by their hashes: a line that is changed later seldom changes the reference, and
    with it the keys of all lines of its voice.
    """
    usable = {text for text in texts if _SHORTEST <= _size(text) <= _LONGEST}
    chosen = sorted(usable, key=lambda text: hashlib.sha256(text.encode()).digest())[:_UTTERANCES]
    missing = _UTTERANCES - len(chosen)
    return Reference((*chosen, *sample_sentences("zh" if group[2] else "en")[:missing]))


def _size(text: str) -> int:
    """Return the length of a text in letters; a Chinese character counts as three."""
    return len(text) + 2 * len(HAN.findall(text))


def _referred(planned: PlannedLine, reference: Reference, steady: str) -> PlannedLine:
    if planned.key is None:
        return planned
    decides = json.dumps([planned.key, steady, reference.texts], ensure_ascii=True)
    key = hashlib.sha256(decides.encode()).hexdigest()
    return replace(planned, key=key, reference=reference)
