"""Learn how long the bundled voice speaks, and write its file: `python -m tests.make_lengths`.

It is needed after a change of the voice or of what is learned. It takes half a minute.
"""

from __future__ import annotations

import json

from ChatTTS.checkpoints.assets import locate
from ChatTTS.core import Chat
from ChatTTS.loading.sidecar_files import lengths_content
from ChatTTS.model.generation import Cancellation
from ChatTTS.pipeline.fitting.learning import learn_lengths
from ChatTTS.pipeline.speech_lengths import SpeechLengths


def learned() -> SpeechLengths:
    """Return what the bundled voice shows now."""
    chat = Chat()
    chat.load_or_raise("bundled", device="cpu", use_vllm=True)
    try:
        found = learn_lengths(chat._loaded, chat.alignment_heads, Cancellation(), show=False)
    finally:
        chat.unload()
    assert found is not None, "nothing cancels it"
    return found


if __name__ == "__main__":
    file = locate("bundled").speech_lengths
    file.write_text(json.dumps(lengths_content(learned()), indent=1) + "\n", encoding="utf-8")
