"""Griffe extension: rewrite this project's docstrings for Griffe's Google parser."""

from __future__ import annotations

import re

import griffe

# References of Sphinx: :meth:`infer`, :class:`~ChatTTS.core.Chat`.
_ROLE = re.compile(r":(?:func|meth|class|mod|attr):`(?P<last>~?)\.?(?P<target>[\w.]+)`")
# Several arguments with one description, on as many lines as their names need.
_NAMES = re.compile(r"^(?P<indent> +)(?P<names>\w+(?:,\s+\w+)+):(?= )", re.MULTILINE)


class ProjectDocstrings(griffe.Extension):
    """Rewrite the docstrings of every object before they are read."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: object) -> None:
        """Rewrite one docstring."""
        if obj.docstring is not None:
            text = _ROLE.sub(_code, obj.docstring.value)
            obj.docstring.value = _NAMES.sub(_one_line, text)


def _code(match: re.Match[str]) -> str:
    target = match["target"]
    return f"`{target.rsplit('.', 1)[-1] if match['last'] else target}`"


def _one_line(match: re.Match[str]) -> str:
    return f"{match['indent']}{', '.join(match['names'].replace(',', ' ').split())}:"
