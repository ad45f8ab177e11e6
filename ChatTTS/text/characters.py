"""Characters that reach the model, and replacements for the others.

``published_characters`` is exactly the rule of the published package. The other functions serve
this package's own normalization, which reads, folds or replaces a character before it drops one.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from ..errors import TextError, shown
from ..utils.untrusted import read_json
from .signs import EMOJI
from .tags import map_plain, without_tags

logger = logging.getLogger(__name__)

_PUBLISHED_SET = r"\u4e00-\u9fffA-Za-z，。、,. "
_NOT_PUBLISHED = re.compile(f"[^{_PUBLISHED_SET}]")
_PUBLISHED_MAP = str.maketrans(
    dict.fromkeys("：；（）【】『』「」《》－", "，")
    | dict.fromkeys(":;()<>-", ",")
    | {"！": "。", "!": "."}
)

_IDEOGRAPH = re.compile(r"[\u4e00-\u9fff]")
_CHINESE_MARK = re.compile("[，。、；：？！（）《》]")
_LETTER = re.compile(r"(?<![0-9A-Za-z'’])[B-HJ-Zb-z](?![0-9A-Za-z'’])")  # "I" and "a" are words
# Letters beside digits are units or codes, and no words of a language; nor are addresses in a
# Chinese text.
_WORD = re.compile(r"(?<![0-9A-Za-z])[A-Za-z]+(?:['’][A-Za-z]+)*(?![0-9A-Za-z])")
# Small words show the grammar of a sentence, whatever names it has.
_HAN_GRAMMAR = re.compile("[的了和在是把用就都个这那我你他吗吧不有也要会到从与或给让跟及对于被]")
_ENGLISH_GRAMMAR = re.compile(
    r"\b(?:the|an?|is|are|was|were|be|of|to|and|with|it|this|that|these|you|we|they|he|she|my|your|"
    r"I|I'm|have|has|will|can|not|but|at|by|from|as|on|for|after|before|when|see|what|how|"
    r"[a-z]{3,20} [a-z]{2,20})\b(?![(\[{=])"
)
_ADDRESS = re.compile(
    r"(?:https?://|www\.)[!-~]+|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    r"|(?<![\w.-])[A-Za-z][\w-]*\.[a-z]{2,5}(?!\w)",
    re.ASCII,
)

_FULL_WIDTH = str.maketrans(
    dict(zip(",.!?:;()-", "，。！？：；（）－", strict=True))
    | dict.fromkeys("—–", "，")
    | {"…": "。"}
)
# Replacements to try for a character that the voice does not know.
_SUBSTITUTES = {chr(code): str(mark) for code, mark in _PUBLISHED_MAP.items()} | {
    "?": "？.", "？": "?。", "!": "！.", "！": "!。", "…": ".", "⋯": ".", "—": ",", "–": ",",
}  # fmt: skip

# Signs of a meaning that have the category of marks, and signs that only adorn a text or divide it.
_MEANT = frozenset("#%&*/@\\§¶‰‱′″")
_WIDE_HYPHEN = re.compile(r"(?<=\d)－(?=\d)")
_ORNAMENT = re.compile(rf"[~^`|\u2500-\u25ff{EMOJI}]")

_PLAIN_MARKS = {"，": ",", "、": ",", "。": "."}
_SHOWN_LETTERS = 60

_FOLDED = (
    dict.fromkeys("‘’‛ʼ`´", "'")
    | dict.fromkeys("“”„‟«»", '"')
    | {"−": "-", "〇": "零", "℃": "°C", "℉": "°F", "№": "No. ", "º": "°", "⁄": "/", "￥": "¥"}
    | {"ß": "ss", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "ø": "o", "Ø": "O", "ł": "l",
       "Ł": "L", "đ": "d", "Đ": "D", "ð": "d", "þ": "th", "ı": "i"}
)  # fmt: skip

_CONTRACTIONS = (
    (re.compile(r"\b([Cc])an't\b"), r"\1annot"),
    (re.compile(r"\b([Ww])on't\b"), r"\1ill not"),
    (re.compile(r"\b([Ss])han't\b"), r"\1hall not"),
    (re.compile(r"(?<![Aa][Ii])n't\b"), " not"),
    (re.compile(r"'re\b"), " are"),
    (re.compile(r"'ve\b"), " have"),
    (re.compile(r"'ll\b"), " will"),
    (re.compile(r"'d\b"), " would"),
    (re.compile(r"\bI'm\b"), "I am"),
    (re.compile(r"\b([Oo])'(?=[A-Za-z])"), r"\1 "),
)
_TRAILING_OFF = re.compile(r"(?:(?<!\.)\.{2,}|(?<!…)…+)(?=\s{0,9}[a-z])")


def language_of(text: str) -> str | None:
    """Return "zh" for more Chinese characters than English words, else "en"; no tag counts.

    Beside Chinese characters, their marks count as well, and letters of formulas are no words. What
    has the small words of one language alone is of that language. A text with neither has None.
    """
    plain = without_tags(text)
    ideographs = len(_IDEOGRAPH.findall(plain))
    if ideographs:
        ideographs += len(_CHINESE_MARK.findall(plain))
        plain = _LETTER.sub(" ", _ADDRESS.sub(" ", plain))
    words = len(_WORD.findall(plain))
    if not ideographs and not words:
        return None
    is_chinese = ideographs > words or (_HAN_GRAMMAR.search(plain) and not is_prose(plain))
    return "zh" if is_chinese else "en"


def is_prose(text: str) -> bool:
    """Return whether ``text`` has small words of English, or two words that follow each other."""
    return _ENGLISH_GRAMMAR.search(text) is not None


def published_characters(text: str, kept: str = "") -> str:
    """Apply the published rule: map some marks to commas and stops, and drop unknown ones.

    Args:
        kept: characters that are not dropped.
    """
    dropped = re.compile(f"[^{_PUBLISHED_SET}{re.escape(kept)}]") if kept else _NOT_PUBLISHED
    return map_plain(text, lambda plain: dropped.sub("", plain.translate(_PUBLISHED_MAP)))


def fold(text: str, kept: str) -> str:
    """Replace variants of a character by the plain one.

    For example, "ｅ", "é" and "ᵉ" become "e", and "’" becomes "'".

    White space other than "\\n" becomes a space. So do brackets, which belong to no tag here. The
    characters in ``kept`` stay, but for a wide hyphen between digits, which is no pause.
    """
    joined = _WIDE_HYPHEN.sub("-", unicodedata.normalize("NFC", text))
    return "".join(char if char in kept else _fold(char) for char in joined)


def full_width(text: str) -> str:
    """Replace ASCII punctuation by the Chinese one."""
    return text.translate(_FULL_WIDTH)


def inner_marks(text: str, kept: str) -> str:
    """Treat apostrophes, hyphens and dots inside a sentence.

    Apostrophes stay inside words only. A hyphen in a word becomes a space, without a pause. Dots
    before a lower-case letter become a comma. For a voice without apostrophes, contractions are
    written out: otherwise "we'll" and "I'd" would become the words "well" and "id".
    """
    if "'" not in kept:
        for pattern, words in _CONTRACTIONS:
            text = pattern.sub(words, text)
    text = _TRAILING_OFF.sub(",", text)
    if "-" not in kept:
        text = re.sub(r"(?<=\w)-(?=\w)", " ", text)
    return re.sub(r"(?<![A-Za-z])'|'(?![A-Za-z])", "", text)


def allowed_characters(text: str, kept: str) -> str:
    """Return ``text`` with only characters of the published set and ``kept``.

    Another character is replaced by a known one or by a space. A mark without a width of its own is
    dropped.
    """
    return re.sub(
        f"[^{_PUBLISHED_SET}{re.escape(kept)}]", lambda match: _substitute(match[0], kept), text
    )


def unknown_characters(text: str, knows: Callable[[str], bool]) -> dict[int, str]:
    """Return a table for ``str.translate`` that replaces characters unknown to a voice.

    These are characters of the published set. Chinese marks are replaced by plain ones, and
    ideographs by a space.

    Args:
        text: the text with these characters; tags do not count.
        knows: whether the voice knows a character.
    """
    beyond_ascii = {char for char in without_tags(text) if not char.isascii()}
    return {ord(char): _PLAIN_MARKS.get(char, " ") for char in beyond_ascii if not knows(char)}


def lost_letters(text: str, kept: str, unknown: Collection[int] = ()) -> tuple[str, ...]:
    """Return the letters and digits of ``text`` that no rule can replace, each once, in order.

    Args:
        unknown: code points of the published set that the voice does not know.
    """
    beyond = re.compile(f"[^{_PUBLISHED_SET}{re.escape(kept)}]")
    letters = dict.fromkeys(char for char in without_tags(text) if char.isalnum())
    return tuple(char for char in letters if beyond.match(char) or ord(char) in unknown)


def lost_symbols(text: str, kept: str) -> tuple[str, ...]:
    """Return the symbols of a text that has been read out, each once, in order.

    No reader has said them, so they are left out. Emoji and ornaments do not count.
    """
    return tuple(
        char
        for char in dict.fromkeys(without_tags(text))
        if (char in _MEANT or unicodedata.category(char) in ("Sm", "Sc", "So"))
        and char not in kept
        and not _ORNAMENT.match(char)
    )


def warn_of_lost_letters(left_out: Sequence[str]) -> None:
    """Warn once of letters and symbols that were left out, if any; longer parts do not count."""
    letters = sorted(part for part in left_out if len(part) == 1)
    if letters:
        shown = "".join(letters[:_SHOWN_LETTERS]) + "..." * (len(letters) > _SHOWN_LETTERS)
        logger.warning("the voice does not know these characters; left out: %s", shown)


def replace_homophones(text: str, homophones: Mapping[str, str]) -> str:
    """Replace each character by its entry in ``homophones``; tags stay."""
    table = str.maketrans(dict(homophones))
    return map_plain(text, lambda plain: plain.translate(table))


def load_homophones(path: str | Path) -> dict[str, str]:
    """Read a table of homophones: a JSON object that maps single characters to single characters.

    Raises:
        TextError: the file cannot be read, or has other contents.
    """
    try:
        table = read_json(Path(path), unique=False)
    except (OSError, ValueError) as error:
        raise TextError(f"homophone table {path} cannot be read as JSON ({error})") from error
    if not isinstance(table, dict):
        raise TextError(
            f"homophone table {path} must be a JSON object, not a {type(table).__name__}"
        )
    for key, value in table.items():
        if not (isinstance(value, str) and len(key) == len(value) == 1):
            raise TextError(
                f"homophone table {path}: {shown(key)}: {shown(value)} must map one character to "
                "one"
            )
    return table


@lru_cache(maxsize=4096)
def _fold(char: str) -> str:
    if char in _FOLDED:
        return _FOLDED[char]
    if char in "[]" or (char.isspace() and char != "\n"):
        return " "
    if char.isascii() or _IDEOGRAPH.match(char):
        return char
    plain = unicodedata.normalize("NFKD", char)
    category = unicodedata.category(char)
    if category == "Nd":
        return str(unicodedata.digit(char))
    if category in ("No", "Nl") and any(part.isascii() and part.isalnum() for part in plain):
        return " " + plain.replace("⁄", "/") if "⁄" in plain else plain
    if "\u3371" <= char <= "\u33df":  # units in one square, such as "㎡"
        return plain
    if category.startswith("L"):
        letters = "".join(part for part in plain if not unicodedata.combining(part))
        return letters if letters.isascii() and letters.isalpha() else char
    return plain if plain in _FOLDED_MARKS else char


_FOLDED_MARKS = tuple(".$£¥%&@#+=*/^~_'\"")


def _substitute(char: str, kept: str) -> str:
    for mark in _SUBSTITUTES.get(char, ""):
        if mark in kept or not _NOT_PUBLISHED.match(mark):
            return mark
    silent = char in "\"'" or unicodedata.category(char)[0] in "MC"
    return "" if silent else " "
