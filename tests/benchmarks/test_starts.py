"""The benchmark of starts; no test depends on speed."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.cpu import starts


def test_each_round_runs_each_command(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def timed(arguments: list[str]) -> dict[str, float]:
        ran.append(arguments[-1])
        return {"wall_s": len(ran), "cpu_s": 1.0}

    monkeypatch.setattr(starts, "timed", timed)
    names = [given[-1] for given in starts.commands(Path("x")).values()]
    found = starts.measure(2)
    assert [Path(each).name for each in ran] == [Path(each).name for each in names] * 3
    first, second = found["import ChatTTS"]
    assert starts.summary([first, second, second]) == {
        "median_wall_s": second["wall_s"],
        "median_cpu_s": 1.0,
        "least_wall_s": first["wall_s"],
        "least_cpu_s": 1.0,
    }


def test_a_command_that_fails_is_no_figure() -> None:
    assert starts.timed(["-c", "pass"])["cpu_s"] > 0
    with pytest.raises(SystemExit, match="status 3"):
        starts.timed(["-c", "raise SystemExit(3)"])
