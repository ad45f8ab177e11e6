"""The main module of a process that runs tests with compiled kernels in the emulator.

``python -m tests.ptx.child CAPABILITY RACES PYTEST_ARGUMENT...``
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .launches import Emulation


class _Synchronizing:
    """Lets all launches of a test end before the next test begins.

    Args:
        emulation: an :class:`~.launches.Emulation`.
    """

    def __init__(self, emulation: Emulation) -> None:
        self._emulation = emulation

    def pytest_runtest_setup(self) -> None:
        """Synchronize."""
        if self._emulation.order is not None:
            self._emulation.order.synchronize()


def main() -> int:
    capability, races, *arguments = sys.argv[1:]
    os.environ["CHATTTS_TESTS_EMULATED"] = capability
    from .launches import Emulation

    emulation = Emulation(int(capability), races=races == "races")
    emulation.install()
    own = [_Synchronizing(emulation)]
    status = pytest.main([*arguments, "-p", "no:cacheprovider", "-p", "no:xdist"], plugins=own)
    print(f"launches: {sum(emulation.launches.values())} of {sorted(emulation.launches)}")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
