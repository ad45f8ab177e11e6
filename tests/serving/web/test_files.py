"""The files of the web page, read without a browser."""

from __future__ import annotations

import re
from pathlib import Path

import ChatTTS

WEB = Path(ChatTTS.__file__).parent / "serving" / "web"


def test_the_files_suit_a_strict_policy() -> None:
    unsafe = re.compile(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function"
        r"|setAttribute\(\"style|\sstyle=|\son[a-z]+=\"|https?://(?!www\.w3\.org/2000/svg)"
    )
    files = [path for path in WEB.iterdir() if path.is_file()]
    assert len(files) > 3
    for path in files:
        assert not unsafe.search(path.read_text(encoding="utf-8")), path.name
