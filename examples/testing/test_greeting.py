"""Test that an app still speaks its greeting as it did.

pytest examples/testing                     # compare with the reference
pytest examples/testing --update-speech     # write the reference again
"""

from __future__ import annotations

import pytest

import ChatTTS
from ChatTTS.testing.regression import SpeechRegression

VOICE, SEED = "clara", 1


@pytest.fixture(scope="session")
def chat() -> ChatTTS.Chat:
    chat = ChatTTS.Chat()
    chat.load_or_raise("bundled")
    return chat


def test_greeting(chat: ChatTTS.Chat, speech_regression: SpeechRegression) -> None:
    params = ChatTTS.InferCodeParams(spk_emb=VOICE, manual_seed=SEED, show_tqdm=False)
    speech = chat.infer("Good morning.", skip_refine_text=True, params_infer_code=params)
    speech_regression.check(speech, snr=40, model=chat, voice=VOICE, seed=SEED)
