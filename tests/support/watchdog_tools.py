"""Scripts in processes of their own, which print the stack of every thread if they hang."""

from __future__ import annotations

import os
import subprocess
import sys

from .places import ROOT


def run_watched(code: str, *arguments: str, seconds: int = 60, by_alarm: bool = False) -> str:
    """Return what a script prints; it must succeed, in time, with nothing on standard error.

    Args:
        by_alarm: whether SIGALRM ends a script that hangs. Scripts whose forked children exit as
            usual need this: the other watchdog would wait in a child for a thread of the parent.
    """
    watchdog = f"import faulthandler; faulthandler.dump_traceback_later({seconds}, exit=True)\n"
    if by_alarm:
        watchdog = f"import signal; signal.alarm({seconds})\n"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", watchdog + code, *arguments],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds + 30,
        check=False,
    )
    lines = done.stderr.splitlines()
    said = [line for line in lines if "not the published checkpoint" not in line]
    assert (done.returncode, said) == (0, []), done.stderr
    return done.stdout
