"""ChatTTS: conversational text-to-speech.

    import ChatTTS
    chat = ChatTTS.Chat()
    chat.load("bundled")
    ChatTTS.save("hello.wav", chat.infer("Hello, world.")[0])

Importing it is cheap: torch and the rest are imported with the first name that needs them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .coexistence import check_single_distribution
from .version import __version__

check_single_distribution()

if TYPE_CHECKING:
    from .audio import compare, read, save, trim_silence
    from .core import Chat
    from .errors import ChatTTSError
    from .params import InferCodeParams, LowLatency, RefineTextParams

__all__ = [
    "Chat",
    "ChatTTSError",
    "InferCodeParams",
    "LowLatency",
    "RefineTextParams",
    "__version__",
    "compare",
    "read",
    "save",
    "trim_silence",
]

_HOMES = {
    "Chat": ".core",
    "ChatTTSError": ".errors",
    "InferCodeParams": ".params",
    "LowLatency": ".params",
    "RefineTextParams": ".params",
    "compare": ".audio",
    "read": ".audio",
    "save": ".audio",
    "trim_silence": ".audio",
}


_MODULES = ("audio", "config", "core", "norm", "utils", "voices")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module 'ChatTTS' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
