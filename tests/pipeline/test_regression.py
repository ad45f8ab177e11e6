"""The bundled voice gives the samples of its references, within the stated bounds.

The references are 16-bit FLAC files. ``make references`` makes them again, on purpose.
"""

import pytest

import ChatTTS
from ChatTTS.core import Chat

from ..make_references import REFERENCES, Reference, bundled

# 16-bit storage alone costs half a step, 1.5e-5; the rest is rounding that differs from one
# processor to the next. One different code changes samples by some 0.05.
MAX_DIFFERENCE = 2e-3
MIN_SNR_DB = 40.0


@pytest.fixture(scope="module")
def chat() -> Chat:
    return bundled()


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.name)
@pytest.mark.slow_for("greedy", "edith", "two-utterances")
def test_the_same_sound(chat: Chat, reference: Reference) -> None:
    expected, sample_rate = ChatTTS.read(reference.path)
    assert sample_rate == 24_000
    comparison = ChatTTS.compare(expected, reference.speak(chat))
    assert comparison.samples_a == comparison.samples_b, str(comparison)
    assert comparison.max_difference <= MAX_DIFFERENCE, str(comparison)
    assert comparison.snr_db >= MIN_SNR_DB, str(comparison)


def test_another_seed_would_be_noticed(chat: Chat) -> None:
    reference = REFERENCES[0]
    expected, _ = ChatTTS.read(reference.path)
    changed = Reference(reference.name, reference.text, params={"manual_seed": 2}).speak(chat)
    comparison = ChatTTS.compare(expected, changed)
    assert comparison.max_difference > MAX_DIFFERENCE
    assert comparison.snr_db < MIN_SNR_DB
