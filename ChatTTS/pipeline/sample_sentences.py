"""Plain sentences by which a checkpoint shows how it speaks.

They need no normalisation: words, commas and full stops only.
"""

from __future__ import annotations

_ENGLISH = (
    "it was very cold last night, and there was snow on the road.",
    "we went to the market to buy some bread.",
    "the children are playing in the garden behind the house.",
    "she opened the window and looked out at the sea.",
    "please tell me when the next train leaves for the city.",
    "my brother works in a small shop near the old bridge.",
)
_CHINESE = (
    "昨天晚上很冷，路上都是雪。",
    "我们去市场买了一些面包。",
    "孩子们在房子后面的花园里玩。",
    "她打开窗户，看着外面的大海。",
)


def sample_sentences(language: str | None) -> tuple[str, ...]:
    """Return sentences of a language, ``en`` or ``zh``; of both for any other value."""
    return {"en": _ENGLISH, "zh": _CHINESE}.get(language or "", _ENGLISH + _CHINESE)
