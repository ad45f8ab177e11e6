"""Speak long works from end to end with the bundled voice, and check what comes out.

    python -m benchmarks.longform book --minutes 125 --kills 5 --json book.json
    python -m benchmarks.longform film --folder film --json film.json
    python -m benchmarks.longform steady --folder steady --script book.epub --json steady.json

``book`` speaks a book undisturbed, then again with kills at random moments, and compares the files;
it needs ffmpeg (``apt-get install ffmpeg``) and Linux. ``film`` speaks 200 cues exactly as long as
they are shown, and plainly; the folder then has both, for judges. ``steady`` reads a book in five
voices with and without ``--steady retry``, and tells how alike the utterances of each voice are.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..common.command import new_parser, origin, write_json
from .book_run import BookSettings, run_book
from .film_run import run_film
from .steady_run import SteadySettings, run_steady


def main() -> None:
    parser = new_parser("longform", __doc__)
    parser.add_argument("part", choices=("book", "film", "steady"))
    parser.add_argument("--minutes", type=float, default=125.0, help="of the book's speech, about")
    parser.add_argument("--chapters", type=int, default=20, help="of the book")
    parser.add_argument("--kills", type=int, default=5, help="of the second run")
    parser.add_argument("--listened", type=int, default=60, help="stretches of words, by ear")
    parser.add_argument("--cues", type=int, default=100, help="of the film, in each language")
    parser.add_argument("--script", type=Path, help="an English book for `steady` (EPUB, text)")
    parser.add_argument("--model", type=Path, help="folder of a checkpoint for `steady`")
    parser.add_argument("--seed", type=int, default=0, help="of texts and moments")
    parser.add_argument(
        "--folder", type=Path, help="keep all files here (default: a temporary one)"
    )
    parser.add_argument("--json", type=Path, help="write the report here")
    args = parser.parse_args()
    with TemporaryDirectory(prefix="chattts-longform-") as temporary:
        folder = (args.folder or Path(temporary)).absolute()
        report: dict[str, Any] = {**origin(), "part": args.part}
        if args.part == "book":
            numbers = (args.minutes, args.chapters, args.kills, args.listened, args.seed)
            report["figures"] = run_book(BookSettings(folder, *numbers))
        elif args.part == "film":
            report["figures"] = run_film(folder, args.cues, args.seed)
        else:
            steady = SteadySettings(folder, args.minutes, args.script, args.model)
            report["figures"] = run_steady(steady)
    print(json.dumps(report["figures"], indent=1))
    write_json(report, args.json)


if __name__ == "__main__":
    main()
