"""Write ``ChatTTS/text/pronunciation/mandarin/lexicon.bin``; see README.md."""

from __future__ import annotations

import argparse
import math
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from pathlib import Path

from ChatTTS.text.pronunciation.mandarin.lexicon import FILE, UNKNOWN_COST
from ChatTTS.text.pronunciation.mandarin.syllables import is_syllable

_OWN = Path(__file__).parent
_PACKAGE = _OWN.parents[1] / "ChatTTS" / "text" / "pronunciation" / "mandarin"
_HAN = re.compile(r"[\u4e00-\u9fff]+")
_ITEM = re.compile(r"([\u4e00-\u9fff]+)((?:[a-z]+[1-5]\.?)+)")
_MARKED = {
    accented: (letter, tone)
    for letter, row in {
        "a": "āáǎà", "e": "ēéěè", "i": "īíǐì", "o": "ōóǒò", "u": "ūúǔù", "v": "ǖǘǚǜ",
        "n": "\0ńňǹ", "m": "\0ḿ\0\0", "ê": "\0ế\0ề",
    }.items()
    for tone, accented in enumerate(row, 1)
}  # fmt: skip
# A word is worth its place above these occurrences in the counts of jieba (60 million words).
_LEAST_COUNT = {1: 1, 2: 8, 3: 12, 4: 12}
# Phrases that are listed for their reading are cut out as a whole.
_COST_OF_CORRECTIONS = 60
# Words that end with 一 are kept where it does not belong to what follows.
_KEPT_ONE = frozenset({
    "统一", "唯一", "万一", "之一", "其一", "第一", "专一", "单一", "同一", "合一", "归一",
    "划一", "如一", "星期一", "周一", "礼拜一", "初一", "十一", "高一", "大一", "不一", "惟一",
    "逐一", "一一", "九九归一",
})  # fmt: skip
# Words of the counts that seldom are one: 两国都, 影响了当地.
_DROPPED = frozenset({"国都", "了当", "了当地", "了无", "的当", "安分"})
_TARGETS = frozenset({"目的", "标的", "打的", "中的", "众矢之的", "无的放矢"})
# Characters whose simplified form is another word, and spellings that no table of forms has.
_NOT_SIMPLIFIED = frozenset("著乾")
_ALSO_SIMPLIFIED = {
    "妳": "你",
    "祂": "他",
    "牠": "它",
    "乾": "干",
    "〇": "零",
    "裏": "里",
    "麽": "么",
}
_NUMBERS = frozenset("一二三四五六七八九十百千万亿两几半数多")
# Verbs behind which 过 says that it was done before.
_EXPERIENCED = frozenset("去来吃喝看听说做用学见想买写读玩住爱提问有坐试受当")
_ZI_OF_SAGES = frozenset(
    "孔孟老庄墨荀韩孙曾男女王弟分原电质量离粒因瓜莲种才学士君臣游浪赤骄太天母父"
)


@dataclass(frozen=True)
class _Counted:
    count: int
    word_class: str


def main() -> None:
    """Pack the lexicon from the packages that README.md names."""
    parser = argparse.ArgumentParser(prog="python -m recipes.mandarin_words")
    parser.add_argument("--out", type=Path, default=_PACKAGE / FILE)
    out = parser.parse_args().out
    characters = _characters()
    corrections = {word: " ".join(said) for word, said in _items("words.txt")}
    counted = _counted()
    phrases = _phrases()
    words = _chosen(counted, phrases, corrections, characters)
    costs = _costs(words, counted)
    known = _with_parts(
        words, characters | _defaults(words, characters) | phrases | corrections, costs
    )
    readings = {}
    neutral = frozenset(_plain_words("neutral.txt"))
    for word in words:
        said = corrections.get(word) or _reading(word, known, characters, neutral)
        if said and said != _spelled(word, characters):
            readings[word] = said
    text = "\n\n".join(
        (
            _groups(costs, {word: one.word_class for word, one in counted.items()}),
            "\n".join(f"{word} {said}" for word, said in sorted(readings.items())),
            _by_reading(characters),
            _simplified(),
        )
    )
    packed = zlib.compress(text.encode(), 9)
    out.write_bytes(packed)
    print(f"{len(words)} words, {len(readings)} readings, {len(packed)} bytes")


def _numbered(marked: str) -> str:
    """Return pinyin with the number of its tone for pinyin with an accent."""
    plain, tone = "", 5
    for letter in marked.replace("ü", "v").replace("ɡ", "g"):
        base, found = _MARKED.get(letter, (letter, 0))
        plain, tone = plain + base, found or tone
    return f"{plain}{tone}"


def _characters() -> dict[str, str]:
    table: Mapping[int, str] = import_module("pypinyin.constants").PINYIN_DICT
    found = {chr(code): _numbered(said.split(",")[0]) for code, said in table.items()}
    found = {character: said for character, said in found.items() if is_syllable(said[:-1])}
    return found | {character: said[0] for character, said in _items("characters.txt")}


def _items(name: str) -> Iterable[tuple[str, list[str]]]:
    for line in (_OWN / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        for word, said in _ITEM.findall(line):
            yield word, said.split(".")


def _plain_words(name: str) -> Iterable[str]:
    for line in (_OWN / name).read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            yield from line.split()


def _counted() -> dict[str, _Counted]:
    found = {}
    for line in files("jieba").joinpath("dict.txt").read_text(encoding="utf-8").splitlines():
        word, count, word_class = line.split(" ")
        if _HAN.fullmatch(word):
            found[word] = _Counted(int(count), word_class[0])
    return found


def _phrases() -> dict[str, str]:
    """Return numbered pinyin of phrases; of two lists, the smaller one is the more careful one."""
    found: dict[str, str] = {}
    large = import_module("pypinyin_dict.phrase_pinyin_data.large_pinyin").phrases_dict
    for phrases in (large, import_module("pypinyin.constants").PHRASES_DICT):
        for word, said in phrases.items():
            numbered = [_numbered(syllable[0]) for syllable in said]
            if len(numbered) != len(word) or not all(is_syllable(s[:-1]) for s in numbered):
                continue
            for place, character in enumerate(word):  # without the tones of the context
                if character == "一":
                    numbered[place] = "yi1"
                elif character == "不" and numbered[place] in ("bu2", "bu4"):
                    numbered[place] = "bu4"
            found[word] = " ".join(numbered)
    return found


def _chosen(
    counted: Mapping[str, _Counted],
    phrases: Mapping[str, str],
    corrections: Mapping[str, str],
    characters: Mapping[str, str],
) -> list[str]:
    chosen = set(corrections)
    for word, one in counted.items():
        if one.count >= _LEAST_COUNT.get(len(word), math.inf):
            chosen.add(word)
    careful = import_module("pypinyin.constants").PHRASES_DICT
    for word in careful:
        is_short = 1 < len(word) <= 8 and _HAN.fullmatch(word) is not None
        if is_short and phrases.get(word, "") not in ("", _spelled(word, characters)):
            chosen.add(word)
    return sorted(word for word in chosen if not _is_cut_wrong(word))


def _is_cut_wrong(word: str) -> bool:
    takes_from_next = word[-1] == "一" and 1 < len(word) < 4 and word not in _KEPT_ONE
    return takes_from_next or word in _DROPPED


def _costs(words: Iterable[str], counted: Mapping[str, _Counted]) -> dict[str, int]:
    total = sum(one.count for one in counted.values())

    def cost(count: float) -> int:
        return min(round(4 * math.log2(total / count)), UNKNOWN_COST - 1)

    costs = {}
    for word in words:
        one = counted.get(word)
        if one is not None:
            costs[word] = cost(one.count)
        else:  # as likely as its characters in a row, and a little more
            costs[word] = cost(8 * math.prod(_share(c, counted, total) for c in word) * total)
            if len(word) > 2:
                costs[word] = min(costs[word], _COST_OF_CORRECTIONS)
    return costs


def _share(character: str, counted: Mapping[str, _Counted], total: int) -> float:
    one = counted.get(character)
    return max(one.count if one else 1, 1) / total


def _defaults(words: Iterable[str], characters: Mapping[str, str]) -> dict[str, str]:
    return {word: _spelled(word, characters) for word in words if len(word) == 2}


def _with_parts(
    words: Iterable[str], known: Mapping[str, str], costs: Mapping[str, int]
) -> dict[str, str]:
    """Return ``known`` with the long words that are made of known ones and characters."""
    found = dict(known)
    for word in sorted(words, key=len):
        if len(word) < 3 or word in found:
            continue
        splits = [
            (costs[word[:at]] + costs[word[at:]], word[:at], word[at:])
            for at in range(1, len(word))
            if word[:at] in costs and word[at:] in costs
        ]
        if splits:
            _, left, right = min(splits)
            if left in found and right in found:
                found[word] = f"{found[left]} {found[right]}"
    return found


def _reading(
    word: str, phrases: Mapping[str, str], characters: Mapping[str, str], neutral: frozenset[str]
) -> str | None:
    if len(word) == 1:
        return None
    said = (phrases.get(word) or _spelled(word, characters)).split()
    if len(said) != len(word):
        return None
    if word[-1] == "的" and word not in _TARGETS:
        said[-1] = "de5"
    if word[-1] == "个" and word[-2] in _NUMBERS:
        said[-1] = "ge5"
    if word[-1] == "过" and len(word) == 2 and word[0] in _EXPERIENCED:
        said[-1] = "guo5"
    if word[-1] == "们":
        said[-1] = "men5"
    if word[-1] == "子" and word not in phrases and word[-2] not in _ZI_OF_SAGES:
        said[-1] = "zi5"
    if word[-1] != "子" and "子" in word and "zi5" in said and word not in phrases:
        said[word.index("子")] = "zi3"
    for size in (3, 2):
        if word[-size:] in neutral and size <= len(word):
            said[-1] = said[-1][:-1] + "5"
    return " ".join(said)


def _spelled(word: str, characters: Mapping[str, str]) -> str:
    return " ".join(characters.get(character, "") for character in word)


def _groups(costs: Mapping[str, int], classes: Mapping[str, str]) -> str:
    groups: dict[str, list[str]] = defaultdict(list)
    for word, cost in costs.items():
        groups[f"{_class(word, classes)}{cost}"].append(word)
    return "\n".join(" ".join((head, *sorted(words))) for head, words in sorted(groups.items()))


def _class(word: str, classes: Mapping[str, str]) -> str:
    """Return the class of a word; of one that was not counted, that of its first character."""
    return classes.get(word) or classes.get(word[0], "x")


def _by_reading(characters: Mapping[str, str]) -> str:
    by_reading: dict[str, list[str]] = defaultdict(list)
    for character, said in characters.items():
        by_reading[said].append(character)
    return "\n".join(f"{said} {''.join(sorted(of))}" for said, of in sorted(by_reading.items()))


def _simplified() -> str:
    pairs = dict(_ALSO_SIMPLIFIED)
    table = files("opencc").joinpath("dictionary/TSCharacters.txt").read_text(encoding="utf-8")
    for line in table.splitlines():
        traditional, simplified = line.split("\t")
        first = simplified.split(" ")[0]
        if traditional != first and traditional not in _NOT_SIMPLIFIED:
            pairs[traditional] = first
    return " ".join(a + b for a, b in sorted(pairs.items()) if len(a) == len(b) == 1)


if __name__ == "__main__":
    main()
