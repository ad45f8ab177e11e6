"""The errors of this package. Every message names the cause and the remedy."""

from __future__ import annotations

_SHOWN = 40  # characters of a text
_SHOWN_VALUE = 80  # characters of an invalid value


def shown(value: object) -> str:
    """Return the beginning of a value's ``repr`` for a message, or its type where that fails."""
    try:
        text = repr(value)
    except Exception:  # from a caller's own class, or for an int with too many digits
        return f"a {type(value).__name__}"
    return (
        text if len(text) <= _SHOWN_VALUE else f"{text[:_SHOWN_VALUE]}... ({len(text)} characters)"
    )


class ChatTTSError(Exception):
    """Base of every error that this package raises on purpose."""


class ConfigError(ChatTTSError, ValueError):
    """A size or setting is invalid, or contradicts another."""


class AssetError(ChatTTSError):
    """A checkpoint file or tensor is missing, damaged or wrong."""


class VoiceError(ChatTTSError, ValueError):
    """A speaker embedding or sample prompt cannot be used."""


class TextError(ChatTTSError, ValueError):
    """A text cannot be spoken: it is empty, or too long for the model."""


class NothingToSpeakError(TextError):
    """A text has nothing to speak; ``Chat.infer`` returns an empty waveform for it.

    Args:
        text: the text; the message shows its beginning.
    """

    def __init__(self, text: str) -> None:
        beginning = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
        super().__init__(
            f"nothing to speak is left of the text {beginning!r}; it needs words that the voice "
            "knows"
        )


class AudioError(ChatTTSError, ValueError):
    """Audio cannot be read, written or used as a reference."""


class EngineUnavailableError(ChatTTSError, RuntimeError):
    """The chosen engine is not available; the message names an alternative."""


class OutOfThreadsError(ChatTTSError, RuntimeError):
    """The system cannot start another thread."""


class NotLoadedError(ChatTTSError, RuntimeError, AttributeError):
    """A call needs a checkpoint, and none is loaded.

    It is an ``AttributeError`` since scripts use ``hasattr(chat, "speaker")``.
    """


class GenerationError(ChatTTSError, RuntimeError):
    """The model or decoder computed values that cannot be used."""


class EngineDeadError(ChatTTSError, RuntimeError):
    """The engine was closed or ended by an error, and takes no more requests."""
