"""A decode step stays short in Python: on small models its calls are most of its time."""

from ...support.step_trace import decode_step

# What a step may take with room for a few more; checks belong where memory is allocated.
MOST_CALLS = 75
MOST_FILES = 20


def test_a_decode_step_takes_few_calls() -> None:
    trace = decode_step()
    assert trace.calls[0][1] == "step"
    assert len(trace.calls) <= MOST_CALLS
    assert len(trace.files) <= MOST_FILES
