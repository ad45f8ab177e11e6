"""What listeners notice of attackers: the figures, and one short attack on a real server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.serving import attacked
from benchmarks.serving.attackers import bodies
from benchmarks.serving.clients import Outcome


def outcome(**changes: Any) -> Outcome:
    given = {"status": 200, "answered": 0.1, "first": 0.2, "is_right": True}
    return Outcome(**{**given, **changes})


def test_figures_count_what_listeners_notice() -> None:
    outcomes = [
        outcome(),
        outcome(first=0.4, underruns=2, pauses=0.7),
        outcome(is_right=False),
        outcome(status=503, first=None, is_right=False),
    ]
    before, after = {"0.05": 5.0, "+Inf": 5.0}, {"0.05": 8.0, "+Inf": 9.0}
    found = attacked.figures(outcomes, before, after, 700.0)
    assert (found.answers, found.refused, found.different) == (3, {503: 1}, 1)
    assert (found.with_gap, found.longest_gap) == (1, 0.7)
    assert found.lags == {"0.05": 0.75, "+Inf": 1.0}
    assert attacked.figures([], {}, {}, 0.0).first_sound == (0.0, 0.0)


def test_bodies_are_large_and_reach_two_routes() -> None:
    found = bodies()
    assert {path.split("/")[3] for path, _ in found} == {"speech", "scripts"}
    assert all(8000 < len(body) <= 4 << 20 for _, body in found)


def test_listeners_are_answered_under_attack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = tmp_path / "report.json"
    monkeypatch.setenv("CHATTTS_API_KEYS", "")
    command = ["attacked", "--seconds", "3", "--listeners", "2", "--rest", "0"]
    monkeypatch.setattr("sys.argv", [*command, "--json", str(report)])
    attacked.main()
    told = json.loads(report.read_text())
    assert told["attacked"]["answers"] > 0
    assert told["attacked"]["different"] == 0
    assert set(told["attempts"]) >= {"post", "leave"}
