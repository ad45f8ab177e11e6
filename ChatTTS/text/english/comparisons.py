"""Signs of comparison before an amount, of whatever kind: "~$40", ">5", "<4 °F", "x < y"."""

from __future__ import annotations

import re

from ..spans import SpanClass, fixed

# The amount itself is read by its own class.
_AMOUNT = r"(?=\s?[-+−±]?(?:[A-Z]{0,3}[$€£¥₹₩₽₺])?\s?\.?\d)"
_UNKNOWN = r"(?<=\b[a-z0-9])"


def _over(match: re.Match[str]) -> str:
    return f"{match[1]} over {match[2]}"


COMPARISONS = (
    SpanClass("about", re.compile(rf"(?<![\w)\]/~])[~≈]{_AMOUNT}"), fixed("about ")),
    SpanClass(
        "quotients",
        re.compile(r"(?<![\w/])(?<=[\s(=])([xyzuvkq])/(?!\1)([xyzuvkq])(?![\w/])"),
        _over,
    ),
    SpanClass(
        "less than",
        re.compile(rf"(?<=\s)<(?=\s)|{_UNKNOWN}<(?=[a-z0-9]\b)|(?<!<)<{_AMOUNT}"),
        fixed(" less than "),
    ),
    SpanClass(
        "more than",
        re.compile(rf"(?<=\s)>(?=\s)|{_UNKNOWN}>(?=[a-z0-9]\b)|(?<![-=<>])>{_AMOUNT}"),
        fixed(" more than "),
    ),
)
