"""Readings of words that have several, chosen by what is around them.

Most characters with several readings are in a longer word of the lexicon, which has the right one.
These rules are for those that stand alone, and for a few words. A rule of the table looks at the
characters around; where the class of the neighbouring word decides, as with 得 or 地, a function
does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .lexicon import Lexicon
from .polyphone_rules import RULES

# Words of another class that are verbs behind 得.
_DOING = frozenset({
    "小心", "当心", "努力", "注意", "先", "马上", "赶快", "赶紧", "尽快", "自己", "好好",
})  # fmt: skip
# 以 with what is taken as something.
_TAKEN_AS = re.compile("(?<![可所得予])以(?![及后前来下上内外致])[^为]{1,8}$")
_COUNTING = frozenset("零一二三四五六七八九十百千万亿两几半数多这那哪每各某整")
_AHEAD = 12  # characters that a rule sees on either side


@dataclass(frozen=True)
class Context:
    """The neighbours of a word.

    Attributes:
        before, after: the characters around it, up to the next mark.
        last, following: the words around it, empty at the borders.
        last_class, following_class: their classes.
    """

    before: str
    after: str
    last: str
    following: str
    last_class: str
    following_class: str


@dataclass(frozen=True)
class _Rule:
    reading: str
    before: re.Pattern[str]
    after: re.Pattern[str]


def polyphone(words: Sequence[str], index: int, text: str, start: int, lexicon: Lexicon) -> str:
    """Return numbered pinyin of the word ``words[index]``, or "" where no rule has it.

    Args:
        words: the words of a run of characters.
        index: of the word among them.
        text: the run.
        start: place of the word in the run.
    """
    word = words[index]
    rules, function = _RULES.get(word), _FUNCTIONS.get(word)
    if rules is None and function is None:
        return ""
    last = words[index - 1] if index else ""
    following = words[index + 1] if index + 1 < len(words) else ""
    context = Context(
        before=text[max(0, start - _AHEAD) : start],
        after=text[start + len(word) : start + len(word) + _AHEAD],
        last=last,
        following=following,
        last_class=lexicon.word_class(last) if last else "",
        following_class=lexicon.word_class(following) if following else "",
    )
    for rule in rules or ():
        if rule.before.search(context.before) and rule.after.match(context.after):
            return rule.reading
    return function(context, lexicon) if function else ""


def _de_of_complements(context: Context, lexicon: Lexicon) -> str:
    """得: "must" before a verb, a suffix behind one, or "to get"."""
    is_doing = context.following_class in ("v", "d", "p") or (
        context.after != "" and lexicon.word_class(context.after[0]) == "v"
    )
    is_doing |= context.following in _DOING
    is_adverb = context.last_class == "d" and len(context.last) == 1
    is_adverb |= context.last in ("可", "必", "总", "只", "又")
    if (is_adverb or context.last_class in ("r", "t", "c", "")) and context.after:
        return "dei3" if is_doing else "de2"
    if context.last_class in ("n", "k") and is_doing:
        return "dei3"
    return "de5"


def _di_of_adverbs(context: Context, lexicon: Lexicon) -> str:
    """地: a suffix of adverbs, or "earth"."""
    before = context.before
    is_doubled = len(before) >= 2 and (before[-1] == before[-2] or before[-4:-2] == before[-2:])
    is_manner = context.last_class in ("a", "d", "z", "i", "l", "v", "o", "b", "m") or (
        context.last_class == "n" and context.following_class == "v"
    )
    is_manner &= context.following_class not in ("n", "f", "u", "y", "")
    is_adverb = is_doubled or (is_manner and len(context.last) > 1)
    return "de5" if context.after and is_adverb else "di4"


def _liao_of_ability(context: Context, lexicon: Lexicon) -> str:
    """了: "able" in 去不了 and 去得了, otherwise a suffix."""
    is_able = context.last in ("不", "得") and len(context.before) > 1
    return "liao3" if is_able else "le5"


def _wei_of_purpose(context: Context, lexicon: Lexicon) -> str:
    """为: "for", or "to be" and "as"."""
    if context.following_class == "m" or _TAKEN_AS.search(context.before):
        return "wei2"
    if context.following_class in ("r", "nr"):
        return "wei4"
    if "所" in context.after[:6]:
        return "wei2"
    if context.last_class in ("n", "v") and len(context.after) <= 3 and context.before:
        return "wei2"
    return "wei4"


def _guo_of_experience(context: Context, lexicon: Lexicon) -> str:
    """过: a suffix behind most verbs, or "to pass"."""
    moving = "走跑飞跨越穿经通度路超胜闪掠翻绕漂滑熬挺躲逃瞒骗爬渡游躺转"
    is_suffix = context.last_class == "v" and context.last[-1] not in moving
    return "guo5" if is_suffix else "guo4"


def _shang_of_places(context: Context, lexicon: Lexicon) -> str:
    """上 behind a noun and before no object is light."""
    is_place = context.last_class in ("n", "s") and context.following_class in ("", "u", "v", "d")
    return "shang5" if is_place else "shang4"


def _li_of_places(context: Context, lexicon: Lexicon) -> str:
    return "li5" if context.last_class in ("n", "s", "f", "r", "t") else "li3"


def _ge_of_counting(context: Context, lexicon: Lexicon) -> str:
    is_measure = context.before[-1:] in _COUNTING
    return "ge5" if is_measure or context.last_class in ("v", "a") else "ge4"


def _zhu_of_writers(context: Context, lexicon: Lexicon) -> str:
    """著: the traditional 着 behind a verb, otherwise "to write"."""
    return "zhe5" if context.last_class in ("v", "a") else "zhu4"


def _zhuan_of_lives(context: Context, lexicon: Lexicon) -> str:
    """传: the life of a person behind a name, otherwise "to pass on"."""
    is_book = context.last_class == "n" and re.match("$|[里中很也]", context.after) is not None
    return "zhuan4" if is_book else "chuan2"


_FUNCTIONS: Mapping[str, Callable[[Context, Lexicon], str]] = {
    "得": _de_of_complements,
    "地": _di_of_adverbs,
    "了": _liao_of_ability,
    "为": _wei_of_purpose,
    "过": _guo_of_experience,
    "上": _shang_of_places,
    "里": _li_of_places,
    "个": _ge_of_counting,
    "著": _zhu_of_writers,
    "传": _zhuan_of_lives,
}


def _compiled() -> dict[str, tuple[_Rule, ...]]:
    found: dict[str, list[_Rule]] = {}
    for character, before, reading, after in RULES:
        rule = _Rule(reading, re.compile(f"(?:{before})$" if before else ""), re.compile(after))
        found.setdefault(character, []).append(rule)
    return {character: tuple(rules) for character, rules in found.items()}


_RULES = _compiled()
