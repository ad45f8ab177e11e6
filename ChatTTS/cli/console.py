"""What people read on standard error: notes, warnings and errors, as much as they asked for."""

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

from ..errors import ChatTTSError

_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


class UsageError(ChatTTSError):
    """A command line that contradicts itself or lacks something."""


@dataclass(frozen=True)
class Console:
    """How much to say.

    Attributes:
        verbose: 1 shows what the library is doing, 2 also where errors come from.
        quiet: only warnings and errors.
    """

    verbose: int = 0
    quiet: bool = False

    @property
    def level(self) -> int:
        """The least severe log records that are shown."""
        return _LEVELS[min(self.verbose, 2)]

    @property
    def shows_traceback(self) -> bool:
        """Whether errors are shown with where they come from."""
        return self.verbose >= 2

    def note(self, message: str) -> None:
        """Say something that is good to know."""
        if not self.quiet:
            print(message, file=sys.stderr, flush=True)

    def show_traceback(self) -> None:
        """Show where the error that is being handled comes from, if that was asked for."""
        if self.shows_traceback:
            traceback.print_exc()


def complain(message: str) -> None:
    """One line on standard error, whatever ``message`` holds."""
    print("chattts:", " ".join(message.split()), file=sys.stderr, flush=True)


def warn(message: str) -> None:
    """Say what the caller should think about."""
    complain(f"warning: {message}")


def confirm(question: str, yes: bool) -> bool:
    """Ask on the terminal, unless the answer is ``yes`` already.

    Raises:
        UsageError: there is nobody to ask.
    """
    if yes:
        return True
    if not sys.stdin or not sys.stdin.isatty():
        raise UsageError(f"{question} There is no terminal to ask on; say yes with -y")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def table(*rows: tuple[str, ...]) -> str:
    """Rows of texts as aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def size(count: int) -> str:
    """Bytes for people."""
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.2f} GB"


@contextmanager
def reporting(console: Console) -> Iterator[None]:
    """Within this context the package's log goes to standard error, and others' noise nowhere."""
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
    """Writes records between progress bars, not into them."""

    def emit(self, record: logging.LogRecord) -> None:
        from ..utils.progress import Bar

        message = " ".join(record.getMessage().split())
        Bar.print(f"chattts: {record.levelname.lower()}: {message}", sys.stderr)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    warn(str(message))


def _use_utf8(stream: TextIO) -> None:
    """Speaker strings are Chinese characters, which a Windows pipe would refuse by default."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None and not stream.isatty():
        reconfigure(encoding="utf-8")
