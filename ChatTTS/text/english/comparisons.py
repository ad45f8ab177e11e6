"""Signs of comparison before an amount, of whatever kind: "~$40", ">5", "<4 °F", "x < y"."""

from __future__ import annotations

import re

from ..spans import span

# The amount itself is read by its own class.
_AMOUNT = r"(?=\s?[-+−±]?(?:[A-Z]{0,3}[$€£¥₹₩₽₺])?\s?\.?\d)"
# "sum(w)" and "x", but not "some (or all)".
_TERM = re.compile(
    r"(?:\w\([^()\n]{0,32}\)|\^\w|[a-z]\.[a-z_]{2,20}|(?<![\w.'’-])(?:[b-zB-HJ-Z]|\d{1,3}[knxyz]))\Z"
)
_UNKNOWN = r"(?<=\b[a-z0-9])"


COMPARISONS = (
    span("factorials", r"!(?:(?<=\b[nkmr]!)(?!\S)|(?<=[0-9]!)(?=\s?[=+*/<>)-]))", " factorial"),
    span("about", rf"(?<![\w)\]/~])[~≈]{_AMOUNT}", "about "),
    span(
        "differences",
        r"(?<=(?<![\w-])[ijnxyz])-(?=\d{1,3}(?![\w-]))|(?<=\d)-(?=\d{1,3}/[a-z]\b)|"
        r"(?:(?<=[=<>(])|(?<=[=<>] ))-(?=[a-z]\b)",
        " minus ",
        without_digits=True,
    ),
    span("terms less something", r" [-−] (?=\d|[a-z]\b(?!['’]))", " minus ", True, _TERM),
    # The bracket behind what it is applied to stays.
    span(
        "functions",
        r"\b([OΘΩ])\((?=[\w√])|\b([fgh])(['′]{0,2})\((?=[a-z]\))",
        lambda match: f"{match[1] or match[2]}{' prime' * len(match[3] or '')} of ",
    ),
    span(
        "statistics",
        r"\b([FtrZ])\((?=\d{1,3}(?:, ?\d{1,4})?\)\s?[=<>])",
        lambda match: f"{match[1]} of ",
    ),
    span(
        "remainders",
        r"(?:(?<=\b[A-Za-z])|(?<=[)\]])) % (?=[\w(])|(?<=[A-Za-z]) % (?=\d)",
        " modulo ",
        without_digits=True,
    ),
    span(
        "arrows",
        r"(?<=\d)\s?-{1,2}>\s?(?=[\d.$€£-])|(?<=\d[A-Za-z%])-{1,2}>(?=\d)|(?<=\S)\s-{1,2}>\s(?=\S)",
        " to ",
        without_digits=True,
    ),
    span(
        "quotients of unknowns",
        r"(?<![\w/])(?<=[\s(=-])(\d{1,3}|[xyzuvkq])/(?!\1)([xyzuvkq])(?![\w/])",
        r"\1 over \2",
        without_digits=True,
    ),
    span(
        "less than",
        rf"(?<=\s)<(?=\s)|{_UNKNOWN}<(?=[a-z0-9]\b)|(?<!<)<{_AMOUNT}",
        " less than ",
        without_digits=True,
    ),
    span(
        "more than",
        rf"(?<=\s)>(?=\s)|{_UNKNOWN}>(?=[a-z0-9]\b)|(?<![-=<>])>{_AMOUNT}",
        " more than ",
        without_digits=True,
    ),
)
