"""Failed tests are run once more, alone, and a run ends in the time that it is given."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from . import conftest
from .again import EXIT_STATUS, MOST, failed_tests

ROOT = Path(__file__).parents[1]
# It fails beside the other test, which runs before it.
FLAKY = """
    import sys
    def test_first(): sys.busy = True
    def test_flaky(): assert not hasattr(sys, "busy")
"""
FAILING = "def test_failing(): assert False"
CONFTEST = "from tests.conftest import pytest_sessionfinish"


def cached(folder: Path, status: int, failed: list[str]) -> Path:
    for name, value in ((EXIT_STATUS, status), ("cache/lastfailed", dict.fromkeys(failed, True))):
        path = folder / "v" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value), encoding="utf-8")
    return folder


def test_the_failed_tests_of_the_last_run(tmp_path: Path) -> None:
    assert failed_tests(cached(tmp_path, 1, ["b", "a"])) == ["a", "b"]


@pytest.mark.parametrize(
    ("status", "failed", "reason"),
    [
        (2, ["a"], "to their end"),
        (1, [], "no test failed"),
        (1, [str(n) for n in range(MOST + 1)], "no accident"),
    ],
)
def test_other_ends_are_no_accidents(
    tmp_path: Path, status: int, failed: list[str], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        failed_tests(cached(tmp_path, status, failed))


@pytest.mark.slow
@pytest.mark.parametrize(("planted", "passes"), [(FLAKY, True), (FLAKY + FAILING, False)])
def test_a_flaky_test_passes_and_a_failing_one_fails(
    tmp_path: Path, planted: str, passes: bool
) -> None:
    (tmp_path / "test_planted.py").write_text(
        "\n".join(line.removeprefix("    ") for line in planted.splitlines()), encoding="utf-8"
    )
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")

    def run(module: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(str(each) for each in (tmp_path, ROOT))
        return subprocess.run(
            [sys.executable, "-m", module],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )

    assert run("pytest").returncode == 1
    second = run("tests.again")
    assert (second.returncode == 0) == passes, second.stdout
    assert "FLAKY: passed alone, failed beside other tests: test_planted.py::test_flaky" in (
        second.stdout
    )
    assert ("FAILED TWICE" in second.stdout) != passes


def test_no_test_begins_once_the_budget_is_used_up() -> None:
    def begin(until: float) -> None:
        config = SimpleNamespace(stash={conftest._BUDGET: until})
        conftest.pytest_runtest_setup(SimpleNamespace(config=config))  # type: ignore[arg-type]

    begin(math.inf)
    with pytest.raises(pytest.skip.Exception, match="the budget"):
        begin(-math.inf)
