"""Print those of the given libraries of kernels that this processor can run, by their names."""

from __future__ import annotations

import sys
from pathlib import Path

from ChatTTS.errors import ConfigError
from ChatTTS.model.devices.instruction_sets import FORCED, forced


def runs_here(library: Path) -> bool:
    """Return whether this processor can run a library that is named after its variant."""
    try:
        forced({FORCED: library.stem})
    except ConfigError:
        return False
    return True


if __name__ == "__main__":
    print(*(name for name in sys.argv[1:] if runs_here(Path(name))))
