"""Build the English front end: ``python -m recipes.english_pronunciation --help``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ChatTTS.text.pronunciation.english.letter_network import unpack

from .entries import read_entries
from .evaluation import evaluate
from .export import pack_dictionary, pack_network
from .letters import align_words, load_words, save_words
from .network import train
from .selection import read_additions, select


def main() -> None:
    """Run all stages; whole epochs in the folder are not trained again."""
    parser = argparse.ArgumentParser(prog="python -m recipes.english_pronunciation")
    parser.add_argument("--dictionaries", type=Path, required=True, help="misaki's folder data")
    parser.add_argument("--out", type=Path, required=True, help="for states, files and results")
    parser.add_argument("--epochs", type=int, default=12)
    options = parser.parse_args()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    entries = read_entries(options.dictionaries)

    aligned = out / "aligned.npz"
    if not aligned.exists():
        save_words(align_words(entries.defaults()), aligned)
    words = load_words(aligned)
    packed = pack_network(train(words, options.epochs, out), words.labels)
    (out / "letters.npz").write_bytes(packed)

    kept = select(entries, read_additions())
    (out / "dictionary.xz").write_bytes(pack_dictionary(kept))
    results = evaluate(entries, unpack(packed)) | {"dictionary: words": len(kept)}
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
