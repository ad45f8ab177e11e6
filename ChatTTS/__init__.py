"""ChatTTS: conversational text-to-speech.

    import ChatTTS
    chat = ChatTTS.Chat()
    chat.load("bundled")
    ChatTTS.save("hello.wav", chat.infer("Hello, world.")[0])

Importing it is cheap: torch and the rest are imported with the first name that needs them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .coexistence import check_single_distribution
from .compat.moved import MovedModules
from .utils.lazy_names import lazy_names
from .version import __version__

check_single_distribution()
sys.meta_path.insert(0, MovedModules())

if TYPE_CHECKING:
    from .audio import compare, read, save, trim_silence
    from .core import Chat
    from .errors import ChatTTSError
    from .params import InferCodeParams, LowLatency, RefineTextParams
    from .text import Lexicon

__all__ = [
    "Chat",
    "ChatTTSError",
    "InferCodeParams",
    "Lexicon",
    "LowLatency",
    "RefineTextParams",
    "__version__",
    "compare",
    "read",
    "save",
    "trim_silence",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "audio": ("compare", "read", "save", "trim_silence"),
        "config": (),
        "core": ("Chat",),
        "errors": ("ChatTTSError",),
        "norm": (),
        "params": ("InferCodeParams", "LowLatency", "RefineTextParams"),
        "text": ("Lexicon",),
        "utils": (),
        "voices": (),
    },
    instead={
        "infer": "make a chat = ChatTTS.Chat() and call chat.infer",
        "experimental": "the examples of the published package have a module of that name",
        "res": "no table of homophones is shipped: give one by chat.load(homophones=path); the "
        "hashes are in chat.sha256_map",
    },
)
