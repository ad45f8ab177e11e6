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


# Short ones and ones with pauses, from which the length of speech is learned as well.
_SHORT_ENGLISH = (
    "good morning, my friend, and welcome.",
    "come in.",
    "tell me where you are going.",
    "no, not today, thank you.",
    "i have been waiting here for more than an hour, and nobody came.",
    "he smiled.",
    "that is all that i know about it.",
    "in the end, after a long and difficult winter, they went back to their village.",
)
_SHORT_CHINESE = (
    "早上好，我的朋友，欢迎你。",
    "请进。",
    "告诉我你要去哪里。",
    "不，今天不行，谢谢。",
    "我在这里等了一个多小时，一个人也没有来。",
    "他笑了。",
    "我知道的就是这些。",
    "最后，经过一个漫长又艰难的冬天，他们回到了自己的村子。",
)


def short_sentences(language: str) -> tuple[str, ...]:
    """Return short sentences, and ones with pauses, of a language, ``en`` or ``zh``."""
    return {"en": _SHORT_ENGLISH, "zh": _SHORT_CHINESE}[language]
