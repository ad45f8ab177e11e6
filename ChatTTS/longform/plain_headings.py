"""Find the chapters of plain text: lines such as "CHAPTER II. The Storm" and "第一章 风暴"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .chapters import Start, letters_of
from .spaces import unwrapped

_NUMBER_WORDS = (
    "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|"
    "sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
)
_ORDINALS = "first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh|twelfth|last"
_KINDS = "chapter|part|book|volume|act|scene|canto|letter|stave|epoch|section|episode"
_NUMBERED = re.compile(
    rf"\s{{0,80}}(?:(?:{_KINDS}) (?:the )?(?:[ivxlc]{{1,8}}|\d{{1,4}}|"
    rf"(?:{_NUMBER_WORDS})(?:[- ](?:{_NUMBER_WORDS}))?|{_ORDINALS})|"
    rf"the (?:{_ORDINALS}) (?:{_KINDS}))(?![^\W_])(?P<rest>.{{0,100}})",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"\s{0,80}(?:prologue|epilogue|preface|introduction|foreword|afterword|conclusion|postscript|"
    r"appendix(?: [a-z\d]{1,3})?)[.:]?\s{0,80}",
    re.IGNORECASE,
)
_HAN = re.compile(
    r"\s{0,40}(?:第\s{0,3}[\d零〇一二三四五六七八九十百千两０-９]{1,9}\s{0,3}[章回节節卷部篇集幕折]"
    r"|卷[一二三四五六七八九十]{1,3}|楔子|序章|引子|尾声|尾聲|终章|番外|后记|後記)"
    r"(?:[\s:：、.·—-]{1,9}[^。，！？；]{1,40}|[^\s。，！？；]{0,20}[！？]?)\s{0,40}"
)
_NUMERAL = re.compile(r"\s{0,80}(?P<numeral>[IVXLC]{1,8})(?:\.|$)(?P<rest>.{0,100})")
_CONTENTS = re.compile(
    r"\s{0,80}(?:(?:table of )?contents|目\s{0,3}录|目錄)[.:]?\s{0,80}", re.IGNORECASE
)
_SEPARATOR = re.compile(r"\s{0,9}[.:—–-]{1,3}(?:\s|$)|\s{2}")
_SENTENCE_END = re.compile(r"[.!?…。！？]['\"”’]?\s{0,80}$")
_PAGE = re.compile(r"[^\d\s][\s.]{1,80}\d{1,4}$")
_LONGEST_TITLE, _TITLE_LINES = 80, 3
_MOST_OF_CONTENTS, _LEAST = 0.6, 3
_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}


@dataclass(frozen=True)
class Paragraph:
    """Lines without a blank one between; ``line`` is the number of the first one, from 1."""

    lines: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class _Candidate:
    """A paragraph that may begin a chapter; ``is_named`` is one without a number."""

    position: int
    title: str
    is_named: bool = False


def find_chapters(paragraphs: list[Paragraph]) -> tuple[list[Start], set[int]]:
    """Return the chapters, and the paragraphs of a table of contents.

    A heading that stands in the first lines of a paragraph becomes a paragraph of its own.
    """
    contents = {number for number, each in enumerate(paragraphs) if _is_contents(each)}
    split: list[Paragraph] = []
    candidates: list[_Candidate] = []
    moved: set[int] = set()
    for number, paragraph in enumerate(paragraphs):
        for part, title in _parts(paragraph) if number not in contents else [(paragraph, "")]:
            if number in contents or _CONTENTS.fullmatch(part.lines[0]):
                moved.add(len(split))
            elif title:
                is_named = _NAMED.fullmatch(part.lines[0]) is not None
                candidates.append(_Candidate(len(split), title, is_named))
            split.append(part)
    paragraphs[:] = split
    if all(each.is_named for each in candidates):
        candidates = _numerals(paragraphs)
    candidates, listed = _without_list(candidates)
    if not candidates and not moved.issubset(contents):
        moved &= contents
    starts = [Start(each.position, _titled(each, paragraphs)) for each in candidates]
    is_listed = bool(listed) or bool(contents)
    return starts, (moved if is_listed else set()) | listed


def _is_contents(paragraph: Paragraph) -> bool:
    """Return whether the lines of a paragraph are headings, or end with their pages."""
    least = max(_LEAST, _MOST_OF_CONTENTS * len(paragraph.lines))
    if sum(map(_is_heading, paragraph.lines)) >= least:
        return True
    pages = sum(_PAGE.search(line[-_LONGEST_TITLE:]) is not None for line in paragraph.lines)
    return pages >= least and _is_heading(paragraph.lines[0])


def _is_heading(line: str) -> bool:
    if len(line) > 2 * _LONGEST_TITLE:
        return False
    if _HAN.fullmatch(line):
        return True
    found = _NUMBERED.fullmatch(line)
    if found is None:
        return False
    rest, first = found["rest"], line.strip()[0]
    if not first.isupper() or len(rest.strip()) > _LONGEST_TITLE:
        return False
    is_title = not rest.strip(" .:—–-") or _SEPARATOR.match(rest) is not None
    return is_title or rest.strip()[0].isupper()


def _parts(paragraph: Paragraph) -> Iterator[tuple[Paragraph, str]]:
    """Yield a paragraph in parts, with the title of each that is a heading; empty for others."""
    begin = 0
    number = 0
    lines = paragraph.lines
    while number < len(lines):
        is_first = number == begin == 0
        line = lines[number]
        is_short = len(line) <= 2 * _LONGEST_TITLE
        is_han = is_short and _HAN.fullmatch(line) is not None
        is_named = is_first and is_short and len(lines) == 1 and _NAMED.fullmatch(line) is not None
        if not (is_han or is_named or (is_first and _is_heading(line))):
            number += 1
            continue
        if number > begin:
            yield Paragraph(lines[begin:number], paragraph.line + begin), ""
        end = number + 1 if is_han else _end_of_title(lines, number + 1)
        whole = Paragraph(lines[number:end], paragraph.line + number)
        yield whole, unwrapped(" ".join(whole.lines))
        begin = number = end
    if begin < len(lines):
        yield Paragraph(lines[begin:], paragraph.line + begin), ""


def _end_of_title(lines: Sequence[str], begin: int) -> int:
    """Return where the title ends that goes on below a heading: all the rest, or nothing."""
    rest = lines[begin:]
    is_title = 0 < len(rest) <= _TITLE_LINES and all(
        len(line) <= _LONGEST_TITLE and (line.isupper() or not _SENTENCE_END.search(line))
        for line in rest
    )
    return len(lines) if is_title else begin


def _without_list(candidates: Sequence[_Candidate]) -> tuple[list[_Candidate], set[int]]:
    """Return the headings without those of a table of contents, and the places of these.

    There they follow one another, and each of them comes again later.
    """
    keys = [_key(each.title) for each in candidates]
    last = {key: number for number, key in enumerate(keys)}
    listed: set[int] = set()
    for number, each in enumerate(candidates):
        after = candidates[number + 1].position if number + 1 < len(candidates) else -1
        is_row = after == each.position + 1 or number - 1 in listed
        if is_row and last[keys[number]] > number:
            listed.add(number)
    kept = [each for number, each in enumerate(candidates) if number not in listed]
    return kept, {candidates[number].position for number in listed}


def _key(title: str) -> str:
    """Return what two forms of one heading have in common: kind and number."""
    found = _NUMBERED.match(title)
    return letters_of(title if found is None else title[: found.start("rest")])


def _titled(candidate: _Candidate, paragraphs: Sequence[Paragraph]) -> str:
    """Return the title of a chapter, with the capitals in the paragraph after a bare number."""
    title = candidate.title.strip()
    found = _NUMBERED.fullmatch(title)
    is_bare = found is not None and not found["rest"].strip(" .:")
    following = paragraphs[candidate.position + 1 : candidate.position + 2]
    if is_bare and following and len(following[0].lines) <= _TITLE_LINES:
        below = unwrapped(" ".join(following[0].lines))
        if len(below) <= _LONGEST_TITLE and below.isupper() and not _is_heading(below):
            return f"{title.rstrip('.:')}: {below}"
    return title


def _numerals(paragraphs: Sequence[Paragraph]) -> list[_Candidate]:
    """Return the headings that are roman numbers, if these are I, II, III and so on."""
    found: list[_Candidate] = []
    for number, each in enumerate(paragraphs):
        match = _NUMERAL.fullmatch(each.lines[0]) if len(each.lines) == 1 else None
        if match is None or _value(match["numeral"]) not in (1, len(found) + 1):
            continue
        rest = match["rest"].strip()
        if rest and not rest[0].isupper():
            continue
        if _value(match["numeral"]) == 1:
            found = found if len(found) >= _LEAST else []
        if _value(match["numeral"]) == len(found) + 1:
            found.append(_Candidate(number, unwrapped(each.lines[0])))
    return found if len(found) >= _LEAST else []


def _value(numeral: str) -> int:
    values = [_VALUES[letter] for letter in numeral]
    pairs = zip(values, [*values[1:], 0], strict=True)
    return sum(-value if value < after else value for value, after in pairs)
