"""The main module of a process that runs tests with compiled kernels in the emulator.

``python -m tests.ptx.child CAPABILITY RACES SHARE PYTEST_ARGUMENT...``
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .launches import Emulation


class _Sharing:
    """Leaves out cases of parametrized tests; of each test one is kept at least.

    Args:
        first: the first case that is kept, and of how many each keeps one, such as ``1/2``.
    """

    def __init__(self, share: str) -> None:
        self._first, self._step = map(int, share.split("/"))

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Deselect them."""
        cases: dict[str, list[pytest.Item]] = {}
        for item in items:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
        kept = {
            item for own in cases.values() for item in own[self._first % len(own) :: self._step]
        }
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]


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
    capability, races, share, *arguments = sys.argv[1:]
    os.environ["CHATTTS_TESTS_EMULATED"] = capability
    from .launches import Emulation

    emulation = Emulation(int(capability), races=races == "races")
    emulation.install()
    own = [_Synchronizing(emulation), _Sharing(share)]
    status = pytest.main([*arguments, "-p", "no:cacheprovider", "-p", "no:xdist"], plugins=own)
    print(f"launches: {sum(emulation.launches.values())} of {sorted(emulation.launches)}")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
