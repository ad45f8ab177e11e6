"""From a written text to what a voice can speak: the readings of its language, then characters."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from itertools import groupby
from operator import itemgetter

from ..errors import TextError
from ..utils.locks import new_lock
from .characters import (
    allowed_characters,
    fold,
    full_width,
    inner_marks,
    language_of,
    name_lost_letters,
    published_characters,
    replace_homophones,
    unknown_characters,
)
from .chinese import read_chinese
from .english import read_english
from .markup import strip_markup
from .numbers import chinese_number, english_number
from .punctuation import join_lines, tidy
from .splitter import split_sentences
from .tags import drop_unknown, map_plain
from .wetext_reader import WeText

logger = logging.getLogger(__name__)

TextFunction = Callable[[str], str]

LANGUAGES = ("en", "zh")
# A line end in mid-sentence, of a text that was wrapped to some width; markdown's lines are none.
_WRAPPED = re.compile(r"^([ \t]*\w[^\n]{30,}[a-z,])[ \t]*\n(?=[ \t]*[a-z])", re.MULTILINE)
_SPELLINGS = {
    "en": "en",
    "eng": "en",
    "english": "en",
    "zh": "zh",
    "zho": "zh",
    "cn": "zh",
    "chinese": "zh",
}
_PROBE = "1 test. 测试2。"


class Normalizer:
    """Text as the model wants it. Threads may share one.

    Args:
        homophones: what to say for a character, for voices that were trained so.
        characters: those beyond the published set that the voice knows ("'?", say); kept where
            ``do_text_normalization`` is on.
        known_tags: the model's control tags; others are left out. None keeps every tag.
        language: "en" or "zh", for texts in which neither language can be seen.
        knows: whether the voice knows a character of the published set; ``None`` knows all.
    """

    def __init__(
        self,
        homophones: Mapping[str, str] | None = None,
        characters: str = "",
        known_tags: Collection[str] | None = None,
        language: str | None = None,
        knows: Callable[[str], bool] | None = None,
    ) -> None:
        self._homophones = dict(homophones or {})
        self._characters = "".join(char for char in characters if char not in "[]\r\n")
        self._known_tags = None if known_tags is None else frozenset(known_tags)
        self._language = language if language in LANGUAGES else "en"
        self._knows = knows
        self._lock = new_lock()
        self._registered: Mapping[str, TextFunction] = {}
        grammars = WeText()
        self._built_in: Mapping[str, TextFunction] = {
            "en": partial(read_english, ask=partial(grammars.read, language="en")),
            "zh": partial(read_chinese, ask=partial(grammars.read, language="zh")),
        }

    def adapted(
        self,
        *,
        homophones: Mapping[str, str] | None = None,
        characters: str = "",
        known_tags: Collection[str] | None = None,
        language: str | None = None,
        knows: Callable[[str], bool] | None = None,
    ) -> Normalizer:
        """A normalizer for another voice, with the functions that are registered here."""
        other = Normalizer(homophones, characters, known_tags, language, knows)
        other._registered = self._registered
        return other

    @property
    def normalizers(self) -> dict[str, TextFunction]:
        """The functions that are registered, by their names."""
        return dict(self._registered)

    def register(self, name: str, normalizer: TextFunction) -> bool:
        """Let ``normalizer`` read the texts of language ``name`` instead of the built-in.

        It gets plain text, never a control tag. A function for another name than "en" and "zh"
        reads the texts for which ``lang`` is that name. Returns False, with a line in the log,
        where a function has the name already (:meth:`unregister` it first), and for one that does
        not turn a text into a text.
        """
        try:
            answer = normalizer(_PROBE)
        except Exception as error:  # whatever a stranger's function raises
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
        """Go back to the built-in reading of language ``name``, if it has one."""
        with self._lock:
            self._registered = {key: fn for key, fn in self._registered.items() if key != name}

    def __call__(
        self,
        text: str,
        do_text_normalization: bool = True,
        do_homophone_replacement: bool = True,
        lang: str | None = None,
    ) -> str:
        """``text`` in the model's characters, its control tags as they are, on one line.

        Without ``do_text_normalization`` the published rule alone applies. Where ``lang`` names no
        language that is known, each sentence shows its own.

        Raises:
            TextError: a registered function failed.
        """
        if do_text_normalization:
            return join_lines(self.lines(text, do_homophone_replacement, lang))
        text = published_characters(text)
        return replace_homophones(text, self._homophones) if do_homophone_replacement else text

    def lines(
        self, text: str, do_homophone_replacement: bool = True, lang: str | None = None
    ) -> list[str]:
        """The lines of ``text``, each normalised; those with nothing in them are left out."""
        lang = self._language_named(lang)
        text = _WRAPPED.sub(r"\1 ", "\n".join(text.splitlines()))
        text = strip_markup(text, self._known_tags)
        if self._known_tags is not None:
            text = drop_unknown(text, self._known_tags)
        text = map_plain(text, partial(fold, kept=self._characters))
        default = language_of(text) or self._language
        spoken = [self._line(line, lang, default) for line in text.split("\n")]
        if do_homophone_replacement:
            spoken = [replace_homophones(line, self._homophones) for line in spoken]
        whole = "".join(spoken)
        unknown = unknown_characters(whole, self._knows) if self._knows is not None else {}
        name_lost_letters(whole, self._characters, unknown)
        spoken = [self._in_known_characters(line, unknown) for line in spoken]
        return [line for line in spoken if line]

    def _language_named(self, lang: str | None) -> str | None:
        """The language that ``lang`` means, in any of the spellings that scripts have for it."""
        if lang in self._registered:
            return lang
        name = str(lang or "auto").strip().casefold()
        known = _SPELLINGS.get(re.split("[-_]", name)[0])
        if known is None and name not in ("auto", "none", ""):
            logger.warning("lang=%r is not known: the language is found from the text", lang)
        return known

    def _line(self, line: str, lang: str | None, default: str) -> str:
        """Read a line out, neighbouring sentences of one language together.

        A sentence that shows no language (a number, say) has that of the one before it.
        """
        sentences: list[tuple[str, str]] = []
        for sentence in split_sentences(line):
            default = lang or language_of(sentence) or default
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
            return self._built_in[language](text)
        try:
            words = fold(registered(text), self._characters)
        except Exception as error:  # whatever a stranger's function raises
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
