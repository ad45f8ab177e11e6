"""Names with dots, such as releases of programs and parts of documents, in English."""

from __future__ import annotations

import re

from ..dotted import DOTTED, is_name, say_name
from ..number_words import english_number
from ..spans import span


def _say(match: re.Match[str]) -> str | None:
    written = match[0]
    if not is_name(written):
        return None
    version = "version " if re.match(r"v\d", written) else ""
    bare = written[1:] if version else written
    return version + say_name(bare, english_number, "point", "dot", "dash", " ")


VERSIONS = (span("names with dots", DOTTED, _say),)
