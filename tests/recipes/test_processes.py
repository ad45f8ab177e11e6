"""Work in other processes."""

from __future__ import annotations

import pytest

from recipes.voice.processes import in_processes


def test_a_reader_may_stop_and_a_failure_arrives() -> None:
    results = in_processes(abs, range(1000), workers=1)
    assert [next(results), next(results)] == [0, 1]
    results.close()
    with pytest.raises(ValueError, match="text"):
        list(in_processes(int, ["text"], workers=1))


def test_without_workers_it_is_done_here_in_order() -> None:
    assert list(in_processes(abs, [-1, 2, -3], workers=0)) == [1, 2, 3]
