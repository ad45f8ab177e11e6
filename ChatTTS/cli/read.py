"""``chattts read``: speak a book, a dialogue or subtitles as one work."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ChatTTSError, ConfigError
from .console import Console, UsageError, counted, warn
from .marks import add_mark_options, credentials_of, mark_of
from .model import choose_model, load_chat
from .options import (
    Commands,
    Parser,
    add_command,
    add_engine_options,
    add_language_option,
    add_lexicon_option,
    add_sampling_options,
    add_silence_options,
    checked_parameters,
    language_of,
    read_lexicon,
    sampling_parameters,
    silence_arguments,
)

if TYPE_CHECKING:
    from ..config.mark import Mark
    from ..longform.recording import Recording, SpokenPiece
    from ..longform.script import Script
    from ..longform.settings import Loudness, Pauses, ReadSettings

_DETAILS = """\
Speak a book, a dialogue, subtitles or SSML as one work, with its voices, pauses and chapters.

  chattts read book.epub -o book.m4b               chapters, title and cover go into the file
  chattts read notes.md -o notes.mp3 --from 2 --to 4
  chattts read play.txt -o play.opus --voices roles.toml
  chattts read film.srt -o film.wav                each cue at its time
  chattts read film.srt -o film.wav --fit          and exactly as long as it is shown
  chattts read talk.ssml -o talk.flac --strict     an unknown element is an error
  chattts read book.epub --plan                    chapters, minutes and texts; nothing is spoken
  chattts read book.epub -o book.m4b --subtitles book.vtt --loudness audiobook

Every line is kept in a folder beside the output while it is spoken. A run that was stopped goes on
from there, with the same arguments, to the same file; the folder is deleted when the work is done.

It needs the extra `longform`: pip install 'chattts-velocity[longform]'.
"""
_FORMATS = ("plain", "markdown", "dialogue", "cues", "ssml", "lines", "epub")


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "read", run, "speak a book or a script as one work", _DETAILS)
    parser.add_argument(
        "script",
        metavar="SCRIPT",
        help="the file: .txt, .md, .epub, .srt, .vtt, .ass, .ssml or .jsonl",
    )
    _add_script_options(parser)
    _add_time_options(parser)
    _add_output_options(parser)
    add_sampling_options(parser)
    add_engine_options(parser)


def _add_script_options(parser: Parser) -> None:
    group = parser.add_argument_group("script")
    group.add_argument(
        "--format", choices=_FORMATS, help="format of the script; chosen by its ending by default"
    )
    group.add_argument(
        "--strict",
        action="store_true",
        help="take what would be left out, such as an unknown element of SSML, as an error",
    )
    group.add_argument(
        "--from", dest="first", metavar="CHAPTER", help="begin with this chapter: number or title"
    )
    group.add_argument("--to", dest="last", metavar="CHAPTER", help="end with this chapter")
    group.add_argument(
        "--notes",
        choices=("skip", "end", "inline"),
        default="skip",
        help="speak footnotes and endnotes at the end of their chapter, or inline, after the "
        "sentence; default: skip",
    )
    group.add_argument(
        "--plan",
        action="store_true",
        help="print what would be spoken, chapter by chapter, with the minutes expected",
    )
    group.add_argument(
        "--voices",
        metavar="FILE",
        help='TOML with the voices of the names in the script: Anna = "edith", or a table [Anna] '
        "with voice, speed, tempo, temperature, oral, laugh, breaks or seed",
    )
    group.add_argument("--voice", metavar="VOICE", help="voice of all lines that name none")
    add_language_option(group)
    add_lexicon_option(group, "how words of the script are said")
    group.add_argument(
        "--pause",
        action="append",
        default=[],
        metavar="KIND=SECONDS",
        help="silence after a phrase, sentence, line, paragraph or chapter; may be repeated",
    )
    group.add_argument(
        "--guard",
        choices=("retry", "report"),
        help="look for skipped and repeated words; `retry` speaks such a sentence again",
    )
    group.add_argument(
        "--steady",
        choices=("retry", "report"),
        help="compare voice, loudness and pace of each sentence with the usual ones of its voice; "
        "`retry` speaks a sentence again that leaves them",
    )


def _add_time_options(parser: Parser) -> None:
    group = parser.add_argument_group("time")
    group.add_argument(
        "--fit",
        action="store_true",
        help="speak each cue of subtitles exactly as long as it is shown",
    )
    group.add_argument(
        "--late",
        choices=("shift", "overlap", "cut", "tempo"),
        default="shift",
        help="what becomes of speech that is too long for that where it is shortest: what follows "
        "begins later (shift), or meanwhile (overlap), its end is cut, or its tempo is raised, up "
        "to 1.5 times; default: shift",
    )


def _add_output_options(parser: Parser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        help="sound file: .m4b, .m4a, .mp3, .opus, .flac or .wav; required without --plan",
    )
    group.add_argument(
        "--loudness",
        default="-16",
        metavar="LUFS",
        help="integrated loudness by EBU R128, `audiobook` (-19) or `off`; default: -16",
    )
    group.add_argument(
        "--subtitles", metavar="FILE", help="also write subtitles (.srt, .vtt, .ass, .lrc, .json)"
    )
    add_mark_options(group)
    group.add_argument(
        "--resume-folder",
        metavar="FOLDER",
        help="folder of the spoken lines; default: the output's name with .parts",
    )
    add_silence_options(group, between_paragraphs=False)  # --pause has them
    group.add_argument("--keep", action="store_true", help="keep that folder when the work is done")
    group.add_argument(
        "--side-by-side", type=int, metavar="N", help="lines that are generated at once; default: 8"
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Read; return the exit status."""
    from ..audio.content_credentials import check_signed_format, sign
    from ..longform.sound_file import check_sound_file

    if args.plan:
        return _print_plan(args)
    if args.out is None:
        raise UsageError("-o/--out, the sound file, is required; or give --plan")
    out = Path(args.out)
    check_sound_file(out)
    if args.subtitles is not None:
        from ..audio.subtitles import check_subtitles

        check_subtitles(args.subtitles)
        if _is_same(args.subtitles, args.script):
            raise UsageError(f"--subtitles {args.subtitles} would replace the script")
    mark, credentials = mark_of(args), credentials_of(args)
    if credentials is not None:
        check_signed_format(out)
    loudness = _loudness(args.loudness)
    settings = _settings(args)
    script = _script(args)
    choice = choose_model(args.model)
    chat = load_chat(choice, args, console)
    folder = Path(args.resume_folder or f"{out}.parts")
    with chat.read(script, settings, folder=folder) as recording:
        if kept := recording.lines_kept:
            are = "is" if kept == 1 else "are"
            console.note(f"{counted(kept, 'line')} of {folder} {are} used again")
        try:
            _save(recording, args, loudness, mark, console)
            if credentials is not None:
                sign(out, credentials, mark)
        except (ChatTTSError, KeyboardInterrupt):
            kept = recording.lines_kept
            are = "is" if kept == 1 else "are"
            console.note(f"{counted(kept, 'line')} {are} kept in {folder} for the next run")
            raise
        if not args.keep:
            recording.remove_kept()
    return 0


def _print_plan(args: argparse.Namespace) -> int:
    """Print what would be spoken; no model is loaded."""
    from .read_plan import plan_of

    settings = _settings(args)
    for line in plan_of(_script(args), settings):
        print(line)
    return 0


def _is_same(first: str, second: str) -> bool:
    return Path(first).resolve() == Path(second).resolve()


def _script(args: argparse.Namespace) -> Script:
    """Return the script, or the chapters of it that are asked for."""
    from ..longform.files import read_script

    script = read_script(args.script, args.format, args.notes)
    for warning in script.warnings:
        if not args.strict:
            warn(warning)
    if args.strict:
        script.check_strict()
    return script.between(args.first, args.last)


def _settings(args: argparse.Namespace) -> ReadSettings:
    from ..longform.settings import Late, ReadSettings, read_roles

    sampling = sampling_parameters(args) | {"show_tqdm": False}
    # A run that goes on must draw as the run before did, so the seed is not random.
    del sampling["manual_seed"]
    checked_parameters("InferCodeParams", sampling)
    try:
        return ReadSettings(
            voices={} if args.voices is None else read_roles(args.voices),
            voice=args.voice,
            pauses=_pauses(args.pause),
            seed=0 if args.seed is None else args.seed,
            lang=language_of(args),
            lexicon=read_lexicon(args.lexicon),
            word_times=args.subtitles is not None,
            guard=args.guard,
            steady=args.steady,
            parameters=sampling,
            side_by_side=args.side_by_side,
            **silence_arguments(args),
            fit=args.fit,
            late=Late(args.late),
        )
    except ConfigError as error:
        raise UsageError(str(error)) from error


def _pauses(given: list[str]) -> Pauses:
    from ..longform.settings import Pauses

    kinds = [each.name for each in fields(Pauses)]
    values: dict[str, Any] = {}
    for pair in given:
        kind, _, seconds = pair.partition("=")
        try:
            values[kind] = float(seconds)
        except ValueError:
            kind = ""
        if kind not in kinds:
            raise UsageError(f"--pause takes {', '.join(kinds)}, such as sentence=0.4, not {pair}")
    return Pauses(**values)


def _loudness(given: str) -> Loudness | None:
    from ..longform.settings import AUDIOBOOK, Loudness

    if given == "off":
        return None
    if given == "audiobook":
        return AUDIOBOOK
    try:
        return Loudness(float(given))
    except ValueError as error:  # ConfigError is one
        raise UsageError(
            f"--loudness takes LUFS from -40 to -5, audiobook or off, not {given}"
        ) from error


def _save(
    recording: Recording,
    args: argparse.Namespace,
    loudness: Loudness | None,
    mark: Mark | None,
    console: Console,
) -> None:
    from ..audio import SAMPLE_RATE
    from ..utils.progress import progress

    lines = recording.script.lines
    end = 0

    def heard(piece: SpokenPiece) -> None:
        nonlocal end
        end = piece.end
        bar.update()

    with progress("reading", "line", show=not console.quiet, total=len(lines)) as bar:
        recording.save(
            args.out, loudness, subtitles=args.subtitles, heard=heard, mark=mark or False
        )
    minutes, seconds = divmod(round(end / SAMPLE_RATE), 60)
    chapters = len({line.chapter for line in lines})
    console.note(
        f"{args.out}: {minutes} min {seconds} s, {counted(chapters, 'chapter')}, "
        f"{counted(len(lines), 'line')}"
    )
    if args.subtitles is not None:
        console.note(f"subtitles in {args.subtitles}")
