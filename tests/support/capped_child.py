"""Child processes that open hostile files, with bounded memory and a time limit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_SECONDS = 120
_CAP = """
import resource, sys
def cap(megabytes):
    "Let this process take so much more memory than it has now."
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    most = pages * resource.getpagesize() + megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
"""


def in_child(code: str, *arguments: str | Path) -> list[str]:
    """The lines that a child printed. Its code may call ``cap(megabytes)``; it sees ``sys.argv``.

    A child that crashes, hangs or ends in an error fails the test.
    """
    command = [sys.executable, "-c", _CAP + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr[-2000:])
    return done.stdout.splitlines()
