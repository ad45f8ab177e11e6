"""Subtitles of spoken texts, from the times of their words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from ..errors import AudioError
from ..text.pauses import blank_marks
from ..text.tags import blank_tags
from .files import check_target, write_file
from .samples import StrPath

SUBTITLE_FORMATS = ("srt", "vtt", "ass", "lrc", "json")

_LINE = 42  # characters, as broadcasters recommend
_LINES = 2
_LEAST_SECONDS = 1.0  # that a cue is shown, where the next one leaves time
_PAUSE_SECONDS = 1.0  # a pause that no cue crosses
_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’)）」』]*$")
_PHRASE_END = re.compile(r"[,;:—–，；：、][\"'”’)）」』]*$")
# Marks that stay with the word behind them; straight quotes do where a space is before them.
_OPENING = "“‘([{<（《【「『"
_QUOTES = "\"'"
_PARAGRAPH = re.compile(r"\n[^\S\n]{0,99}\n")
_HAN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")


class TimedWord(Protocol):
    """A word and when it is spoken; see ``ChatTTS.pipeline.results.Word``."""

    @property
    def text(self) -> str: ...
    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...
    @property
    def start_character(self) -> int: ...
    @property
    def end_character(self) -> int: ...


@dataclass(frozen=True)
class Cue:
    """A subtitle.

    Attributes:
        start, end: in seconds; it is shown from ``start`` until before ``end``.
        lines: at most two.
    """

    start: float
    end: float
    lines: tuple[str, ...]


@dataclass(frozen=True)
class _Token:
    """A word with the marks around it."""

    text: str
    start: float
    end: float
    is_joined: bool  # to the token before it, without a space
    begins: bool = False  # a paragraph


def subtitle_format(path: StrPath) -> str:
    """Return the format that a file's name asks for.

    Raises:
        AudioError: its ending names none, or pysubs2 is needed and missing.
    """
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in SUBTITLE_FORMATS:
        known = ", ".join(f".{each}" for each in SUBTITLE_FORMATS)
        raise AudioError(f"{path} is not a subtitle format that can be written: use one of {known}")
    if kind in ("srt", "vtt", "ass"):
        _require_pysubs2()
    return kind


def check_subtitles(path: StrPath) -> None:
    """Raise AudioError if no subtitles can be written to ``path``; called before the work for them.

    A package that is missing is an error, too.
    """
    subtitle_format(path)
    check_target(Path(path))


def save_subtitles(path: StrPath, words: Sequence[TimedWord], text: str) -> Path:
    """Write subtitles, and return ``path``.

    Args:
        path: ``.srt``, ``.vtt``, ``.ass``, ``.lrc``, or ``.json`` (cues, and every word).
        words: of the text, as ``Waveforms.words`` has them.
        text: as the caller wrote it; its marks are shown, its control tags are not.

    Raises:
        AudioError: the ending is not known, pysubs2 is missing (``pip install
            'chattts-velocity[subtitles]'``), or the file cannot be written.
    """
    kind = subtitle_format(path)
    cues = make_cues(words, text)
    if kind == "json":
        content = _json(cues, words, text)
    elif kind == "lrc":
        content = "".join(f"[{_minutes(cue.start)}]{' '.join(cue.lines)}\n" for cue in cues)
    else:
        content = _with_pysubs2(cues, kind)
    target = Path(path)
    check_target(target)
    write_file(target, content.encode("utf-8"))
    return target


def make_cues(words: Sequence[TimedWord], text: str) -> list[Cue]:
    """Return readable subtitles: at most two lines of 42 characters, for a second or longer.

    A cue ends with a sentence or a paragraph (a blank line), before a pause of a second, or else at
    the last phrase that fits.
    No two cues are shown at a time.

    Args:
        words: of the text, in order; words that were not spoken are left out.
        text: as the caller wrote it.
    """
    groups = [group for part in _parts(_tokens(words, text)) for group in _fitting(part)]
    cues = []
    for group, following in pairwise([*groups, None]):
        assert group is not None
        end = max(group[-1].end, group[0].start + _LEAST_SECONDS)
        if following is not None:
            end = min(end, following[0].start)
        cues.append(Cue(group[0].start, max(end, group[-1].end), _lines(group)))
    return cues


def _tokens(words: Sequence[TimedWord], text: str) -> list[_Token]:
    """Return the spoken words with their marks."""
    plain = blank_tags(blank_marks(text))
    spoken = [word for word in words if word.end > word.start]
    tokens = []
    behind = 0
    for place, word in enumerate(spoken):
        start, end = word.start_character, word.end_character
        limit = spoken[place + 1].start_character if place + 1 < len(spoken) else len(plain)
        while start > behind and plain[start - 1] in _OPENING + _QUOTES:
            start -= 1
        while end < limit and not plain[end].isspace() and plain[end] not in _OPENING:
            end += 1
        joined = start > 0 and not plain[start - 1].isspace() and place > 0
        begins = place > 0 and _PARAGRAPH.search(plain, behind, start) is not None
        tokens.append(_Token(plain[start:end], word.start, word.end, joined, begins))
        behind = end
    return tokens


def _parts(tokens: Sequence[_Token]) -> Iterator[list[_Token]]:
    """Yield the tokens between sentence ends and long pauses."""
    part: list[_Token] = []
    for token in tokens:
        if part and _ends(part, token):
            yield part
            part = []
        part.append(token)
    if part:
        yield part


def _ends(part: Sequence[_Token], token: _Token) -> bool:
    """Return whether a cue ends before a token, whatever fits."""
    if token.begins:
        return True
    if token.start - part[-1].end >= _PAUSE_SECONDS:
        return True
    is_long = part[-1].end - part[0].start >= _LEAST_SECONDS
    return is_long and _SENTENCE_END.search(part[-1].text) is not None


def _fitting(tokens: list[_Token]) -> Iterator[list[_Token]]:
    """Yield the tokens in groups that fit into a cue, cut at phrases where that is possible."""
    while tokens:
        # From the front: a text without marks has no other bound for a cue.
        most = 1
        while most < len(tokens) and _fits(tokens[: most + 1]):
            most += 1
        if most < len(tokens):
            phrases = [
                count
                for count in range(most // 2 + 1, most + 1)
                if _PHRASE_END.search(tokens[count - 1].text)
            ]
            most = max(phrases, default=most)
        yield tokens[:most]
        tokens = tokens[most:]


def _fits(tokens: Sequence[_Token]) -> bool:
    lines = _lines(tokens)
    return len(lines) <= _LINES and all(len(line) <= _LINE for line in lines)


def _lines(tokens: Sequence[_Token]) -> tuple[str, ...]:
    """Return one line where it fits, else two of nearly equal length."""
    whole = _joined(tokens)
    if len(whole) <= _LINE or len(tokens) == 1:
        return (whole,)
    cuts = (
        (_joined(tokens[:count]), _joined(tokens[count:]))
        for count in range(1, len(tokens))
        if not tokens[count].is_joined or _HAN.search(tokens[count].text)
    )
    return min(cuts, key=lambda lines: max(map(len, lines)), default=(whole,))


def _joined(tokens: Sequence[_Token]) -> str:
    return "".join(
        token.text if token.is_joined or not place else f" {token.text}"
        for place, token in enumerate(tokens)
    )


def _json(cues: Sequence[Cue], words: Sequence[TimedWord], text: str) -> str:
    names = "text", "start", "end", "start_character", "end_character"
    told = {
        "text": text,
        "cues": [asdict(cue) for cue in cues],
        "words": [{name: getattr(word, name) for name in names} for word in words],
    }
    return json.dumps(told, ensure_ascii=False, indent=1) + "\n"


def _minutes(seconds: float) -> str:
    hundredths = round(seconds * 100)
    return f"{hundredths // 6000:02}:{hundredths // 100 % 60:02}.{hundredths % 100:02}"


def _with_pysubs2(cues: Sequence[Cue], kind: str) -> str:
    import pysubs2

    file = pysubs2.SSAFile()
    for cue in cues:
        shown = "\n".join(cue.lines)
        event = pysubs2.SSAEvent(start=round(cue.start * 1000), end=round(cue.end * 1000))
        event.plaintext = shown
        file.append(event)
    return str(file.to_string(kind))


def _require_pysubs2() -> None:
    try:
        import pysubs2  # noqa: F401
    except ImportError as error:
        raise AudioError(
            "subtitles in this format need pysubs2: pip install 'chattts-velocity[subtitles]'; "
            ".lrc and .json need nothing"
        ) from error
