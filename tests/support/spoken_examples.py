"""The texts of the page, the documents and the examples, and the length of a teacher's speech."""

from __future__ import annotations

import html
import json
import re
import sys
from pathlib import Path

from .places import ROOT

TEACHER = ROOT / "tests" / "data" / "examples.json"
_PAGE = ROOT / "ChatTTS" / "serving" / "web" / "index.html"
_EXAMPLE = re.compile(r'<button(?P<more>[^>]*) data-example="(?P<text>[^"]*)"')
# A sentence in quotation marks, but not a docstring's first line.
_QUOTED = re.compile(r'(?<!")"([A-Z][^"\n]{10,}[.?!\]])"(?!")')


def page_examples() -> list[str]:
    """Return the English texts of the page's buttons."""
    found = _EXAMPLE.finditer(_PAGE.read_text(encoding="utf-8"))
    return [html.unescape(match["text"]) for match in found if "lang=" not in match["more"]]


def all_examples() -> list[str]:
    """Return the page's texts and all quoted sentences, each once, in the order of files."""
    files = [ROOT / "README.md", ROOT / "examples" / "README.md"]
    for folder in (ROOT / "docs", ROOT / "docs" / "serving"):
        files += sorted(folder.glob("*.md"))
    files += sorted(f for f in (ROOT / "examples").glob("*/*") if f.suffix in (".py", ".sh"))
    quoted = [text for f in files for text in _QUOTED.findall(f.read_text(encoding="utf-8"))]
    return list(dict.fromkeys([*page_examples(), *quoted]))


def teacher_seconds() -> dict[str, float]:
    """Return the seconds that the recipe's teacher speaks for each text."""
    found: dict[str, float] = json.loads(TEACHER.read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Measure all texts anew with the teacher, which ``recipes/voice/README.md`` says how to get.

    The only argument is the folder that holds ``teacher/``.
    """
    from ChatTTS.core import Chat
    from ChatTTS.text import prepare
    from recipes.voice.evaluation.taught import FOLDER, Taught
    from recipes.voice.styles import CAST

    chat, teacher = Chat(), Taught(Path(sys.argv[1]) if sys.argv[1:] else FOLDER)
    chat.load_or_raise("bundled", device="cpu", use_vllm=False)
    voice = next(iter(CAST))
    found = {}
    for text in all_examples():
        utterances = prepare(text, chat.normalizer)
        found[text] = round(sum(teacher.seconds(u, voice) for u in utterances), 2)
    TEACHER.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
