"""What can go wrong, by name. Every message says which thing is at fault and what mends it."""

from __future__ import annotations

_SHOWN = 40  # characters of a text
_SHOWN_VALUE = 80  # characters of a value that has no business there


def shown(value: object) -> str:
    """A value as a message shows it: how its ``repr`` begins, or its type where that fails."""
    try:
        text = repr(value)
    except Exception:  # of a class of the caller's, or of an int that is too long for text
        return f"a {type(value).__name__}"
    return (
        text if len(text) <= _SHOWN_VALUE else f"{text[:_SHOWN_VALUE]}... ({len(text)} characters)"
    )


class ChatTTSError(Exception):
    """Base of every error that this package raises on purpose."""


class ConfigError(ChatTTSError, ValueError):
    """A size or setting that makes no sense, or contradicts another."""


class AssetError(ChatTTSError):
    """A checkpoint file or tensor that is missing, damaged or not what it should be."""


class VoiceError(ChatTTSError, ValueError):
    """A speaker embedding or sample prompt that cannot be used."""


class TextError(ChatTTSError, ValueError):
    """A text that cannot be spoken (empty, or too long for the model)."""


class NothingToSpeakError(TextError):
    """A text in which nothing is left to speak; ``Chat.infer`` gives an empty row for it.

    Args:
        text: of which nothing is left; the message shows its beginning.
    """

    def __init__(self, text: str) -> None:
        beginning = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
        super().__init__(
            f"nothing to speak is left of the text {beginning!r}; it needs words that the voice "
            "knows"
        )


class AudioError(ChatTTSError, ValueError):
    """Audio that cannot be read, written or used as a reference."""


class EngineUnavailableError(ChatTTSError, RuntimeError):
    """The engine asked for is not there, with what to use instead."""


class OutOfThreadsError(ChatTTSError, RuntimeError):
    """The system gives no more threads."""


class NotLoadedError(ChatTTSError, RuntimeError, AttributeError):
    """A call that needs a checkpoint before one was loaded.

    It is an ``AttributeError`` since scripts ask ``hasattr(chat, "speaker")``.
    """


class GenerationError(ChatTTSError, RuntimeError):
    """The model gave something that cannot be drawn from."""


class EngineDeadError(ChatTTSError, RuntimeError):
    """An engine that was closed, or that an error ended, and that takes no more work."""
