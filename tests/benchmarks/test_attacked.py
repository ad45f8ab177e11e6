"""What listeners notice of attackers: the figures, and one short attack on a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.serving import attacked
from benchmarks.serving.attackers import bodies
from benchmarks.serving.clients import Asked
from benchmarks.serving.listening import Listening

ASKED = Asked("Good morning.", 1)


def heard(*arrivals: float, loud: int = 1, error: str | None = None) -> tuple[Asked, Listening]:
    """Return an answer whose parts, of a tenth of a second each, came at some seconds."""
    listening = Listening(error=error)
    for moment in arrivals:
        listening.hear(loud.to_bytes(2, "little") * 2400)
        listening.arrivals[-1] = (moment, 4800)
    return ASKED, listening


def test_figures_count_what_listeners_notice() -> None:
    answers = [
        heard(0.2, 0.3, 0.4),
        heard(0.4, 0.9, 1.2),  # dry for 0.4 and 0.2 s
        heard(0.2, 0.3, 0.4, loud=2),
        heard(error="503"),
    ]
    right = {ASKED: str(answers[0][1].digest)}
    before, after = {"0.05": 5.0, "+Inf": 5.0}, {"0.05": 8.0, "+Inf": 9.0}
    found = attacked.figures(answers, right, before, after, 700.0)
    assert (found.answers, found.errors, found.different) == (3, {"503": 1}, 1)
    assert found.with_gap == 1
    assert found.longest_gap == pytest.approx(0.6)
    assert found.first_sound == (0.2, 0.2)
    assert found.lags == {"0.05": 0.75, "+Inf": 1.0}
    assert attacked.figures([], {}, {}, {}, 0.0).first_sound == (0.0, 0.0)


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
