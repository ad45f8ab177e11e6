"""``chattts serve`` on a simulated GPU, with a voice that has the published sizes outside of it.

    python -m benchmarks.serving.simulated.serve COUNTERS --port 8000

Everything but the device is the package's own code. ``COUNTERS`` is a file that is written; what
follows are options of ``chattts serve``.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

# The host of a GPU computes nothing that threads would share.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["CUDA_VISIBLE_DEVICES"] = ""


def main() -> int:
    from ChatTTS.cli import main as chattts
    from ChatTTS.config import Config

    from ...common.random_checkpoint import temporary_checkpoint
    from .device import Counters
    from .model_process import VARIABLE
    from .patches import simulate, simulate_model_process
    from .steps import H100

    file, *options = sys.argv[1:]
    if "--model-process" in options:
        os.environ[VARIABLE] = file
        simulate_model_process()
    else:
        simulate(H100, Counters.in_file(Path(file), "w+"))
    # Rows of the published width go from the engine to the decoder, and its layers have the
    # published reach. What no processor computes here is small.
    sizes = Config()
    config = replace(
        sizes,
        gpt=replace(sizes.gpt, num_hidden_layers=1, intermediate_size=64),
        decoder=replace(sizes.decoder, hidden=8, bn_dim=8),
        dvae=replace(
            sizes.dvae,
            encoder=replace(sizes.dvae.encoder, hidden=8, bn_dim=8),
            decoder=replace(sizes.dvae.decoder, hidden=8, bn_dim=8),
        ),
        vocos=replace(sizes.vocos, dim=8, intermediate_dim=8),
    )
    with temporary_checkpoint(config, seed=0) as folder:
        ours = ["--model", str(folder), "--device", "cpu", "--dtype", "bfloat16"]
        return chattts(["serve", *options, *ours])


if __name__ == "__main__":
    sys.exit(main())
