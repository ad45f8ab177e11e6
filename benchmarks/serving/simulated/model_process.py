"""The model's process of ``chattts serve --model-process``, on a simulated GPU."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "CHATTTS_SIMULATED_COUNTERS"
"""The environment variable with the file of the device's counters."""


def main() -> None:
    """Run the package's own program on a simulated device."""
    from ChatTTS.serving.replicas.model_process import program

    from .device import Counters
    from .patches import simulate
    from .steps import H100

    simulate(H100, Counters.in_file(Path(os.environ[VARIABLE]), "w+"))
    program.main()
