"""Run the failed tests of the last run once more, each alone, and name those that pass as flaky.

One unsteady test would otherwise refuse hours of work in continuous integration. A test that fails
twice fails the run. ``tests/FLAKY.md`` has the flaky tests that were seen.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

MOST = 10  # more failed tests are no accident
EXIT_STATUS = "chattts/exit-status"  # in pytest's cache, written by conftest.py
_TESTS_FAILED = 1  # pytest's exit status where all tests ran, and some failed


def failed_tests(cache: Path) -> list[str]:
    """Return the ids of the tests that failed in the last run.

    Args:
        cache: pytest's cache folder.

    Raises:
        ValueError: the run ended otherwise than with some failed tests.
    """
    if json.loads((cache / "v" / EXIT_STATUS).read_text(encoding="utf-8")) != _TESTS_FAILED:
        raise ValueError("the tests did not run to their end")
    last = cache / "v" / "cache" / "lastfailed"
    tests = sorted(json.loads(last.read_text(encoding="utf-8"))) if last.exists() else []
    if not tests:
        raise ValueError("no test failed: the fault is elsewhere, such as the floor of coverage")
    if len(tests) > MOST:
        raise ValueError(f"{len(tests)} tests failed, which is no accident")
    return tests


def passes_alone(test: str) -> bool:
    """Run one test in a process of its own, with its output shown."""
    # Without the cache, which would forget the other tests that failed.
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", test]
    return subprocess.run(command, check=False).returncode == 0


def main() -> int:
    """Return 0 if all failed tests pass alone."""
    try:
        tests = failed_tests(Path(".pytest_cache"))
    except (OSError, ValueError) as error:
        print(f"nothing is run again: {error}", flush=True)
        return 1
    passed = {test: passes_alone(test) for test in tests}
    for test, has_passed in passed.items():
        outcome = "FLAKY: passed" if has_passed else "FAILED TWICE: failed"
        print(f"{outcome} alone, failed beside other tests: {test}", flush=True)
    return 0 if all(passed.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
