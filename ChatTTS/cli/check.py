"""``chattts check``: find the words of a text in a sound file."""

from __future__ import annotations

import argparse

from .console import Console
from .options import Commands, add_command, add_file_option
from .texts import gather_text

_DETAILS = """\
Check with a speech recogniser that a recording has every word of an English text, once and in
order. The recogniser is pocketsphinx, which knows nothing of this package (extra `check`:
pip install 'chattts-velocity[check]').

  chattts check morning.wav --text "Good morning."
  chattts check story.mp3 -f story.txt

The exit status is 1 if words were skipped or repeated. `chattts say --check` checks what it speaks.
"""


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "check", run, "find a text's words in a sound file", _DETAILS)
    parser.add_argument("file", metavar="FILE", help="the recording")
    parser.add_argument("--text", metavar="TEXT", help="the text; `-` reads standard input")
    add_file_option(parser)
    parser.add_argument(
        "--no-normalize",
        dest="normalize",
        action="store_false",
        help="the text is as it is spoken; do not spell out its numbers and symbols",
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Print what was heard; return the exit status."""
    from ..audio import check_words
    from ..text.normalizer import Normalizer

    text = gather_text([] if args.text is None else [args.text], args.files)
    if args.normalize:
        text = Normalizer(characters="'")(text, lang="en")
    checked = check_words(args.file, text)
    print(checked)
    return 0 if checked.good else 1
