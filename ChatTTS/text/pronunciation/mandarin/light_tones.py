"""The tones of 一 and 不, and syllables that are light in their context."""

from __future__ import annotations

import re

from .phrase import Phrase
from .syllables import NEUTRAL

_DIGITS = frozenset("零一二三四五六七八九")
_UNITS = frozenset("百千万亿")
# Behind these, 一 is a figure and no amount.
_COUNTING = frozenset("第初十点周零二三四五六七八九")
# 一 before these is the first of a row.
_FIRST_OF = re.compile(r"月(?!之)|号|楼|班(?![车机人])|年级|等|级|单元|中全会|线(?![希生光阳])")
# Words that 一 ends.
_WHOLE = frozenset({"单一", "统一", "唯一", "惟一", "专一", "划一", "第一", "之一", "其一"})
_VERBS = frozenset(
    "看想试说听走等坐谈问尝找写读玩聊算讲查歇躺逛转散跑跳动唱画学练改修洗擦扫拍摸闻猜量称比"
    "帮劝催管谢抱亲笑骂打踢摇敲挑选翻换穿戴吃喝睡做用记背闹瞧瞅评理切磨揉捏碰"
)
_DOUBLED = _VERBS | {"数"}  # with 一 between them
# Behind these, 不 is stressed although it stands between two syllables of a word: 并不是.
_ADVERBS = frozenset("时并从决绝毫永就也都还很再岂")
_COMPLEMENTS = frozenset("了到着完好见起动出来去下住开上过掉清懂准惯成够通")


def with_light_tones(phrase: Phrase) -> Phrase:
    """Return the phrase with the tones of 一 and 不 and of doubled verbs."""
    tones = phrase.tones
    text = phrase.text
    ends = _word_ends(phrase)
    for place, character in enumerate(text):
        if character == "一":
            tones[place] = _tone_of_one(phrase, place, ends)
        elif character == "不":
            tones[place] = _tone_of_not(phrase, place, ends)
        elif place and character == text[place - 1] and character in _VERBS:
            # 看看 and 试试看, but no third one.
            is_word_of_three = ends.get(place + 1, "")[:2] == 2 * character
            is_third = place > 1 and text[place - 2] == character
            if (place in ends or is_word_of_three) and not is_third:
                tones[place] = NEUTRAL
        elif place > 1 and text[place - 1] == "一" and character == text[place - 2] in _DOUBLED:
            tones[place] = NEUTRAL
    return phrase.with_tones(tones)


def _word_ends(phrase: Phrase) -> dict[int, str]:
    """Return the word that ends at each place where one does."""
    ends = {}
    place = 0
    for word in phrase.words:
        place += len(word)
        ends[place - 1] = word
    return ends


def _tone_of_one(phrase: Phrase, place: int, ends: dict[int, str]) -> int:
    text = phrase.text
    before, after = text[place - 1 : place], text[place + 1 : place + 2]
    if not after:
        return 1
    if before and before == after and before in _DOUBLED:
        return NEUTRAL
    if after in _UNITS and before != "第":
        return 2 if phrase.lexical[place + 1] == 4 else 4
    if after in _DIGITS or after == "十" or before in _COUNTING:
        return 1
    if text[place - 2 : place] in ("星期", "礼拜", "之一") or text[place - 1 : place + 1] in _WHOLE:
        return 1
    if len(ends.get(place, "")) > 1 and after != "个":
        return 1
    if _FIRST_OF.match(text, place + 1):
        return 1
    return 2 if phrase.lexical[place + 1] == 4 else 4


def _tone_of_not(phrase: Phrase, place: int, ends: dict[int, str]) -> int:
    text = phrase.text
    before, after = text[place - 1 : place], text[place + 1 : place + 2]
    if not after:
        return 4
    if before not in _ADVERBS and (before == after or _is_between(phrase, place, ends)):
        return NEUTRAL
    return 2 if phrase.lexical[place + 1] == 4 else 4


def _is_between(phrase: Phrase, place: int, ends: dict[int, str]) -> bool:
    """Return whether 不 stands between a verb and its result, as in 看不见."""
    word = ends.get(place + 1, "")
    if len(word) == 3 and word[1] == "不":
        return True
    verb = ends.get(place - 1, "")
    is_result = phrase.text[place + 1] in _COMPLEMENTS and len(word) in (1, 2)
    return is_result and len(verb) == 1 and verb in _VERBS
