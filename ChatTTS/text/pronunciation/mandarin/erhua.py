"""儿 behind a syllable: a sound that merges with it, or a syllable of its own."""

from __future__ import annotations

from .phrase import Phrase

# In these 儿 is a child, and a syllable.
_CHILDREN = frozenset({
    "女儿", "婴儿", "幼儿", "孤儿", "胎儿", "男儿", "少儿", "健儿", "宠儿", "育儿", "弃儿",
    "患儿", "乞儿", "妻儿", "侄儿", "孙儿", "托儿", "产儿", "小儿", "生儿", "聋儿", "运儿",
    "潮儿", "骄儿", "血儿", "我儿", "吾儿", "痴儿", "麟儿", "娇儿", "爱儿", "恋儿",
    "尼尔", "甥儿", "逆儿", "寡儿", "幸儿",
})  # fmt: skip


def merged(phrase: Phrase) -> frozenset[int]:
    """Return the places of the 儿 that merge with the syllable before."""
    places = set()
    place = 0
    for index, word in enumerate(phrase.words):
        for inside, character in enumerate(word):
            if character != "儿":
                continue
            at = place + inside
            is_first = inside == 0 and (len(word) > 1 or index == 0)
            if not is_first and phrase.text[at - 1 : at + 1] not in _CHILDREN:
                places.add(at)
        place += len(word)
    return frozenset(places)
