"""The main module of a process that runs tests with compiled kernels in the emulator.

``python -m tests.ptx.child CAPABILITY RACES PYTEST_ARGUMENT...``
"""

from __future__ import annotations

import os
import sys

import pytest


def main() -> int:
    capability, races, *arguments = sys.argv[1:]
    os.environ["CHATTTS_TESTS_EMULATED"] = capability
    from .launches import Emulation

    emulation = Emulation(int(capability), races=races == "races")
    emulation.install()
    status = pytest.main([*arguments, "-p", "no:cacheprovider", "-p", "no:xdist"])
    print(f"launches: {sum(emulation.launches.values())} of {sorted(emulation.launches)}")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
