"""Parts of laws, figures of documents, cases before courts: "Art. 6(1)(f)", "Figure 2-4"."""

from __future__ import annotations

import re

from ..number_words import english_digits, english_number, english_ordinal, english_year
from ..readers import either
from ..spans import span
from .abbreviations import ends_sentence
from .codes import say_in_pairs

_ROMAN = {"ii": "2", "iii": "3", "iv": "4", "vi": "6", "vii": "7", "viii": "8", "ix": "9"}
_NOUNS = {"Sec": "section", "Secs": "sections", "Art": "article", "Arts": "articles"}
_PARTS = re.compile(
    rf"(?:\b(?P<noun>{either(_NOUNS)})\.\s?)?"
    r"(?<![\w$+])(?<!\d[.-])(?!40[13]\([bk]\))(?P<number>\d{1,4})(?P<letter>[A-Za-z]?)"
    r"(?P<parts>(?:\((?:[A-Za-z]{1,2}|[ivx]{1,5}|\d{1,3})\)){1,6})(?![\w(]|-\d)"
)
_INDEX = re.compile(
    r"\b(?P<noun>(?i:figure|table|exhibit|diagram|chart|example|equation|plate)|[Ff]ig\.)\s"
    r"(?P<first>\d{1,3})-(?P<second>\d{1,3})(?![\w-]|\.\d)"
)
# Collections of decisions and of rules: the series may follow.
_REPORTERS = {
    "F.": "F", "F.Supp.": "F supplement", "S.Ct.": "Supreme Court", "L.Ed.": "Lawyers Edition",
    "Fed.Reg.": "Federal Register", "P.": "P", "A.": "A", "So.": "Southern", "N.E.": "N E",
    "N.W.": "N W", "S.E.": "S E", "S.W.": "S W", "Cal.App.": "California Appeals",
}  # fmt: skip
_REPORTER = either(_REPORTERS).replace("\\.", r"\.\s?").replace(r"\s?|", "|").removesuffix(r"\s?")
# Behind these, "118-2" is no range.
_FILED = (
    r"\b(?:Dkt|Doc|ECF|Exh?|Case|File|Part|Form|Rule|Item|No|Docket|Model)\.?\s(?:[Nn]o\.?\s)?\d+\Z"
)
_RULES = {"Civ": "Civil Procedure", "Crim": "Criminal Procedure", "App": "Appellate Procedure"}


def _say_parts(match: re.Match[str]) -> str | None:
    """Return "six one f" for 6(1)(f); a plural in brackets, "5(s)", is none."""
    parts = re.findall(r"\w+", match["parts"])
    if parts == ["s"]:
        return None
    noun, letter = _NOUNS.get(match["noun"] or "", ""), match["letter"]
    said = [noun, english_number(match["number"]), letter, *map(_say_part, parts)]
    return " ".join(filter(None, said))


def _say_part(part: str) -> str:
    part = _ROMAN.get(part, part)
    return english_number(part) if part.isdigit() else " ".join(part)


def _say_index(match: re.Match[str]) -> str:
    noun = "figure" if match["noun"].endswith(".") else match["noun"]
    return f"{noun} {english_number(match['first'])} dash {english_number(match['second'])}"


def _say_section(match: re.Match[str]) -> str:
    first, second = (say_in_pairs(match[n]) if match[n].isdigit() else match[n] for n in (1, 2))
    parts = map(_say_part, re.findall(r"\w+", match["parts"]))
    return " ".join([first, "dash", second, *parts])


def _say_docket(match: re.Match[str]) -> str:
    first, second = match.groups()
    last = english_digits(second) if len(second) > 4 else say_in_pairs(second.lstrip("0") or "0")
    return f"number {say_in_pairs(first)} dash {last}"


def _say_versus(match: re.Match[str]) -> str | None:
    """Return "versus" for the v of "Roe v. Wade"; that of "let us name it v. Then" is none."""
    stop = match.end() - 1
    return None if ends_sentence(match.string, stop, match.end()) else "versus"


def _say_case(match: re.Match[str]) -> str:
    """Return "three eighteen c v seven eight six L" for 3:18-cv-786-L."""
    return " ".join(
        english_number(piece) if piece.isdigit() else " ".join(piece)
        for piece in re.findall(r"\d+|[A-Za-z]+", match[0])
    )


REFERENCES = (
    span("parts of a file", r"(?<=\d{3})-(?=\d{1,2}(?![\w-]|\.\d))", " dash ", behind=_FILED),
    span(
        "cases before a court",
        r"(?i)(?<![\w:-])(?:\d{1,2}:)?\d{2}-(?:cv|cr|mc|md|mj|bk|ap|civ|crim)-\d{2,6}"
        r"(?:-[A-Z]{1,5}){0,4}(?![\w-])",
        _say_case,
    ),
    span(
        "standards",
        r"\b(ISO(?:/IEC)?|IEC|EN|DIN|BS) (\d{3,5})(?:-(\d{1,2}))?:((?:19|20)\d\d)\b",
        lambda match: (
            f"{match[1].replace('/', ' ')} {say_in_pairs(match[2])}"
            f"{f' dash {english_number(match[3])}' if match[3] else ''}, {english_year(match[4])}"
        ),
    ),
    span(
        "parts of figures",
        r"(?<![\w.-])(\d{1,3})([A-Z])[-–]([A-Z])(?![\w-])",
        lambda match: f"{english_number(match[1])} {match[2]} to {match[3]}",
    ),
    span("parts of laws", _PARTS, _say_parts),
    span("figures and tables", _INDEX, _say_index),
    span(
        "reporters",
        rf"(?<=\d )({_REPORTER})(?:\s?([2-5])(?:d|th))?(?=\s\d)",
        lambda match: (
            _REPORTERS[match[1].replace(" ", "")]
            + (f" {english_ordinal(match[2])}" if match[2] else "")
        ),
    ),
    span("dockets", r"\b[Nn]o\.\s(\d{1,4})-(\d{1,6})(?![\w-])", _say_docket),
    span(
        "sections with a hyphen",
        r"(?<=(?<!§)§ )(\d{1,4}[A-Za-z]?)-(\d{1,4})(?P<parts>(?:\(\w{1,4}\)){0,6})(?![\w-])",
        _say_section,
    ),
    span(
        "sections with a point",
        r"(?<=§ )(\d{1,4})\.(\d{2,4})(?![\w.]*\d)",
        lambda match: f"{say_in_pairs(match[1])} point {say_in_pairs(match[2].lstrip('0') or '0')}",
    ),
    span("paragraphs", r"¶¶\s?", "paragraphs "),
    span("a paragraph", r"¶\s?(?=\d)", "paragraph "),
    span("sections", r"§§\s?", "sections "),
    span(
        "rules of courts",
        r"\bFed\. ?R\. ?(Civ|Crim|App)\. ?P\.(?=\s\d)",
        lambda match: f"Federal Rule of {_RULES[match[1]]}",
    ),
    span("rules of evidence", r"\bFed\. ?R\. ?Evid\.(?=\s\d)", "Federal Rule of Evidence"),
    span("parties", r"(?<=[\w.'’] )v\.(?= [A-Z])", _say_versus),
)
