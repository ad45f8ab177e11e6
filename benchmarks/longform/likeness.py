"""Judge how alike the utterances of each voice are, with a voice print that others trained.

    pip install resemblyzer
    python benchmarks/longform/likeness.py FOLDER [--json FILE]

FOLDER holds a folder of wav files for each voice, as ``benchmarks.longform steady`` writes them. It
needs no other part of this project.
"""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np

# A print of less speech tells little of the voice.
_LEAST_SECONDS = 2.0
_FAR = 0.85
_RATE = 16_000


def likeness(folder: Path, encoders: Any, encoder: Any) -> dict[str, Any]:
    """Return the likeness of each utterance of a voice to the voice's medians, as figures.

    Args:
        folder: of one voice.
        encoders: the module ``resemblyzer``.
        encoder: its model.
    """
    prints = []
    for path in sorted(folder.glob("*.wav")):
        wave = encoders.preprocess_wav(path)
        if len(wave) >= _LEAST_SECONDS * _RATE:
            prints.append(encoder.embed_utterance(wave))
    found = np.stack(prints)
    middle = np.median(found, axis=0)
    cosines = found @ middle / np.linalg.norm(middle)
    return {
        "utterances": len(found),
        "mean": round(float(cosines.mean()), 3),
        "lowest_hundredth": round(float(np.percentile(cosines, 1)), 3),
        "lowest": round(float(cosines.min()), 3),
        f"below_{_FAR}": int((cosines < _FAR).sum()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    encoders = importlib.import_module("resemblyzer")
    encoder = encoders.VoiceEncoder("cpu", verbose=False)
    folders = sorted({path.parent for path in args.folder.rglob("*.wav")})
    figures = {
        str(each.relative_to(args.folder)): likeness(each, encoders, encoder) for each in folders
    }
    print(json.dumps(figures, indent=1))
    if args.json is not None:
        args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
