"""A stranger's script, read in a process of its own."""

from __future__ import annotations

from ChatTTS.longform.subprocess_reader import Reading, read_in_subprocess
from ChatTTS.serving.scripts.options import ScriptOptions

MARKDOWN = b"The wolf left.[^1] It was cold.\n\n[^1]: In March.\n"


def test_notes_of_a_script_are_spoken_where_its_options_say() -> None:
    options = ScriptOptions.of({"notes": "inline"})
    reading = Reading("a.md", None, 1000, False, None, None, 500, 1000, 100.0, options.notes)
    assert [line.text for line in read_in_subprocess(MARKDOWN, reading).lines] == [
        *("The wolf left.", "Note: In March.", "It was cold."),
    ]
