"""The errors of this package. Every message names the cause and the remedy."""

from __future__ import annotations

from collections.abc import Sequence

from .languages import language_name

_SHOWN = 40  # characters of a text
_SHOWN_VALUE = 80  # characters of an invalid value
_SHOWN_WORDS = 3


def shown(value: object) -> str:
    """Return the beginning of a value's ``repr`` for a message, or its type where that fails."""
    if isinstance(value, str) and len(value) > _SHOWN_VALUE:
        return f"{value[:_SHOWN_VALUE]!r}... ({len(value)} characters)"
    try:
        text = repr(value)
    except Exception:  # from a caller's own class, or for an int with too many digits
        return f"a {type(value).__name__}"
    return (
        text if len(text) <= _SHOWN_VALUE else f"{text[:_SHOWN_VALUE]}... ({len(text)} characters)"
    )


def printable(text: str) -> str:
    """Return a text on one line; what a terminal or a table could not show is escaped."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


def named_parts(left_out: Sequence[str]) -> str:
    """Return the letters and words that were left out for a message: letters in one, then words."""
    letters = "".join(part for part in left_out if len(part) == 1)
    beginning = letters if len(letters) <= _SHOWN else letters[:_SHOWN] + "..."
    words = [part for part in left_out if len(part) > 1]
    return ", ".join(([beginning] if letters else []) + words[:_SHOWN_WORDS])


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
    """A text has nothing to speak; in a list, ``Chat.infer`` returns an empty waveform for it.

    Args:
        text: the text; the message shows its beginning.
        left_out: the letters and words of it that the voice cannot speak.
        languages: codes of those that the voice speaks.

    Attributes:
        left_out, languages: as above. A text without letters, such as ``...``, has nothing left
            out.
    """

    def __init__(
        self, text: str, left_out: Sequence[str] = (), languages: Sequence[str] = ()
    ) -> None:
        beginning = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
        message = (
            f"nothing to speak is left of the text {beginning!r}; it needs words that the voice "
            "knows"
        )
        if left_out:
            known = " and ".join(map(language_name, languages))
            speaks = f"it speaks {known}, and " if known else "it "
            message += f": {speaks}cannot speak {named_parts(left_out)}"
        super().__init__(message)
        self.left_out, self.languages = tuple(left_out), tuple(languages)


class TimeTooShortError(ChatTTSError, ValueError):
    """A text cannot be spoken in the time that it was given; the message has the shortest one."""


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


class DeviceLostError(EngineDeadError):
    """A GPU does not answer any more; only another process may use it again."""
