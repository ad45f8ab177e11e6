"""Progress bars beside those of other code."""

from __future__ import annotations

import io
import re

from tqdm import tqdm

from ChatTTS.utils.progress import Bar


def test_bars_stand_below_those_of_others() -> None:
    with (
        tqdm(total=1, file=io.StringIO()),
        Bar(total=1, file=io.StringIO()) as first,
        Bar(total=1, file=io.StringIO()) as second,
    ):
        assert (abs(first.pos), abs(second.pos)) == (1, 2)


def test_a_line_takes_bars_away_while_it_is_written() -> None:
    file = io.StringIO()
    with tqdm(total=1, desc="other", file=file), Bar(total=1, desc="own", file=file):
        before = len(file.getvalue())
        Bar.print("a line", file)
    said = file.getvalue()[before:]
    cleared, _, drawn = said.partition("a line")
    assert re.sub(r"\x1b\[A|\s", "", cleared) == ""
    assert "other" in drawn
