"""Numbers that are names rather than amounts, in English: codes, addresses, rooms, flights."""

from __future__ import annotations

import re

from ..number_words import english_digits, english_number, english_ordinal, english_year
from ..spans import before, span

# What a number of three digits or more is said digit by digit behind, and what in pairs.
_NAMED = re.compile(
    r"\b(?:(?:ending in|(?:[Zz]ip|[Aa]rea|[Aa]ccess|[Cc]ountry|PIN|pin|OTP|CVV|otp)"
    r"(?: code)?(?: is| of|:)?|[Cc]ode(?: is| of|:)?|a/c(?: no\.?)?)\s|(?:[Oo]rder|[Ii]nvoice|"
    r"[Tt]icket|[Aa]ccount|[Tt]racking|[Cc]onfirmation)\s(?:number\s|[Nn]o\.\s|#\s?)(?:is\s)?)\Z"
)
# Five digits without a comma are no amount behind these; "order 82324 units" is one.
_FILED = re.compile(
    r"(?i:\b(?:zip|order|invoice|ticket|account|case|claim|permit|part|item|policy|serial|badge|"
    r"model|ref(?:erence)?|tracking|confirmation|code|sku|po))(?:[:.]|\scode)?\s\Z"
)
_PLACES = re.compile(
    r"\b(?:Boeing|Airbus|[Ff]light|[Rr]oute|Highway|Interstate|[Rr]oom|Suite|Gate|Apartment|Building|"
    r"Exit|Bus|Line|(?:Flt|Rte?|Rm)\.?)\s\Z"
)
# In any case, since titles are often set in capitals.
_COUNTED = re.compile(
    r"\b(?:chapter|episode|part|season|lesson|unit|day|week|level|step|track|volume|scene|act|book|"
    r"section|page|stage|phase|verse|slide|figure|appendix|round|disc|(?:ch|ep|pt|vol|fig|sec)\.)\s\Z",
    re.IGNORECASE,
)

_COUNTED_NEXT = re.compile(r"\s(?!is\b|was\b|has\b|ships\b)[a-z]{2,20}s\b")
# Of two letters that are no word and measure nothing: "LW 1031" is a flight, "BY 1031" none.
_CARRIER = (
    r"(?<=\b(?!OK|US|UK|EU|UN|BY|OF|TO|IN|AT|ON|OR|IS|AS|AM|PM|NO|SO|WE|DO|GO|IF|MY|UP|IT|AN|HE|ME|BE)"
    r"[A-Z]{2} )"
)


def spelled(code: str) -> str:
    """Return a code sign by sign: "4c7" is "four c seven"."""
    return " ".join(english_digits(sign) if sign.isdigit() else sign for sign in code)


def say_in_pairs(number: str) -> str:
    """Return a number as it names things: "747" is seven forty seven, "5600" fifty six hundred."""
    first, rest = number[:-2], number[-2:]
    if not first or (first[-1] == "0" == rest[0] and first[1:]) or (rest == "00" and not first[1:]):
        return english_number(number)
    if rest == "00":
        return f"{english_number(first)} hundred"
    said = f"o {english_number(rest[1])}" if rest[0] == "0" else english_number(rest)
    return f"{english_number(first)} {said}"


def _named(match: re.Match[str]) -> str | None:
    """Return a number as the words before it show that it is a name."""
    number, sign = match["number"], match["sign"] or ""
    words, part = before(match) + sign, match["part"]
    if _NAMED.search(words) and len(number) > 2 and not part:
        return f"{'number ' if sign else ''}{english_digits(number)}"
    if sign and len(number) > 5 and not part:
        return f"number {english_digits(number)}"
    if (
        len(number) > 4
        and _FILED.search(words)
        and not _COUNTED_NEXT.match(match.string, match.end())
    ):
        return english_digits(number) + (f", {english_digits(part)}" if part else "")
    if _PLACES.search(words) and len(number) == 3 and number[0] != "0":
        return say_in_pairs(number) + (f" {english_number(part)}" if part else "")
    bare = number.lstrip("0")
    is_counted = bare not in ("", number) and not part and _COUNTED.search(words)
    return english_number(bare) if is_counted else None


def _model(match: re.Match[str]) -> str:
    """Return "DDR5-5600" with its second number in pairs."""
    number = match[2]
    if len(number) > 4:
        return f"{match[1]} {english_digits(number)}"
    return f"{match[1]} {say_in_pairs(number) if len(number) > 2 else number}"


CODES = (
    span(
        "flaws of programs",
        r"\bCVE-(\d{4})-(\d+)\b",
        lambda match: f"C V E {english_year(match[1])}, {english_digits(match[2])}",
    ),
    span(
        "hexadecimal numbers",
        r"\b0[xX]([\dA-Fa-f]{1,32})\b",
        lambda match: f"zero x {spelled(match[1].upper())}",
    ),
    span(
        "names of commits",
        r"(?<![\w-])(?<!\w\.)(?=[0-9a-f]{0,39}[a-f])(?=(?:[a-f]{0,9}\d){2})[0-9a-f]{7,40}(?!\w|[.-]\w)",
        lambda match: spelled(match[0]),
    ),
    span("tildes of commits", r"(?<=[A-Z]{2})~(?=\d)", " tilde "),
    span(
        "from a commit to another",
        r"(?:(?<=HEAD)|(?<=[~^]\d)|(?<=\b[0-9a-f]{7}))\.{2,3}(?=\w)|(?<=\d)\.\.(?=v\d|HEAD)",
        " dot dot ",
        without_digits=True,
    ),
    # With a zero before one of them, they are no range of amounts.
    span(
        "numbers of articles",
        r"(?:(?<=[^\w.,:/$#-])|\A|(#\s?))(?<!\b[A-Z]{2} )(0\d{2,8}|\d{1,9}(?=-0\d))-(\d{1,9})"
        r"(?![\w-]|[.,:/]\d)",
        lambda match: (
            f"{'number ' * bool(match[1])}{english_digits(match[2])}, {english_digits(match[3])}"
        ),
    ),
    span("the commit before", r"(?<=\bHEAD)\^", " caret"),
    span(
        "post codes of Britain",
        r"\b([A-Z]{1,2}\d[A-Z\d]?) (\d[A-Z]{2})\b",
        lambda match: f"{spelled(match[1])}, {spelled(match[2])}",
    ),
    span("accounts", r"\ba/c(?=\s(?:no\.?\s)?\d{4})", "account"),
    span(
        "numbers behind their noun",
        r"(?P<sign>#\s?)?(?<![\w.,:/$-])(?P<number>\d{2,20})(?:-(?P<part>\d{1,3}))?(?![\w%]|[.,:/-]\d)",
        _named,
    ),
    span(
        "numbers behind two letters",
        rf"{_CARRIER}(?<!\b[A-Z]{{2}} [A-Z]{{2}} )[1-9]\d{{2,3}}"
        r"(?![\w%°\"'′]|[.,:/-]\d|\s(?:[a-z]{2,20}s|[A-Z]{2,})\b)",
        lambda match: say_in_pairs(match[0]),
    ),
    span(
        "rounds of a fight",
        r"\bR([1-9]|1[0-5])(?=\s\d:[0-5]\d\b)",
        lambda match: f"round {english_number(match[1])},",
    ),
    span(
        "quarters of a year",
        r"\b([1-4])Q\s?(\d\d|20\d\d)\b",
        lambda match: f"the {english_ordinal(match[1])} quarter of {match[2]}",
    ),
    span("letters of years", r"\bFY(?=\d)", "F Y"),
    span("letters of files", r"\b[Mm][Pp](?=[34]\b)(?=\d)", "M P"),
    span(
        "plans of pensions",
        r"\b(?=\d)40([13])\s?\(([kb])\)",
        lambda match: f"four o {english_number(match[1])} {match[2]}",
    ),
    # "b-c-1-5" and "5-3-W" are no ranges; "2-3-year-old" has one.
    span(
        "codes with hyphens",
        r"(?<![\w-])(?!\d+-\d+-[a-z]{3})(?=[\w-]{0,40}[A-Za-z])(?=[\w-]{0,40}\d-\d)"
        r"\w{1,8}(?:-\w{1,8}){2,12}(?![\w-])",
        lambda match: match[0].replace("-", " "),
    ),
    span("models", r"\b([A-Za-z]{1,9}\d{1,5})-(\d{1,5})(?!\d|-)", _model),
    span(
        "models of one letter",  # A380 and F-150
        r"\b([A-Z])-?([1-9]\d\d)(?![\w.,-]*\d|\w)((?=\s\d))?",
        # A number behind it is another one: "A100 80GB".
        lambda match: f"{match[1]} {say_in_pairs(match[2])}{'' if match[3] is None else ','}",
    ),
    # "SpO2 99%": two numbers, but for a year behind its quarter.
    span("numbers behind a name", r"(?<=[A-Za-z]\d) (?=\d)(?<!\b[QH]\d )", ", "),
    span(
        "networks without wires",
        r"\b802\.(1?\d)([a-z]{1,2})\b",
        lambda match: f"eight o two point {english_number(match[1])} {' '.join(match[2])}",
    ),
    span(
        "calls",  # foo.bar() and my_function()
        r"\b[A-Za-z_]\w{0,60}(?:\.[A-Za-z_]\w{0,60}){0,8}\(\)",
        lambda match: match[0][:-2].replace(".", " dot ").replace("_", " "),
    ),
    span(
        "lines of a picture",
        r"(?<![\w.,$])(?=\d)(720|1080|1440|2160)([pi])\b",
        lambda match: f"{say_in_pairs(match[1])} {match[2]}",
    ),
)
