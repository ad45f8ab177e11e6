"""The figures of the first sound over each protocol."""

from __future__ import annotations

import pytest

from benchmarks.serving.protocols import PLAIN, table


@pytest.mark.smoke
def test_differences_are_those_of_each_round() -> None:
    times = {PLAIN: [10.0, 100.0, 20.0], "other": [12.0, 103.0, 24.0]}
    *_, plain, other = table(times).splitlines()
    assert plain == "| WebSocket | 20.0 | 92.0 |  |  |"
    assert other == "| other | 24.0 | 95.1 | +3.0 | +2.5 to +3.5 |"
