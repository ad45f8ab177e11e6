"""``chattts serve`` on a simulated GPU, with a voice that has the published sizes outside of it.

    python -m benchmarks.serving.simulated.serve COUNTERS --port 8000

Everything but the device is the package's own code. ``COUNTERS`` is a file that is written; what
follows are options of ``chattts serve``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["CUDA_VISIBLE_DEVICES"] = ""


def main() -> int:
    from ChatTTS.cli import main as chattts

    from ...common.random_checkpoint import temporary_checkpoint
    from .device import Counters
    from .model_process import VARIABLE
    from .patches import simulate, simulate_model_process
    from .sizes import host_config
    from .steps import H100

    file, *options = sys.argv[1:]
    if "--model-process" in options:
        os.environ[VARIABLE] = file
        simulate_model_process()
    else:
        simulate(H100, Counters.in_file(Path(file), "w+"))
    with temporary_checkpoint(host_config(), seed=0) as folder:
        ours = ["--model", str(folder), "--device", "cpu", "--dtype", "bfloat16"]
        return chattts(["serve", *options, *ours])


if __name__ == "__main__":
    sys.exit(main())
