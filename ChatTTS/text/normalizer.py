"""Normalize a written text: the readings of its language, then the characters of the voice."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from ..errors import TextError
from ..languages import LANGUAGES, is_no_language, spelled_language
from ..utils.locks import new_lock
from .characters import (
    allowed_characters,
    fold,
    full_width,
    inner_marks,
    is_prose,
    language_of,
    lost_letters,
    lost_symbols,
    published_characters,
    replace_homophones,
    unknown_characters,
    warn_of_lost_letters,
)
from .chinese import read_chinese
from .english import read_english
from .markup import strip_markup
from .number_words import NUMBER_WORD, chinese_number, english_number
from .pronunciation.placeholders import PLACEHOLDERS, map_between
from .punctuation import join_lines, tidy
from .signs import mark_powers
from .splitter import split_sentences
from .tags import drop_unknown, map_plain

logger = logging.getLogger(__name__)

TextFunction = Callable[[str], str]

# A line end inside a sentence, of a text wrapped to some width; not the lines of markdown.
_WRAPPED = re.compile(r"^([ \t]*\w[^\n]{30,}[a-z,])[ \t]*\n(?=[ \t]*[a-z])", re.MULTILINE)
_BUILT_IN: Mapping[str, TextFunction] = {"en": read_english, "zh": read_chinese}
_DIGIT = re.compile(r"[\d\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u209c\u2150-\u218f]")
# A word, with the sign or the word beside it that is a part of the number.
_COUNTED = re.compile(
    r"(?:[$£€¥₹₩]\s(?=\d))?\S+"
    r"(?:\s+(?:hundred|thousand|million|billion|trillion)\b|(?<=\d)\s[%‰€£](?!\w))?"
)
_SIGN = re.compile(r"[$£€¥₹₩%‰&@+=×÷±≈≤≥≠°§][.,!?;:]?")
# An amount whose number a program has written in words, with the commas and points that it left.
_AMOUNT_IN_WORDS = re.compile(
    rf"(?P<sign>[$£€¥₹₩])\s?(?P<words>{NUMBER_WORD}(?:(?:[\s-]|\s?[,.]\s|\s(?:and|point)\s){NUMBER_WORD})*)"
)
# Chinese characters in an English sentence, with the numbers beside them: "restart 3次".
_HAN_RUN = re.compile(
    r"(?<![A-Za-z\d.,:/#-])(?:[$¥]?\d{1,9}(?:[.,:/~-]\d{1,9}){0,3}%?)?[\u4e00-\u9fff]"
    r"(?:[\u4e00-\u9fff，、：（）]|\d{1,9}(?:[.,:/~-]\d{1,9}){0,3}%?(?![A-Za-z\d.-]))*|[\u4e00-\u9fff]+"
)
_PROBE = "1 test. 测试2。"


@dataclass(frozen=True)
class ReadText:
    """A text in the model's characters.

    Attributes:
        lines: without empty ones.
        left_out: the letters and digits that the voice does not know, each once, in order; behind
            them the symbols that no reader said.
    """

    lines: list[str]
    left_out: tuple[str, ...]


class Normalizer:
    """Turns texts into the form that the model reads. Threads may share one.

    Args:
        homophones: replacements of characters, for voices that were trained with them.
        characters: those beyond the published set that the voice knows, such as "'?"; kept where
            ``do_text_normalization`` is on.
        known_tags: the model's control tags; others are removed. None keeps every tag.
        language: a built-in one, for texts that show none.
        knows: returns whether the voice knows a character of the published set; ``None`` means all.
        reads_phonemes: whether the voice reads phonemes, so that placeholders of them stay.
        registered: functions to begin with, such as those of another normalizer.
    """

    def __init__(
        self,
        homophones: Mapping[str, str] | None = None,
        characters: str = "",
        known_tags: Collection[str] | None = None,
        language: str | None = None,
        knows: Callable[[str], bool] | None = None,
        registered: Mapping[str, TextFunction] | None = None,
        reads_phonemes: bool = False,
    ) -> None:
        self.reads_phonemes = reads_phonemes
        self._homophones = dict(homophones or {})
        self._placeholders = PLACEHOLDERS if reads_phonemes else ""
        own = "".join(char for char in characters if char not in "[]\r\n")
        self._characters = own + self._placeholders
        self._known_tags = None if known_tags is None else frozenset(known_tags)
        self._language = language if language in LANGUAGES else "en"
        self._knows = knows
        self._lock = new_lock()
        self._registered: Mapping[str, TextFunction] = dict(registered or {})

    @property
    def normalizers(self) -> dict[str, TextFunction]:
        """The registered functions, by name."""
        return dict(self._registered)

    def register(self, name: str, normalizer: TextFunction) -> bool:
        """Let ``normalizer`` read the texts of language ``name`` instead of the built-in one.

        It gets plain text, never a control tag or a word whose pronunciation is given. A function
        for a name that no built-in language has reads the texts for which ``lang`` is that name.

        Returns:
            False, with a warning, where a function has the name already (:meth:`unregister` it
            first), or where ``normalizer`` does not turn a text into a text.
        """
        try:
            answer = normalizer(_PROBE)
        except Exception as error:  # a registered function may raise anything
            logger.warning("normalizer %r refused: it failed on %r: %r", name, _PROBE, error)
            return False
        if not isinstance(answer, str):
            kind = type(answer).__name__
            logger.warning("normalizer %r refused: it must return text, not %s", name, kind)
            return False
        with self._lock:
            if name in self._registered:
                logger.warning("normalizer %r refused: another one is registered", name)
                return False
            self._registered = {**self._registered, name: normalizer}
        return True

    def unregister(self, name: str) -> None:
        """Return to the built-in reading of language ``name``, if there is one."""
        with self._lock:
            self._registered = {key: fn for key, fn in self._registered.items() if key != name}

    def destroy(self) -> None:
        """Forget the registered functions and the table of homophones."""
        with self._lock:
            self._registered, self._homophones = {}, {}

    def __call__(
        self,
        text: str,
        do_text_normalization: bool = True,
        do_homophone_replacement: bool = True,
        lang: str | None = None,
    ) -> str:
        """Return ``text`` in the model's characters, on one line, with its control tags unchanged.

        Without ``do_text_normalization`` only the published rule applies. Where ``lang`` is no
        known language, it is detected for each sentence.

        Raises:
            TextError: a registered function failed.
        """
        if do_text_normalization:
            return join_lines(self.lines(text, do_homophone_replacement, lang))
        text = published_characters(text, self._placeholders)
        return replace_homophones(text, self._homophones) if do_homophone_replacement else text

    @property
    def languages(self) -> tuple[str, ...]:
        """The built-in languages whose letters the voice knows."""
        knows = self._knows
        return tuple(
            each.code for each in LANGUAGES.values() if knows is None or knows(each.letter)
        )

    def lines(
        self, text: str, do_homophone_replacement: bool = True, lang: str | None = None
    ) -> list[str]:
        """Return the normalized lines of ``text`` without empty ones; warn of lost letters."""
        read = self.read(text, do_homophone_replacement, lang)
        warn_of_lost_letters(read.left_out)
        return read.lines

    def read_published(self, text: str, do_homophone_replacement: bool = True) -> ReadText:
        """Apply the published rule, and leave out what the voice does not know, on one line.

        For a voice that reads phonemes, the numbers that are left are read out first.
        """
        if self.reads_phonemes:
            text = self._with_numbers_read(text)
        plain = self(text, False, do_homophone_replacement)
        unknown = self._unknown(plain)
        kept = self._placeholders
        left_out = dict.fromkeys(lost_letters(text, kept) + lost_letters(plain, kept, unknown))
        if unknown:
            plain = map_plain(plain, lambda piece: piece.translate(unknown))
        return ReadText([plain] if plain else [], tuple(left_out))

    def read(
        self, text: str, do_homophone_replacement: bool = True, lang: str | None = None
    ) -> ReadText:
        """Normalize ``text``; lost letters are returned, without a warning."""
        lang = self._language_named(lang)
        text = _WRAPPED.sub(r"\1 ", "\n".join(text.splitlines()))
        text = strip_markup(text, self._known_tags)
        if self._known_tags is not None:
            text = drop_unknown(text, self._known_tags)
        text = map_plain(text, self._folded)
        default = language_of(text) or self._language
        spoken = [self._line(line, lang, default) for line in text.split("\n")]
        if do_homophone_replacement:
            spoken = [replace_homophones(line, self._homophones) for line in spoken]
        whole = "".join(spoken)
        unknown = self._unknown(whole)
        spoken = [self._in_known_characters(line, unknown) for line in spoken]
        left_out = lost_letters(whole, self._characters, unknown) + lost_symbols(
            whole, self._characters
        )
        return ReadText([line for line in spoken if line], left_out)

    def _with_numbers_read(self, text: str) -> str:
        """Return ``text`` with the built-in reading of each word that has a digit.

        In English texts, signs that stand alone are read out as well.
        """
        default = language_of(text) or self._language
        if default == "en":
            text = map_plain(text, lambda plain: _AMOUNT_IN_WORDS.sub(_sign_behind, plain))

        def said(found: re.Match[str]) -> str:
            is_sign = default == "en" and _SIGN.fullmatch(found[0])
            if not is_sign and not _DIGIT.search(found[0]):
                return found[0]
            word = self._folded(found[0])
            words = _BUILT_IN[language_of(word) or default](word)
            return tidy(inner_marks(words, self._characters))

        return map_plain(text, lambda plain: _COUNTED.sub(said, plain))

    def _unknown(self, text: str) -> dict[int, str]:
        knows = self._knows
        if knows is None:
            return {}
        return unknown_characters(text, lambda char: char in self._placeholders or knows(char))

    def _folded(self, text: str) -> str:
        return fold(mark_powers(text), self._characters)

    def _language_named(self, lang: str | None) -> str | None:
        """Return the language that ``lang`` means, in any of the spellings that scripts use."""
        if lang in self._registered:
            return lang
        known = spelled_language(lang)
        if known is None and not is_no_language(lang):
            logger.warning("lang=%r is not known: the language is found from the text", lang)
        return known

    def _line(self, line: str, lang: str | None, default: str) -> str:
        """Read a line, with adjacent sentences of one language together.

        A sentence that shows no language, such as a number, has that of the sentence before it.
        Behind a Chinese one, so have names and formulas of which no word is English prose.
        """
        sentences: list[tuple[str, str]] = []
        for sentence in split_sentences(line):
            shown = lang or language_of(sentence) or default
            if lang or not (sentences and default == "zh") or is_prose(sentence):
                default = shown
            sentences.append((default, sentence))
        runs = groupby(sentences, key=itemgetter(0))
        return "".join(self._read("".join(part for _, part in run), name) for name, run in runs)

    def _read(self, text: str, language: str) -> str:
        def read(plain: str) -> str:
            core = plain.strip()
            if not core:
                return plain
            words = inner_marks(self._words(core, language).strip(), self._characters)
            return plain.replace(core, full_width(words) if language == "zh" else words)

        return map_plain(text, read)

    def _words(self, text: str, language: str) -> str:
        registered = self._registered.get(language)
        if registered is None:
            if language == "en":
                text = _HAN_RUN.sub(lambda run: read_chinese(run[0]), text)
            return _BUILT_IN[language](text)
        try:
            words = fold(map_between(text, registered), self._characters)
        except Exception as error:  # a registered function may raise anything
            raise TextError(
                f"the registered normalizer {language!r} failed on {text[:40]!r}: {error!r}"
            ) from error
        if language == "zh":
            return re.sub(r"\d+", lambda match: chinese_number(match[0]), words)
        return re.sub(r"\d+", lambda match: f" {english_number(match[0])} ", words)

    def _in_known_characters(self, text: str, unknown: dict[int, str]) -> str:
        def known(plain: str) -> str:
            return allowed_characters(plain.translate(unknown), self._characters)

        return tidy(map_plain(text, known))


def _sign_behind(amount: re.Match[str]) -> str:
    """Return an amount in words with its sign where English says it: five $."""
    is_one = amount["words"] == "one"
    return f"{amount['sign']}1" if is_one else f"{amount['words']} {amount['sign']}"
