"""Write notes, warnings and errors to standard error, at the verbosity that the user chose."""

from __future__ import annotations

import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from ..errors import ChatTTSError, printable

_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


class UsageError(ChatTTSError):
    """A command line that is contradictory or incomplete."""


@dataclass(frozen=True)
class Console:
    """The verbosity of a command.

    Attributes:
        verbose: 1 shows the library's log, 2 also shows debug records and tracebacks.
        quiet: whether only warnings and errors are shown.
    """

    verbose: int = 0
    quiet: bool = False

    @property
    def level(self) -> int:
        """The lowest level of the log records that are shown."""
        return _LEVELS[min(self.verbose, 2)]

    @property
    def shows_traceback(self) -> bool:
        """Return whether errors are shown with their traceback."""
        return self.verbose >= 2

    def note(self, message: str) -> None:
        """Print an informational message."""
        if not self.quiet:
            print("\n".join(map(printable, message.split("\n"))), file=sys.stderr, flush=True)

    def show_traceback(self) -> None:
        """Print the traceback of the error that is being handled, if tracebacks are shown."""
        if self.shows_traceback:
            traceback.print_exc()


def counted(count: int, name: str) -> str:
    """Return a count with its noun: "1 chapter", "2 chapters"."""
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def print_error(message: str) -> None:
    """Print a message as one line, even if it has line breaks or a terminal's control codes."""
    print("chattts:", printable(" ".join(message.split())), file=sys.stderr, flush=True)


def warn(message: str) -> None:
    """Print a warning."""
    print_error(f"warning: {message}")


def confirm(question: str, yes: bool) -> bool:
    """Ask for a confirmation on the terminal, unless ``yes`` gives it already.

    Raises:
        UsageError: standard input is not a terminal.
    """
    if yes:
        return True
    if not sys.stdin or not sys.stdin.isatty():
        raise UsageError(f"{question} There is no terminal to answer on; confirm with -y")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def table(*rows: tuple[str, ...]) -> str:
    """Format the rows of a table with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def size(count: int) -> str:
    """Format a number of bytes, such as ``1.20 GB``."""
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.2f} GB"


@contextmanager
def console_logging(console: Console) -> Iterator[None]:
    """Send the package's log to standard error and silence other libraries, inside the context."""
    for library in ("TRANSFORMERS_VERBOSITY", "HF_HUB_VERBOSITY"):
        os.environ.setdefault(library, "error")
    _use_utf8(sys.stdout)
    logger, handler = logging.getLogger("ChatTTS"), _Handler()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(console.level)
    try:
        with warnings.catch_warnings():
            if not console.shows_traceback:
                warnings.simplefilter("ignore")
                warnings.filterwarnings("default", module=r"ChatTTS\b")
            warnings.showwarning = _show_warning
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class _Handler(logging.Handler):
    """Writes log records without breaking the lines of progress bars."""

    def emit(self, record: logging.LogRecord) -> None:
        from ..utils.progress import Bar

        message = printable(" ".join(record.getMessage().split()))
        Bar.print(f"chattts: {record.levelname.lower()}: {message}", sys.stderr)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    warn(str(message))


def _use_utf8(stream: TextIO) -> None:
    """Let a pipe take speaker strings: their Chinese characters fail in Windows' code pages."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None and not stream.isatty():
        reconfigure(encoding="utf-8")
