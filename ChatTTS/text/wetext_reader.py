"""The grammars of ``wetext``, loaded at first use and shared by threads."""

from __future__ import annotations

import logging
from typing import Protocol

from ..utils.locks import new_lock

logger = logging.getLogger(__name__)


class _Grammar(Protocol):
    def normalize(self, text: str) -> str: ...


class WeText:
    """Reads numbers in context ("2024-05-03", "3:30", "21st") by the grammars of ``wetext``."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._grammars: dict[str, _Grammar] = {}
        self._missing = False

    def read(self, text: str, language: str) -> str | None:
        """Return the words of ``text``; None where the grammar fails or is not installed."""
        with self._lock:
            grammar = self._grammar(language)
            if grammar is None:
                return None
            try:
                return grammar.normalize(text)
            except Exception as error:  # it asserts on texts that its grammar does not cover
                logger.debug("wetext cannot read %r: %r", text, error)
                return None

    def _grammar(self, language: str) -> _Grammar | None:
        if language not in self._grammars and not self._missing:
            try:
                from wetext import Normalizer
            except ImportError as error:
                self._missing = True
                logger.warning(
                    "wetext cannot be imported (%s); dates, times and the like are read number by "
                    "number. For better reading: pip install wetext",
                    error,
                )
            else:
                self._grammars[language] = Normalizer(lang=language, operator="tn")
        return self._grammars.get(language)
