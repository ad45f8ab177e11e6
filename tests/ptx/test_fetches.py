"""Fetches into the cache: of weights by programs without work, and of a program's next split."""

from __future__ import annotations

import re

import pytest

from .children import needs_emulator, run_child


@needs_emulator
@pytest.mark.slow
@pytest.mark.parametrize("capability", [80, 90, 120])
def test_each_line_is_fetched_once_and_no_bit_changes(capability: int) -> None:
    printed = run_child("tests.ptx.fetches", str(capability))
    cases = re.findall(
        r"^(.*): (\d+) of (\d+) lines, (\d) times .*, same bits True, 0$", printed, re.M
    )
    assert len(cases) == 10
    for name, fetched, lines, often in cases:
        none = name == "no program is idle"
        assert (int(fetched), int(often)) == ((0, 0) if none else (int(lines), 1)), name
    later = re.findall(
        r"^next splits, .*: (\d+) places, 0 missed, 0 others, same bits True$", printed, re.M
    )
    assert len(later) == 3
    assert min(map(int, later)) > 1000
    for fault in ("a line too many", "without a mask"):
        assert re.search(rf"^{fault}: out of bounds in \d+ threads.*prefetch", printed, re.M), fault
