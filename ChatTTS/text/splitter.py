"""Split a text into utterances, each of which a voice can speak in one go.

Sentences end at closing punctuation and at line ends. Very short sentences are joined to a
neighbour in their line, since models of this kind fail on one or two words: they give silence or
find no end. Long sentences are divided where a speaker would pause. Only white space is lost, and a
control tag is never cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from ..errors import ConfigError
from .english.abbreviations import ends_sentence
from .pauses import blank_breaks, blank_marks
from .tags import BREAK_SECONDS, LAUGH, TAG, without_tags

_HAN = r"\u3040-\u30ff\u3400-\u9fff"
_CLOSERS = "\"'”’)}」』）】》"

_LAUGH = re.escape(LAUGH)

# Closing punctuation, the quotes after it, and the laughs that belong to the sentence, with the
# tags before them. These are the laughs that touch the sentence, and those with white space on
# their right. Other tags belong to the next sentence.
_END = re.compile(
    rf"(?P<marks>[.!?。！？…]+)(?P<closers>[{_CLOSERS}]*)"
    rf"(?P<tags>(?:(?:{TAG.pattern})*{_LAUGH})?(?:(?:[ \t]*{TAG.pattern})*[ \t]+{_LAUGH}(?!\S))*)"
)
_SPACE_OR_END = re.compile(r"\s|$")
_TAG_NEXT = re.compile(TAG.pattern)
_LAUGH_NEXT = re.compile(rf"\s{{0,64}}{_LAUGH}")
_LOWER_CASE = re.compile(r"\s{0,64}[a-z]")
_HAN_NEXT = re.compile(rf"[{_HAN}]")

_UNIT = re.compile(rf"[{_HAN}]|[^\W_{_HAN}]+(?:['’-][^\W_{_HAN}]+)*")
_WIDE = re.compile(rf"[{_HAN}，。、！？；：…“”‘’「」『』（）【】《》]")

_SHORT = 3  # words
_HAN_IN_WORDS = 0.6  # the weight of a Chinese character: a sentence of five is not short

# Where a long sentence may be divided, each kind with a penalty. The penalty is a distance from the
# middle, in units of the wanted length, and the cut with the smallest sum of both is taken.
_CUTS = (
    (re.compile(r"(?<=[;:])(?=\s)|(?<=[；：])"), 0.0),
    (re.compile(r"(?<=,)(?=\s)|(?<=[，、])|(?<=[—–])"), 0.1),
    (
        re.compile(
            r"(?=\s(?:and|but|or|because|so|that|which|who|when|while|where|if|then|than|as|to|for|"
            r"with|from|in|on|at|by)\s)",
            re.IGNORECASE,
        ),
        0.4,
    ),
    (re.compile(r"(?=\s[^\s,.;:!?)])"), 0.6),
    (re.compile(rf"(?<=[{_HAN}])(?=[{_HAN}A-Za-z])|(?<=[A-Za-z])(?=[{_HAN}])"), 0.8),
)


def is_speakable(text: str) -> bool:
    """Return whether ``text`` has a letter, a digit, or a control tag other than a break."""
    return has_words(text) or any(tag not in BREAK_SECONDS for tag in TAG.findall(text))


def has_words(text: str) -> bool:
    """Return whether ``text`` has a letter or a digit outside of control tags and pauses."""
    return _UNIT.search(without_tags(blank_marks(text))) is not None


def words_in(text: str) -> list[re.Match[str]]:
    """Return the words of a text outside of control tags and pauses, at their places."""
    blank = TAG.sub(lambda tag: " " * len(tag[0]), blank_marks(text))
    return list(_UNIT.finditer(blank))


def split_utterances(text: str, max_characters: int = 200) -> list[str]:
    """Divide ``text`` into utterances of at most ``max_characters``, in order.

    Only a single word or tag, with the marks at it, may be longer. Apart from white space, the
    joined utterances are the text. A text of marks alone has no utterances.

    Raises:
        ConfigError: ``max_characters`` is below 1.
    """
    if max_characters < 1:
        raise ConfigError(f"max_characters must be at least 1, not {max_characters}")
    parts: list[str] = []
    for line in text.splitlines():
        sentences = (sentence.strip() for sentence in split_sentences(line))
        for utterance in _join_short(filter(None, sentences), max_characters):
            parts += _divide(utterance, max_characters)
    utterances = _join_wordless(parts)
    return utterances if any(map(is_speakable, utterances)) else []


def split_sentences(line: str) -> list[str]:
    """Divide a line after the end of each sentence; the joined sentences are the line."""
    ends = (match.end() for match in _END.finditer(line) if _is_end(line, match))
    cuts = [0, *(end for end in ends if end < len(line)), len(line)]
    return [line[start:end] for start, end in pairwise(cuts)]


def are_one_utterance(first: str, second: str, max_characters: int) -> bool:
    """Return whether :func:`split_utterances` joins two sentences of a line to one utterance.

    Args:
        first: may be several sentences that are one utterance already, joined by
            :func:`join_sentences`; has words, as ``second`` does.
    """
    return len(_join_short((first, second.strip()), max_characters)) == 1


def join_sentences(first: str, second: str) -> str:
    """Join two sentences, with a space between them unless both are Chinese."""
    first, second = first.strip(), second.strip()
    if not first or not second:
        return first or second
    return first + ("" if _WIDE.match(first[-1]) and _WIDE.match(second) else " ") + second


def _is_end(line: str, match: re.Match[str]) -> bool:
    marks, end = match["marks"], match.end()
    if any(mark in "。！？" for mark in marks):
        return True
    if marks == "." and not ends_sentence(line, match.start(), end):
        return False
    if _HAN_NEXT.match(line, end):
        return not (marks == "." and line[match.start() - 1 : match.start()].isdigit())
    if not (match["tags"] or _SPACE_OR_END.match(line, end) or _TAG_NEXT.match(line, end)):
        return False
    # '"Stop!" he said' and "wait... what" go on
    goes_on = match["closers"] or marks[0] == "…" or marks.startswith("..")
    return not (goes_on and _LOWER_CASE.match(line, end))


def _join_short(sentences: Iterable[str], max_characters: int) -> list[str]:
    joined: list[str] = []
    for sentence in sentences:
        if joined and (_is_short(joined[-1]) or _is_short(sentence)):
            both = join_sentences(joined[-1], sentence)
            if len(both) <= max_characters:
                joined[-1] = both
                continue
        joined.append(sentence)
    return joined


def _is_short(text: str) -> bool:
    """Return whether ``text`` has at most two words or four Chinese characters."""
    units = _UNIT.findall(without_tags(blank_breaks(text)))
    return sum(_HAN_IN_WORDS if _WIDE.match(unit) else 1 for unit in units) < _SHORT


def _divide(text: str, max_characters: int) -> list[str]:
    """Cut at the best place near the middle, then divide both sides until all parts fit."""
    if len(text) <= max_characters:
        return [text]
    parts = -(-len(text) // max_characters)
    wanted = len(text) / parts
    middle = wanted * (parts // 2)
    inside_tags = {
        cut for match in TAG.finditer(text) for cut in range(match.start() + 1, match.end())
    }
    cuts = [
        (abs(match.start() - middle) / wanted + penalty, match.start())
        for pattern, penalty in _CUTS
        for match in pattern.finditer(text)
        if 0 < match.start() < len(text)
        and match.start() not in inside_tags
        and not _LAUGH_NEXT.match(text, match.start())
    ]
    if not cuts:
        return [text]
    cut = min(cuts)[1]
    sides = (text[:cut].rstrip(), text[cut:].lstrip())
    return [part for side in sides for part in _divide(side, max_characters)]


def _join_wordless(parts: Iterable[str]) -> list[str]:
    """Join parts without words to a neighbour, so that every part has words.

    Tags join the next part. Marks and laughs join the part before. At the beginning and at the end
    both join the only neighbour.
    """
    joined: list[str] = []
    for part in parts:
        alone = joined and not has_words(joined[-1])
        if joined and (alone or not (has_words(part) or _leads(part))):
            joined[-1] = join_sentences(joined[-1], part)
        else:
            joined.append(part)
    if len(joined) > 1 and not has_words(joined[-1]):
        last = joined.pop()
        joined[-1] = join_sentences(joined[-1], last)
    return joined


def _leads(wordless: str) -> bool:
    """Return whether a part of tags alone belongs to the next part."""
    tags = TAG.findall(wordless)
    return bool(tags) and tags[-1] != LAUGH
