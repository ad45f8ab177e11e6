"""The command ``chattts``: speak, keep voices, compare, look after checkpoints.

The commands are made of the standard library alone until one of them runs: ``--help`` is quick,
and ``doctor`` can tell which other packages are missing.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ..errors import ChatTTSError
from ..version import __version__
from . import assets_commands, compare, doctor, refine, say, serve, voice
from .console import Console, UsageError, complain, reporting
from .options import Parser

# What shells call it when a signal ended a program: 128 and the number of the signal.
_INTERRUPTED = 130
_PIPE_CLOSED = 141

_DESCRIPTION = """\
Speak texts with a ChatTTS model, on this machine.

  chattts say Hello, world                      into speech.wav
  chattts say "Good morning." -o morning.mp3    wav, flac, mp3, ogg or opus, by the ending
  chattts say -f story.txt -o story.wav         a file, however long
  chattts say --play "How are you?"             hear it while it is spoken
  echo "Hello." | chattts say --stream - | aplay -f S16_LE -r 24000
  chattts voice new --name anna                 draw a random voice and keep it
  chattts say "It's me." --voice anna
  chattts serve                                 a page, REST, WebSocket and gRPC
  chattts doctor                                is everything here?

A small English voice comes with the package. `chattts download` fetches the full ChatTTS model.
"""
_EPILOG = "`chattts COMMAND --help` has the options of a command, and examples."


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments after the program's name; those of the process by default.

    Returns:
        The exit status: 0, 1 for what failed, 2 for a wrong command line, 130 after Ctrl-C, 141
        when the reader of the output has gone.
    """
    try:
        args = _parse(argv)
    except SystemExit as end:  # argparse has printed the help, or what is wrong
        return end.code if isinstance(end.code, int) else 1
    console = Console(verbose=args.verbose, quiet=args.quiet)
    with reporting(console):
        return _guarded(args, console)


def _guarded(args: argparse.Namespace, console: Console) -> int:
    """Run the command; whatever happens becomes one line and an exit status."""
    try:
        status: int = args.run(args, console)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        _forget_stdout()
        return _PIPE_CLOSED
    except KeyboardInterrupt:
        complain("interrupted")
        return _INTERRUPTED
    except Exception as error:
        console.show_traceback()
        complain(f"error: {_message(error, console)}")
        return 2 if isinstance(error, UsageError) else 1


def _message(error: Exception, console: Console) -> str:
    if isinstance(error, ChatTTSError):
        return str(error)
    if isinstance(error, ImportError):
        return f"{error}; `chattts doctor` says what is missing and what mends it"
    more = "" if console.shows_traceback else " (-vv shows where)"
    return f"{type(error).__name__}: {error}{more}"


def _forget_stdout() -> None:
    """Keep the interpreter from complaining at its end that the last bytes went nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = _parser()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments:
        parser.print_help()
        parser.exit(2)
    # argparse leaves out words that follow an option after the first words: `say hi -o a.wav you`.
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
    for command in (say, serve, refine, voice, compare, assets_commands, doctor):
        command.add_to(commands)
    return parser
