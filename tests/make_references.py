"""Make the reference audio of the waveform regression tests again.

    python -m tests.make_references      (or: make references)

Say in the commit why the sound changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ChatTTS
from ChatTTS.core import Chat
from ChatTTS.pipeline.results import Waveforms

FOLDER = Path(__file__).parent / "references"


@dataclass(frozen=True)
class Reference:
    """A text, and the settings with which the bundled voice speaks it."""

    name: str
    text: str
    params: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.flac"

    def speak(self, chat: Chat) -> NDArray[np.float32]:
        """Return the samples, float32 [n]."""
        params = {"manual_seed": 1, "show_tqdm": False, **self.params}
        waveforms: Waveforms = chat.infer(self.text, params_infer_code=params, **self.settings)
        return waveforms[0]


REFERENCES = (
    Reference("sentence", "Good morning, how are you today?"),
    Reference("codes", "We will meet at the station.", settings={"use_decoder": False}),
    Reference("greedy", "The weather is nice.", params={"temperature": 0}),
    Reference("edith", "She reads a new book every week.", params={"spk_emb": "edith"}),
    Reference(
        "two-utterances",
        "I have 3 cats and 2 dogs. They sleep in the kitchen [uv_break] all day long.",
        params={"manual_seed": 7},
    ),
)


def bundled() -> Chat:
    """Load the bundled voice on the CPU in float32, on every machine."""
    chat = Chat()
    chat.load_or_raise("bundled", device="cpu", use_vllm=False)
    return chat


def main() -> None:
    chat = bundled()
    FOLDER.mkdir(exist_ok=True)
    for reference in REFERENCES:
        samples = reference.speak(chat)
        ChatTTS.save(reference.path, samples)
        print(f"{reference.path}: {len(samples) / 24_000:.2f} s")


if __name__ == "__main__":
    main()
