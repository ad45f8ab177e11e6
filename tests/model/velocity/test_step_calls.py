"""A decode step stays short in Python: on small models its calls are most of its time."""

import pytest

from ...support.step_trace import decode_step

# What a step takes on each machine, with room for one or two more: its calls, the functions with a
# name, and their files. Checks belong where memory is allocated.
MOST = {"cpu": (66, 51, 19), "torch": (299, 93, 27), "cuda": (79, 52, 17)}


@pytest.mark.parametrize("machine", MOST)
def test_a_decode_step_takes_few_functions(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = decode_step(machine, monkeypatch)
    assert trace.calls[0][1] == "step"
    calls, functions, files = MOST[machine]
    assert len(trace.calls) <= calls
    assert len(trace.functions) <= functions
    assert len(trace.files) <= files
