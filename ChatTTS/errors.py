"""What can go wrong, by name. Every message says which thing is at fault and what mends it."""

from __future__ import annotations


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


class AudioError(ChatTTSError, ValueError):
    """Audio that cannot be read, written or used as a reference."""


class EngineUnavailableError(ChatTTSError, RuntimeError):
    """The engine asked for is not there, with what to use instead."""


class NotLoadedError(ChatTTSError, RuntimeError):
    """A call that needs a checkpoint before one was loaded."""


class GenerationError(ChatTTSError, RuntimeError):
    """The model gave something that cannot be drawn from."""


class EngineDeadError(ChatTTSError, RuntimeError):
    """An engine that was closed, or that an error ended, and that takes no more work."""
