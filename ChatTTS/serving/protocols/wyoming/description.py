"""The answer to ``describe``: the program, its voices and their languages."""

from __future__ import annotations

from wyoming.info import Attribution, Info, TtsProgram, TtsVoice

from ....version import __version__
from ...speech.service import SpeechService

_ATTRIBUTION = Attribution(name="The ChatTTS velocity authors", url="")


def describe(service: SpeechService) -> Info:
    """Return what the server offers; it reads the files of the voices, so call it in a thread.

    OpenAI's names are left out: they are further names of the same voices.
    """
    voices = [  # clients take the first by default
        TtsVoice(
            name=info.id,
            attribution=_ATTRIBUTION,
            installed=True,
            description=info.id,
            version=None,
            languages=[info.language] if info.language else list(service.model.languages),
        )
        for info in service.voices.without_aliases()
    ]
    program = TtsProgram(
        name="ChatTTS",
        attribution=_ATTRIBUTION,
        installed=True,
        description=service.model.config.defaults.name or "ChatTTS",
        version=__version__,
        voices=voices,
        supports_synthesize_streaming=True,
    )
    return Info(tts=[program])
