"""The command ``chattts``: speak, keep voices, compare and check sound files, manage checkpoints.

Until a command runs, only the standard library is imported. So ``--help`` is quick, and ``doctor``
can report which other packages are missing.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ..errors import ChatTTSError
from ..version import __version__
from . import (
    align,
    assets_commands,
    check,
    compare,
    doctor,
    mcp,
    read,
    refine,
    say,
    serve,
    verify,
    voice,
)
from .console import Console, UsageError, console_logging, print_error
from .options import Parser

# The exit statuses of shells for a program that a signal ended: 128 plus the signal's number.
_INTERRUPTED = 130
_PIPE_CLOSED = 141

_DESCRIPTION = """\
Speak texts with a ChatTTS model, on this machine.

  chattts say Hello, world                      write speech.wav
  chattts say "Good morning." -o morning.mp3    choose the format by the suffix: wav, flac, mp3, ...
  chattts say -f story.txt -o story.wav         speak a file of any length
  chattts say --play "How are you?"             play the sound while it is generated
  echo "Hello." | chattts say --stream - | aplay -f S16_LE -r 24000
  chattts voice new --name anna                 draw a random voice and save it
  chattts say "It's me." --voice anna           speak with a saved voice
  chattts read book.epub -o book.m4b            speak a whole book, with chapters
  chattts serve                                 start a server: web page, REST, WebSocket, gRPC
  chattts doctor                                check the installation

A small model for English and Mandarin comes with the package. `chattts download` fetches the
full ChatTTS model.
"""
_EPILOG = "`chattts COMMAND --help` shows a command's options and examples."


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments after the program's name; those of the process by default.

    Returns:
        The exit status: 0 for success, 1 for a failure, 2 for a wrong command line, 130 after
        Ctrl-C, 141 when the reader of the output has closed the pipe.
    """
    try:
        args = _parse(argv)
    except SystemExit as end:  # argparse has printed the help or the error
        return end.code if isinstance(end.code, int) else 1
    console = Console(verbose=args.verbose, quiet=args.quiet)
    with console_logging(console):
        status = _run(args, console)
    if failures := sys.modules.get("ChatTTS.model.cuda.failures"):  # no GPU without it
        failures.leave_if_lost(status)
    return status


def _run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; turn every exception into one line and an exit status."""
    try:
        status: int = args.run(args, console)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        _discard_stdout()
        return _PIPE_CLOSED
    except KeyboardInterrupt:
        print_error("interrupted")
        return _INTERRUPTED
    except Exception as error:
        console.show_traceback()
        print_error(f"error: {_message(error, console)}")
        return 2 if isinstance(error, UsageError) else 1


def _message(error: Exception, console: Console) -> str:
    if isinstance(error, ChatTTSError):
        return str(error)
    if isinstance(error, ImportError):
        return f"{error}; `chattts doctor` shows what is missing and how to fix it"
    more = "" if console.shows_traceback else " (-vv shows where)"
    return f"{type(error).__name__}: {error}{more}"


def _discard_stdout() -> None:
    """Redirect standard output, so that flushing it at exit does not fail on the closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = _parser()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments:
        parser.print_help()
        parser.exit(2)
    args: argparse.Namespace
    # argparse does not take words after an option that follows other words: `say hi -o a.wav you`.
    args, left = parser.parse_known_args(arguments)
    unknown = [word for word in left if word.startswith("-") and word != "-"]
    if unknown or (left and not hasattr(args, "text")):
        parser.error(f"unknown: {' '.join(unknown or left)}")
    if left:
        args.text += left
    return args


def _parser() -> Parser:
    parser = Parser(prog="chattts", description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("--version", action="version", version=f"chattts-velocity {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (
        say,
        read,
        serve,
        mcp,
        refine,
        voice,
        compare,
        check,
        verify,
        align,
        assets_commands,
        doctor,
    ):
        command.add_to(commands)
    return parser
