"""Compare low-latency streams with exact ones, on the bundled voice.

    python -m benchmarks.cpu.low_latency --json out.json

Nothing here is timed. README.md explains each figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

import ChatTTS

from ..common.command import new_parser, origin, write_json

Samples = NDArray[np.float32]

SENTENCES = (
    "Good morning, how are you today?",
    "It was very cold last night, and we went home early.",
    "My brother works in a big city near the sea.",
    "The children are playing in the garden behind the house.",
    "Please close the window before you go to bed.",
    "She bought three apples and a loaf of bread.",
    "When does the next train leave?",
    "I have not seen him since last summer.",
    "We can talk about it tomorrow, if you like.",
    "The old man told us a long story.",
    "There is a letter for you on the table.",
    "He opened the door and looked into the dark room.",
)


def speech(chat: ChatTTS.Chat, text: str, seed: int, voice: str, low_latency: Any) -> Samples:
    """Return the joined pieces of a stream."""
    params = ChatTTS.InferCodeParams(manual_seed=seed, spk_emb=voice, show_tqdm=False)
    pieces = chat.stream(text, low_latency=low_latency, params_infer_code=params)
    return np.concatenate([piece.samples for piece in pieces])


def deviation(exact: Samples, early: Samples) -> dict[str, float]:
    """Return SNR and log-spectral distance in dB, for the first second and for the whole."""
    found = {}
    for name, end in (("1 s", 24_000), ("whole", len(exact))):
        comparison = ChatTTS.compare(exact[:end], early[:end])
        found[f"snr {name}"] = min(comparison.snr_db, 150.0)
        found[f"distance {name}"] = comparison.log_spectral_distance_db
    return found


def measure(settings: Sequence[ChatTTS.LowLatency]) -> list[dict[str, Any]]:
    """Compare each of ``settings`` with the exact stream, over all sentences and voices."""
    chat = ChatTTS.Chat()
    chat.load_or_raise("bundled", device="cpu", use_vllm=True)
    voices = sorted(chat.config.defaults.speakers)
    found: list[list[dict[str, float]]] = [[] for _ in settings]
    for seed, sentence in enumerate(tqdm(SENTENCES, desc="sentences", leave=False)):
        voice = voices[seed % len(voices)]
        exact = speech(chat, sentence, seed, voice, False)
        for own, numbers in zip(found, settings, strict=True):
            own.append(deviation(exact, speech(chat, sentence, seed, voice, numbers)))
    return [
        {"settings": asdict(numbers), "figures": figures(own), "rounds": own}
        for numbers, own in zip(settings, found, strict=True)
    ]


def figures(rounds: Sequence[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return the median and the worst value of each figure."""
    return {
        name: {
            "median": median(r[name] for r in rounds),
            "worst": (min if name.startswith("snr") else max)(r[name] for r in rounds),
        }
        for name in rounds[0]
    }


def table(results: Sequence[dict[str, Any]]) -> str:
    """Return the results as plain text."""
    lines = [
        "first lookahead growth | SNR dB: 1 s (worst)  whole (worst) | distance dB: 1 s (worst)  "
        "whole (worst)"
    ]
    for result in results:
        numbers, found = result["settings"], result["figures"]
        cells = [
            f"{found[name]['median']:6.2f} ({found[name]['worst']:5.2f})"
            for name in ("snr 1 s", "snr whole", "distance 1 s", "distance whole")
        ]
        lines.append(
            f"{numbers['first']:5} {numbers['lookahead']:9} {numbers['growth']:6} | "
            f"{cells[0]} {cells[1]} | {cells[2]} {cells[3]}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = new_parser("cpu.low_latency", __doc__)
    parser.add_argument("--json", type=Path, help="keep everything here")
    parser.add_argument(
        "--lookahead", type=int, nargs="+", default=[4, 6, 8], help="frames; one row for each"
    )
    args = parser.parse_args()
    results = measure([ChatTTS.LowLatency(lookahead=frames) for frames in args.lookahead])
    print(table(results))
    write_json({**origin(), "results": results}, args.json)


if __name__ == "__main__":
    main()
