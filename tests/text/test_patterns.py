"""The time of regular expressions: no text makes one of them take the square of its length."""

from __future__ import annotations

import importlib
import pkgutil
import re
import time
from collections.abc import Iterator

import pytest

import ChatTTS
from ChatTTS.text import Normalizer

from ..support.pumping import ENDINGS, parts_of, seconds
from .test_readings import KINDS, rows

# Modules of packages that a machine may not have, and that read no text of strangers.
OPTIONAL = (
    "ChatTTS.serving.replicas.on_ray",
    "ChatTTS.model.kernels.cuda",
    "ChatTTS.model.velocity.backends.cuda",
)
REPETITIONS = 1000
# A pattern without any loop takes less, and what takes less cannot be told from noise.
SHORT = 0.002
QUADRATIC = 2.9  # twice the text: a linear pattern takes twice as long, a quadratic one four times


def compiled() -> dict[re.Pattern[str], str]:
    """Return every pattern of the package's modules, alone or in a table, with its place."""
    found: dict[re.Pattern[str], str] = {}
    for module in pkgutil.walk_packages(ChatTTS.__path__, "ChatTTS."):
        if module.name.startswith(OPTIONAL) or module.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            for pattern in patterns_in(value):
                found.setdefault(pattern, f"{module.name}.{name}")
    return found


def patterns_in(value: object, depth: int = 0) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        yield value
    elif isinstance(value, tuple | list | dict) and depth < 4:
        for part in value.values() if isinstance(value, dict) else value:
            yield from patterns_in(part, depth + 1)


def slowest_part(pattern: re.Pattern[str]) -> str | None:
    """Return a part whose repetition takes more than linear time, if there is one."""
    for part in parts_of(pattern):
        for ending in ENDINGS:
            if seconds(pattern, part * (2 * REPETITIONS) + ending) < SHORT:
                continue
            # A quadratic one takes too long for twice the text and for four times the text.
            if all(takes_square(pattern, part, ending, n * REPETITIONS) for n in (1, 2)):
                return part + ending
    return None


def takes_square(pattern: re.Pattern[str], part: str, ending: str, count: int) -> bool:
    """Return whether twice ``count`` parts take more than twice the time."""
    once, twice = (part * each + ending for each in (count, 2 * count))
    # The least of several: another program may have disturbed one.
    least = [min(seconds(pattern, text) for _ in range(4)) for text in (once, twice)]
    return least[1] > SHORT and least[1] > QUADRATIC * least[0]


@pytest.mark.parametrize("quadratic", [r"(?:\w\d)+;", r"\s*x", r"(?:\w+,)*;"])
def test_a_quadratic_pattern_is_found(quadratic: str) -> None:
    assert slowest_part(re.compile(quadratic)) is not None


@pytest.mark.parametrize("linear", [r"\d{4}-\d\d", r"(?<!\d)\d+x", r"[^<>]{1,9}>", r"^\s*x"])
def test_a_linear_pattern_is_not(linear: str) -> None:
    assert slowest_part(re.compile(linear)) is None


@pytest.mark.slow
def test_all_patterns_take_linear_time() -> None:
    patterns = compiled()
    assert len(patterns) > 280
    # On a busy machine one measurement may be wrong, but not the second one of that pattern, too.
    slow = [pattern for pattern in patterns if slowest_part(pattern)]
    assert {patterns[p]: part for p in slow if (part := slowest_part(p))} == {}


@pytest.mark.slow
def test_readings_take_linear_time() -> None:
    """A function of a match that looks at the whole text before it would take the square."""
    read = Normalizer()

    def taken(text: str, length: int, lang: str) -> float:
        long = f"{text} " * (length // (len(text) + 1))
        start = time.thread_time()
        read(long, lang=lang)
        return time.thread_time() - start

    texts = [
        min((row for row in rows() if (row.language, row.kind) == kind), key=lambda r: len(r.text))
        for kind in KINDS
    ]
    others = [("en", '5" a'), ("en", "1/4 tsp"), ("zh", "一1-2，"), ("zh", "2-1")]
    slow = []
    for lang, text in [*((row.language, row.text) for row in texts), *others]:
        least = [min(taken(text, n, lang) for _ in range(2)) for n in (6_000, 12_000)]
        if least[1] > QUADRATIC * least[0]:
            # As for patterns: one wrong measurement is no square.
            least.append(min(taken(text, 24_000, lang) for _ in range(2)))
            if least[2] > QUADRATIC * least[1]:
                slow.append((text, least))
    assert slow == []
