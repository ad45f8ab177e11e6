"""Griffe extension: docstrings for Griffe's Google parser, and the arguments of options."""

from __future__ import annotations

import re

import griffe

# References of Sphinx: :meth:`infer`, :class:`~ChatTTS.core.Chat`.
_ROLE = re.compile(r":(?:func|meth|class|mod|attr):`(?P<last>~?)\.?(?P<target>[\w.]+)`")
# Several arguments with one description, on as many lines as their names need.
_NAMES = re.compile(r"^(?P<indent> +)(?P<names>\w+(?:,\s+\w+)+):(?= )", re.MULTILINE)


class ProjectDocstrings(griffe.Extension):
    """Rewrite the docstrings of every object for the Google parser, before they are read."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: object) -> None:
        """Rewrite one docstring."""
        if obj.docstring is not None:
            text = _ROLE.sub(_code, obj.docstring.value)
            obj.docstring.value = _NAMES.sub(_one_line, text)

    def on_package(self, *, pkg: griffe.Module, **kwargs: object) -> None:
        """Show the arguments of a method that takes options: they are the fields of these."""
        for method in pkg["core.Chat"].functions.values():
            if any(each.callable_path.endswith(".takes") for each in method.decorators):
                name = method.parameters["asked"].annotation.canonical_path
                options = pkg[name.removeprefix("ChatTTS.")]
                fixed = {name for name, own in options.members.items() if _is_fixed(own)}
                given = [each for each in options.parameters if each.name not in fixed]
                for each in given:
                    if isinstance(each.default, griffe.ExprCall):  # the description of a field
                        each.default = each.default.arguments[0]
                method.parameters = griffe.Parameters(*given)


def _is_fixed(member: griffe.Object) -> bool:
    return member.is_attribute and "init=False" in str(member.value)


def _code(match: re.Match[str]) -> str:
    target = match["target"]
    return f"`{target.rsplit('.', 1)[-1] if match['last'] else target}`"


def _one_line(match: re.Match[str]) -> str:
    return f"{match['indent']}{', '.join(match['names'].replace(',', ' ').split())}:"
