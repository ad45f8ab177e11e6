"""The bundled voice gives the samples of its references, within the stated bounds.

`make references` makes them again, on purpose. Say in the commit why the sound changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ChatTTS
from ChatTTS.core import Chat
from ChatTTS.pipeline.results import Waveforms
from ChatTTS.testing.regression import SpeechDifferenceError, SpeechRegression

# The 16 bits of a file allow some 70 dB, and cost half a step, 1.5e-5; the rest is rounding that
# differs from one processor to the next. One different code changes samples by some 0.05.
MIN_SNR_DB, MAX_DIFFERENCE = 40.0, 2e-3
KEPT = Path(__file__).parent / "references/test_regression"


@dataclass(frozen=True)
class Spoken:
    """A text, and the settings with which the bundled voice speaks it."""

    name: str
    text: str
    seed: int = 1
    params: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    def samples(self, chat: Chat) -> NDArray[np.float32]:
        """Return the samples, float32 [n]."""
        params = {"manual_seed": self.seed, "show_tqdm": False, **self.params}
        waveforms: Waveforms = chat.infer(self.text, params_infer_code=params, **self.settings)
        return waveforms[0]


REFERENCES = (
    Spoken("sentence", "Good morning, how are you today?"),
    Spoken("codes", "We will meet at the station.", settings={"use_decoder": False}),
    Spoken("greedy", "The weather is nice.", params={"temperature": 0}),
    Spoken("edith", "She reads a new book every week.", params={"spk_emb": "edith"}),
    Spoken(
        "two-utterances",
        "I have 3 cats and 2 dogs. They sleep in the kitchen [uv_break] all day long.",
        seed=7,
    ),
)


def compared(spoken: Spoken, samples: NDArray[np.float32]) -> ChatTTS.Comparison:
    """Return how samples differ from those of the reference."""
    expected, sample_rate = ChatTTS.read(KEPT / f"test_the_same_sound-{spoken.name}.flac")
    assert sample_rate == 24_000
    return ChatTTS.compare(expected, samples)


@pytest.mark.parametrize("spoken", REFERENCES, ids=lambda spoken: spoken.name)
@pytest.mark.slow_for("greedy", "edith", "two-utterances")
def test_the_same_sound(bundled: Chat, speech_regression: SpeechRegression, spoken: Spoken) -> None:
    samples = spoken.samples(bundled)
    speech_regression.check(
        samples,
        snr=MIN_SNR_DB,
        model=bundled,
        voice=spoken.params.get("spk_emb"),
        seed=spoken.seed,
    )
    comparison = compared(spoken, samples)
    assert comparison.samples_a == comparison.samples_b, str(comparison)
    assert comparison.max_difference <= MAX_DIFFERENCE, str(comparison)


@pytest.mark.slow
def test_another_seed_would_be_noticed(bundled: Chat, tmp_path: Path) -> None:
    samples = replace(REFERENCES[0], seed=2).samples(bundled)
    comparison = compared(REFERENCES[0], samples)
    assert comparison.max_difference > MAX_DIFFERENCE
    assert comparison.snr_db < MIN_SNR_DB
    speech = SpeechRegression(KEPT, tmp_path, "test_the_same_sound-sentence", update=False)
    with pytest.raises(SpeechDifferenceError, match="the seed changed from 1 to 2"):
        speech.check(samples, snr=MIN_SNR_DB, model=bundled, seed=2)
