"""Parts of programs in Chinese sentences: ~/.bashrc, kill -9, List<String>, a->b, i**2, $HOME."""

from __future__ import annotations

from ..spans import span
from .numbers import numbers_said

_SIGNS = (("~", "波浪号"), ("/", "斜杠"), (".", "点"), ("<", " "))


def _with_signs(written: str) -> str:
    for sign, word in _SIGNS:
        written = written.replace(sign, word)
    return numbers_said(written)


# Before addresses, whose names may be the last part of a path.
PATHS = (
    span(
        "paths of files",
        r"(?a)(?:(?<![\w)/.~\u4e00-\u9fff])|(?<=[\u4e00-\u9fff])(?=[~.]|/[\w.-]{1,30}/))"
        r"(?:~|\.{1,2})?/[A-Za-z_.][\w.-]{0,30}(?:/[\w.-]{1,30}){0,9}(?<!\.)(?![\w/])",
        lambda match: _with_signs(match[0]),
    ),
)
PROGRAMS = (
    span(
        "types and tags",
        r"(?a)(?:(?<=[A-Za-z_]{2})|(?<![\w)]))<(?P<inside>/?[A-Za-z][\w ,:.*&?<-]{0,40})>{1,3}",
        lambda match: f" {_with_signs(match['inside'])} ",
    ),
    span(
        "options of a program",
        r"(?<=\w )-{1,2}(?=[A-Za-z])|-{1,2}(?=[A-Za-z]{1,20}\s?(?:选项|参数))"
        r"|(?<=[a-z]{2} )-(?=\d{1,4}(?![\d.%℃°A-Za-z]|\s(?:[^A-Za-z\d./-]|$)))",
        "杠",
        without_digits=True,
    ),
    span("commits before a name", r"(?<=[A-Z]{3})~(?=\d)", "波浪号"),
    span("names of variables", r"\$(?=[A-Za-z_{])", ""),
    span("arrows of programs", r"(?a)(?<=[\w)])(?:->|\s?=>)(?=[\w(])", "箭头"),
    span("arrows", r"\s?[-=]>\s?(?=[^\s\d])", "到", without_digits=True),
    span("shifts to the right", r"\s?>>\s?(?=[\w(])", "右移"),
    span("remainders", r"(?<=[A-Za-z)])(?:%|\s%\s)(?=\d)", "模"),
    span("both", r"\s?&&\s?", "并且"),
    span("either", r"\s?\|\|\s?", "或者", without_digits=True),
)
